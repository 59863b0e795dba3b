"""`ENGRAM_FAST_KERNEL` as Python sees it: the forced kernel, or an error that names the variable and the choices."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from engram_fast import _core

CODE = "import engram_fast as ef; print(ef.NgramHasher(ef.HashLayout.preset('blt')).kernel)"


def python(kernel: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ENGRAM_FAST_KERNEL": kernel}
    return subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("kernel", [*_core.kernels(), ""])
def test_the_kernel_that_is_named_is_used(kernel: str) -> None:
    assert python(kernel).stdout.strip() == (kernel or _core.kernels()[0])


@pytest.mark.parametrize("kernel", ["vax", "SCALAR", "scalar,avx2"])
def test_a_kernel_that_there_is_not_is_an_error_that_lists_those_there_are(kernel: str) -> None:
    done = python(kernel)
    assert done.returncode == 1
    known = ", ".join(_core.kernels())
    message = f'ValueError: ENGRAM_FAST_KERNEL: kernel "{kernel}" is not available on this CPU; available: {known}'
    assert done.stderr.splitlines()[-1] == message
