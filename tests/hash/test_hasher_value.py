"""A hasher as a value: equality and hash by what it computes, its size in memory, and the types of its parts."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from engram_fast import HashLayout, NgramHasher, TokenMap, _core
from field_hasher import hasher as small


def test_equal_hashers_are_equal_and_hash_alike() -> None:
    one = small()
    assert one == small()
    assert len({one, small(), copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))}) == 1
    for kernel in _core.kernels():
        assert NgramHasher(one.layout, one.token_map, kernel=kernel) == one, "the rows are the same"


@pytest.mark.parametrize(
    "other",
    [
        small(seed=1),
        small(size=1001),
        small(preset="megatron"),
        NgramHasher(small().layout.with_boundary(3), small().token_map),
        NgramHasher(HashLayout.preset("qwen-ple")),
        None,
        "hasher",
    ],
    ids=lambda other: f"{other!r:.40}",
)
def test_other_hashers_are_not_equal(other: object) -> None:
    assert small() != other
    assert not small() == other  # noqa: SIM201  (the other operator)


def test_raw_hashers_are_equal_by_their_layout() -> None:
    layout = HashLayout.preset("qwen-ple")
    assert NgramHasher(layout) == NgramHasher(HashLayout.from_json(layout.to_json()))


def test_nbytes_counts_the_numbers_and_the_look_up() -> None:
    hasher = small(size=1000)
    numbers = 2 * (3 + 4 + 4) * 8  # two layers of three multipliers, four moduli and four offsets
    assert hasher.layout.nbytes == numbers
    assert hasher.nbytes == numbers + 1000 * 4
    assert NgramHasher(HashLayout.preset("blt")).nbytes == (6 * 8 + 6 + 6) * 8
    assert isinstance(hasher.nbytes, int)


def test_the_parts_are_those_that_it_was_built_from() -> None:
    token_map = TokenMap.identity(1000)
    layout = HashLayout.preset("megatron", token_map=token_map, engram_vocab_size=[97, 97], pad_id=0)
    hasher = NgramHasher(layout, token_map)
    assert hasher.layout is layout
    assert hasher.token_map is token_map
    assert np.array_equal(hasher.layout.moduli[1], layout.moduli[1])


def test_type_checkers_know_the_layout_and_the_token_map(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="needs mypy")
    code = tmp_path / "typed.py"
    code.write_text(
        "import engram_fast as ef\n"
        "hasher = ef.NgramHasher.load('folder')\n"
        "reveal_type(hasher.layout)\n"
        "reveal_type(hasher.token_map)\n"
        "reveal_type(ef.HashLayout.from_json('').with_boundary(2))\n"
        "ef.HashLayout.preset('qwen-pie')\n"
    )
    package = Path(sys.modules["engram_fast"].__file__ or "").parents[1]
    command = [sys.executable, "-m", "mypy", "--config-file=", f"--cache-dir={tmp_path / 'cache'}", str(code)]
    command += ["--follow-imports=silent", "--ignore-missing-imports"]
    done = subprocess.run(
        command, env={"MYPYPATH": str(package), "PATH": ""}, capture_output=True, text=True, timeout=280, cwd=tmp_path
    )
    assert 'Revealed type is "engram_fast.layout.hash_layout.HashLayout"' in done.stdout, done.stdout + done.stderr
    assert re.search(r'Revealed type is "engram_fast\.token_map\.\S*TokenMap \| None"', done.stdout)
    assert "incompatible type \"Literal['qwen-pie']\"" in done.stdout
