"""Tables over two processes give the output, the gradients and the updates of one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra `torch`)")
if not torch.distributed.is_available():
    pytest.skip("needs a torch with torch.distributed", allow_module_level=True)

HERE = Path(__file__).parent


def test_two_processes_equal_one() -> None:
    path = os.pathsep.join([str(HERE.parents[1] / "python"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(HERE / "sharding_checks.py")]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "equal"


def run_checks(*arguments: str) -> list[str]:
    path = os.pathsep.join([str(HERE), str(HERE.parents[1] / "python"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(HERE / "checkpoint_checks.py"), *arguments]
    variables = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def saved_by_one_and_two(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    for processes in "12":
        run_checks("save", str(folder), processes)
    return folder


@pytest.mark.parametrize("processes", ["2", "1"])
def test_i3_checkpoints_of_any_processes_load_into_any_processes(saved_by_one_and_two, processes) -> None:
    """Every sharding and optimizer saved by two and by one, loaded by two and by one: weights, states, a third step."""
    loaded = run_checks("load", str(saved_by_one_and_two), processes)
    assert loaded[-1] == "equal"
    assert len(loaded) == {"2": 31, "1": 15}[processes]


def test_i3_other_ways_of_saving_shards_are_equal_or_refused(tmp_path) -> None:
    """torch.save and load by the same process; one process's file in another, safetensors and accelerate refuse."""
    lines = run_checks("other", str(tmp_path), "2")
    assert lines == ["rows refused or equal", "heads refused or equal", "fsdp2 refused or equal", "equal"]


def test_what_cannot_be_sharded_says_why(engram) -> None:
    from engram_fast.nn import EngramV41
    from engram_fast.nn.sharding import shard_tables

    mesh = SimpleNamespace(ndim=1, size=lambda: 3, get_local_rank=lambda: 0)
    with pytest.raises(ValueError, match="accepted are 'rows' and 'heads'"):
        shard_tables(engram(), mesh, by="columns")
    with pytest.raises(ValueError, match="2 axes"):
        shard_tables(engram(), SimpleNamespace(ndim=2))
    with pytest.raises(ValueError, match="sparse gradients"):
        shard_tables(engram(sparse=True), mesh)
    with pytest.raises(ValueError, match="4 heads cannot be shared by 3"):
        shard_tables(engram(), mesh, by="heads")
    options = {"hidden_size": 8, "hc_mult": 2, "num_embeddings": 30, "head_dim": 32, "n_heads": 2, "max_ngram_size": 3}
    with pytest.raises(TypeError, match="only float tables"):
        shard_tables(EngramV41(**options, fp8=True), mesh)
    one = SimpleNamespace(ndim=1, size=lambda: 1, get_local_rank=lambda: 0)
    both = torch.nn.ModuleList([engram(), EngramV41(**options)])
    with pytest.raises(ValueError, match="make it with sizes="):
        shard_tables(both, one, by="heads")
    assert type(both[0].multi_head_embedding.embedding) is torch.nn.Embedding
    twice = shard_tables(engram(), one, by="heads")
    with pytest.raises(ValueError, match="rows is sharded already"):
        shard_tables(twice, one, by="heads")
