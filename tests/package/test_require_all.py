"""The hook of conftest.py: which skips fail under ENGRAM_FAST_REQUIRE_ALL, in a pytest of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parent.parent / "conftest.py"
# What each file holds, and its outcome without and with the variable.
FILES = {
    "module": ("pytest.importorskip('no_such_package')\ndef test_one(): pass", "skipped", "failed"),
    "function": ("def test_one(): pytest.importorskip('no_such_package')", "skipped", "failed"),
    "mark": ("@pytest.mark.skipif(True, reason='needs fork')\ndef test_one(): pass", "skipped", "failed"),
    "fixture": (
        "@pytest.fixture\ndef it(): pytest.skip('no file')\ndef test_one(it): pass",
        "skipped",
        "failed",
    ),
    "gpu": ("def test_one(): pytest.skip('needs a CUDA device; none is here')", "skipped", "skipped"),
    "cpu": ("def test_one(): pytest.skip('this CPU has no avx512')", "skipped", "skipped"),
    "known": ("@pytest.mark.xfail(reason='later')\ndef test_one(): assert False", "xfailed", "xfailed"),
    "good": ("def test_one(): pass", "passed", "passed"),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """{whether all is required: {file: outcome}}; a failure counts only where it says why."""
    folder = tmp_path_factory.mktemp("required")
    (folder / "conftest.py").write_text(CONFTEST.read_text())
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, (body, *_) in FILES.items():
        (folder / f"test_{name}.py").write_text(f"import pytest\n{body}\n")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("ENGRAM_FAST_", "PYTEST_"))}
    # Without the option a module that cannot be collected would end the run.
    command = [sys.executable, "-m", "pytest", "-rA", "--tb=no", "--continue-on-collection-errors"]
    found = {}
    for required in (False, True):
        environment = clean | ({"ENGRAM_FAST_REQUIRE_ALL": "1"} if required else {})
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == (1 if required else 0), done.stdout + done.stderr
        lines = re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL)\b.*?test_(\w+)\.py(.*)", done.stdout, re.MULTILINE)
        words = {"PASSED": "passed", "FAILED": "failed", "ERROR": "failed", "SKIPPED": "skipped", "XFAIL": "xfailed"}
        found[required] = {name: words[word] for word, name, _ in lines}
        found[required] |= {"closing line": done.stdout.rstrip().splitlines()[-1]}
    return found


@pytest.mark.parametrize("name", FILES)
def test_outcome(outcomes, name):
    _, without, required = FILES[name]
    assert outcomes[False][name] == without
    assert outcomes[True][name] == required


def test_counts(outcomes):
    assert "1 passed, 6 skipped, 1 xfailed" in outcomes[False]["closing line"]
    assert "1 failed, 1 passed, 2 skipped, 1 xfailed, 3 errors" in outcomes[True]["closing line"]
