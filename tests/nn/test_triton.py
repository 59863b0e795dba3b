"""Triton kernels equal their torch oracles: in Triton's interpreter on the CPU everywhere, compiled where a GPU is."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra `torch`)")
triton = pytest.importorskip("triton", reason="needs triton")

HERE = Path(__file__).parent
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; none is here")


def run_checks(device: str, **environment: str) -> str:
    """In a process of its own: the interpreter is chosen when the kernels are imported."""
    path = os.pathsep.join([str(HERE), str(HERE.parents[1] / "python"), os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment}
    command = [sys.executable, str(HERE / "triton_checks.py"), device]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_kernels_in_the_interpreter() -> None:
    if triton.__version__.startswith("3.0.") and int(np.__version__.split(".")[0]) >= 2:
        pytest.skip("needs numpy 1 with Triton 3.0, whose interpreter stores nothing with numpy 2")
    assert run_checks("cpu", TRITON_INTERPRET="1").startswith("equal")


@needs_gpu
def test_kernels_on_the_device() -> None:
    assert run_checks("cuda").startswith("equal")


@needs_gpu
def test_modules_on_the_device_equal_the_cpu(engram, rows, near) -> None:
    module, hidden, ids = engram(), torch.randn(2, 9, 2, 16), rows(2, 9)
    mask, segments = torch.rand(2, 9) > 0.2, torch.randint(0, 3, (2, 9)).sort(1).values
    results = []
    for device in ("cpu", "cuda"):
        module.zero_grad()
        here = hidden.to(device).requires_grad_()
        out = module.to(device)(here, ids.to(device), mask=mask.to(device), segment_ids=segments.to(device))
        out.square().sum().backward()
        results.append([out, here.grad, *(p.grad for p in module.parameters())])
    for got, want in zip(*reversed(results), strict=True):
        near(got.detach().cpu(), want.detach().cpu(), 1e-4)


@needs_gpu
def test_hash_on_the_device_equals_the_cpu() -> None:
    from engram_fast.nn import RowHasher
    from hashing import hashers

    ids = torch.randint(0, 256, (3, 50))
    for name, hasher in hashers().items():
        module = RowHasher(hasher)
        want = {layer: rows.clone() for layer, rows in module(ids).items()}
        got = module.to("cuda")(ids.cuda())
        assert all(torch.equal(got[layer].cpu(), rows) for layer, rows in want.items()), name


def test_kernels_compile_for_hopper_without_one(tmp_path, monkeypatch) -> None:
    """To machine code for sm_90; what is compiled here has not run."""
    if os.environ.get("TRITON_INTERPRET"):
        pytest.skip("needs Triton's compiler; TRITON_INTERPRET is set")
    compiler = pytest.importorskip("triton.compiler", reason="needs triton")
    if "constexprs" not in inspect.signature(compiler.ASTSource).parameters:
        pytest.skip("needs a Triton that compiles ahead with named constants (3.0 does not)")
    from engram_fast.nn.gate import triton as triton_gate
    from engram_fast.nn.hash import triton as triton_hash
    from triton.backends.compiler import GPUTarget

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    floats = ("weight", "gates", "products", "hidden_scales", "key_scales", "grad_gate", "grad_weight")
    longs = ("ids", "run", "multipliers", "moduli", "offsets", "rows")
    types = {"lookup": "*i32", "column_orders": "*i32", "root_width": "fp32", "eps": "fp32", "floor": "fp32"}
    types |= dict.fromkeys(floats, "*fp32") | dict.fromkeys(longs, "*i64")
    types |= dict.fromkeys(("hidden", "keys", "grad_hidden", "grad_keys"), "*bf16")
    constants = {"BRANCHES": 4, "BLOCK": 1024, "TOKENS": 16, "WINDOW": 3, "ZERO_IS_POSITIVE": True, "OLDEST": True}
    constants |= {"WRAP": True, "HAS_LOOKUP": True, "HAS_OFFSETS": True}
    kernels = (
        triton_gate._forward_kernel,
        triton_gate._backward_kernel,
        triton_hash._xor_kernel,
        triton_hash._sum_kernel,
    )
    for kernel in kernels:
        names = kernel.arg_names
        signature = {name: "constexpr" if name in constants else types.get(name, "i32") for name in names}
        fixed = {(names.index(name),): value for name, value in constants.items() if name in names}
        source = compiler.ASTSource(fn=kernel, signature=signature, constexprs=fixed)
        assert compiler.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]
