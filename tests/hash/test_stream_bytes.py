"""`ENGRAM_FAST_STREAM_BYTES=0`, stores around the caches for results of every size: the same rows as plain stores."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CODE = """
import hashlib, itertools
import numpy as np
import engram_fast as ef
from strategies import PRESETS, preset

digest, rng = hashlib.sha256(), np.random.default_rng(0)
for name, dtype in itertools.product(PRESETS, ("int32", "int64")):
    hasher = preset(name).hasher
    if dtype == "int32" and hasher.layout.max_row(hasher.layout.adds_offsets) >= 2**31:
        continue
    for shape in ((1, 1), (1, 64), (3, 65), (2, 255), (1, 256), (2, 257), (5, 33), (1, 1000)):
        ids = rng.integers(0, 1000, shape)
        where = {"mask": rng.random(shape) < 0.9, "segment_ids": np.cumsum(rng.random(shape) < 0.1, axis=1)}
        columns = hasher.layout.columns
        for axis, skipped in itertools.product((0, 1, -2), range(3)):
            layers = len(hasher.layout.layer_ids)
            full = {0: (layers, *shape), 1: (shape[0], layers, shape[1]), -2: (*shape, layers)}[axis] + (columns,)
            memory = np.zeros(int(np.prod(full)) + skipped + 8, dtype)
            out = memory[skipped : skipped + int(np.prod(full))].reshape(full)
            hasher.hash_batch(ids, out=out, layer_axis=axis, **where)
            assert not memory[:skipped].any() and not memory[skipped + out.size :].any(), "written outside out"
            digest.update(out.tobytes())
        state = hasher.new_state(shape[0])
        for part in np.array_split(ids, 3, axis=1):
            digest.update(hasher.step(part, state, dtype=dtype).tobytes())
print(digest.hexdigest())
"""


def python(stream_bytes: str | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "ENGRAM_FAST_STREAM_BYTES"}
    package = str(Path(sys.modules["engram_fast"].__file__ or "").parents[1])
    environment["PYTHONPATH"] = os.pathsep.join([package, str(HERE.parent / "support")])
    if stream_bytes is not None:
        environment["ENGRAM_FAST_STREAM_BYTES"] = stream_bytes
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, cwd=HERE, capture_output=True, text=True, timeout=280)


def test_rows_written_around_the_caches_are_the_same_rows() -> None:
    done = {bytes_: python(bytes_, "-c", CODE) for bytes_ in ("0", "1000", None)}
    assert all(run.returncode == 0 for run in done.values()), [run.stderr for run in done.values()]
    assert len({run.stdout for run in done.values()}) == 1


def test_the_golden_arrays_and_the_edges_of_blocks_hold_with_stores_around_the_caches() -> None:
    files = ("test_engine_goldens.py", "test_block_edges.py")
    done = python("0", "-m", "pytest", "-q", "-p", "no:cacheprovider", *files)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize("wrong", ["-1", "many", "1.5", "0x10", "99999999999999999999999"])
def test_a_wrong_number_of_bytes_names_the_variable(wrong: str) -> None:
    code = "import engram_fast as ef; ef.NgramHasher(ef.HashLayout.preset('blt')).hash_batch([[1]])"
    done = python(wrong, "-c", code)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ValueError: ENGRAM_FAST_STREAM_BYTES")
