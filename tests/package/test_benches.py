"""Every benchmark in its smoke mode: it runs, and each peer that is installed agrees with ours."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed (the extra bench)")

PEERS = ["the demo's NumPy", "broadcast NumPy", "torch eager", "ONNX Runtime", "engram-peft", "engramdb-python"]


def smoke(name: str, folder: Path, *options: str) -> dict[str, Any]:
    """Run one benchmark in a process of its own and read its result."""
    file = folder / f"{name}.json"
    command = [sys.executable, "-m", f"benches.bench_{name}", "--smoke", "--json", str(file), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    result = json.loads(file.read_text(encoding="utf-8"))
    assert result["smoke"]
    assert {target["verdict"] for target in result["targets"]} <= {"does not apply", "not measured"}
    return result


@pytest.fixture(scope="module")
def hash_result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return smoke("hash", tmp_path_factory.mktemp("benches"))


@pytest.mark.parametrize("peer", PEERS)
def test_the_peer_agrees_with_ours(hash_result: dict[str, Any], peer: str) -> None:
    if peer in hash_result["missing"]:
        pytest.skip(f"{peer}: {hash_result['missing'][peer]} (the extra bench)")
    verified = [line for line in hash_result["verified"] if line.startswith(f"{peer}:")]
    orders = {"N=3"} if peer == "engramdb-python" else {"N=3", "N=4"}
    assert orders == {line.split(": ")[1].split(",")[0] for line in verified}
    timed = {side["side"] for group in hash_result["groups"] for side in group["sides"]}
    assert peer in timed


def test_each_group_times_ours_and_the_limit_together(hash_result: dict[str, Any]) -> None:
    assert len(hash_result["groups"]) == 6
    for group in hash_result["groups"]:
        sides = {side["side"]: side for side in group["sides"]}
        for name in ("ours, into out=", "ours, into out=, 2 threads", "plain fill", "non-temporal fill"):
            assert sides[name]["rounds"] >= 5
            assert 0 < sides[name]["ns_per_call"]["min"] <= sides[name]["ns_per_call"]["median"]


def test_the_result_says_where_it_comes_from(hash_result: dict[str, Any]) -> None:
    environment = hash_result["environment"]
    for key in ("cpu", "features", "kernel", "python", "engram_fast", "packages", "load_average_at_start"):
        assert environment[key] is not None, key
    assert "ours, scalar kernel: N=3, 3x40" in hash_result["verified"]


def test_one_token(tmp_path: Path) -> None:
    result = smoke("one_token", tmp_path)
    assert "step into out=: N=4, 1 rows" in result["verified"]


def test_token_map(tmp_path: Path) -> None:
    result = smoke("token_map", tmp_path)
    assert "TokenMap.load" in result["verified"]
    if "the V4 tokenizer" in result["missing"]:
        pytest.skip(f"the V4 tokenizer: {result['missing']['the V4 tokenizer']}")
    assert "TokenMap.from_file" in result["verified"]


def test_boundaries_and_a_baseline_in_another_environment(tmp_path: Path) -> None:
    """The other environment gets this very package by way of a .pth file: what is tested is feeding two in turn."""
    import engram_fast
    import numpy as np

    other = tmp_path / "venv"
    venv.create(other, symlinks=True)
    packages = next(other.glob("lib/python*/site-packages"), other / "Lib" / "site-packages")
    places = {str(Path(module.__file__).resolve().parent.parent) for module in (engram_fast, np)}
    (packages / "benched.pth").write_text("\n".join(sorted(places)), encoding="utf-8")
    result = smoke("boundaries", tmp_path, "--baseline", str(other))
    assert "cu_seqlens: N=4" in result["verified"]
    baselines = [group for group in result["groups"] if "baseline" in group["title"]]
    assert [side["side"] for group in baselines for side in group["sides"]] == ["now", "baseline"] * 2


def test_a_wrong_answer_is_not_timed() -> None:
    import numpy as np

    sys.path.insert(0, str(ROOT))
    try:
        from benches.harness import must_equal
    finally:
        sys.path.remove(str(ROOT))
    right = np.arange(6).reshape(2, 3)
    must_equal("same", right, right.astype(np.int32))
    with pytest.raises(AssertionError, match=r"off: 9 at \(1, 2\), expected 5"):
        must_equal("off", right, np.array([[0, 1, 2], [3, 4, 9]]))
    with pytest.raises(AssertionError, match="shape"):
        must_equal("cut", right, right[:1])


def test_the_picture_is_drawn_from_the_record(tmp_path: Path) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed (the extra plot)")
    record = ROOT / "benches" / "record" / "hash.json"
    pictures = [tmp_path / "hash.png", tmp_path / "hash.svg"]
    command = [sys.executable, "-m", "benches.plot", str(record), *map(str, pictures)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(picture.stat().st_size > 10_000 for picture in pictures)


def test_no_record_is_a_smoke_run() -> None:
    records = [file for file in (ROOT / "benches" / "record").glob("*.json") if file.stem != "instructions"]
    assert records
    for file in records:
        result = json.loads(file.read_text(encoding="utf-8"))
        assert result["format"] == "engram-fast-benchmark"
        assert not result["smoke"]
        assert "/" not in (result["environment"]["kernel_forced"] or "")


def test_instruction_counts_are_recorded_for_what_the_guard_counts() -> None:
    record = json.loads((ROOT / "benches" / "record" / "instructions.json").read_text(encoding="utf-8"))
    assert set(record["counts"]) == {"N=3, scalar", "N=3, avx2", "N=4, scalar", "N=4, avx2"}


def test_a_missing_valgrind_is_one_sentence(tmp_path) -> None:
    command = [sys.executable, "-m", "benches.instructions"]
    nowhere = os.environ | {"PATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=nowhere, capture_output=True, text=True)
    assert done.returncode == 2
    assert "valgrind is not installed" in done.stderr
