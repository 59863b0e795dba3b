"""The examples run on real text, each as its reader would run it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NEEDS = {
    "dataloader.py --workers 0": ["torch", "tokenizers"],
    "dataloader.py --method spawn": ["torch", "tokenizers"],
    "dataloader.py --method fork": ["torch", "tokenizers"],
    "packed.py": ["torch", "transformers", "accelerate", "tokenizers"],
    "hf_datasets.py": ["datasets", "tokenizers"],
    "megatron.py": ["torch", "tokenizers"],
    "ray_data.py": ["ray", "pyarrow", "tokenizers"],
}


@pytest.mark.parametrize("command", NEEDS)
def test_example(command, tmp_path):
    for module in NEEDS[command]:
        pytest.importorskip(module, reason=f"{module} is missing")
    name, *arguments = command.split()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
