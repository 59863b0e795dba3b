"""Every kind of cut at every position around blocks of 64 and 256 tokens, with plain and streamed stores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest
from engram_fast import HashLayout, TokenMap, _core, reference

LENGTH = 330  # one block of 256 tokens, one of 64, and some more
POSITIONS = range(LENGTH)
BOUNDARY = 7
LIMIT = 900  # below the 1000 ids of the token map
# Bytes from which results are stored around the caches.
STORES = {"streamed": "0", "plain": str(2**50)}


@cache
def document() -> dict[str, Any]:
    """A layout of the usual shape, which the vector kernels treat in their own loop, with a boundary id."""
    sizes = {"engram_vocab_size": [10007] * 3, "max_ngram_size": 4, "n_head_per_ngram": 8}
    layout = HashLayout.preset("engram-demo-v1", token_map=token_map(), pad_id=0, layer_ids=[1, 15], **sizes)
    numbers: dict[str, Any] = json.loads(layout.to_json())
    numbers["boundary_ids"] = [BOUNDARY]
    numbers["ids"]["limit"] = LIMIT
    return numbers


@cache
def token_map() -> TokenMap:
    return TokenMap.from_lookup(np.arange(1000) % 701)


@cache
def hashers() -> list[_core.Hasher]:
    layout = HashLayout.from_json(json.dumps(document()))
    return [_core.Hasher(layout, token_map(), kernel=kernel) for kernel in _core.kernels()]


def random_ids(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """No id among them is the boundary."""
    return np.random.default_rng(seed).integers(BOUNDARY + 1, LIMIT, shape)


def want(ids: np.ndarray, **where: Any) -> np.ndarray:
    return reference.hash_rows(document(), ids, lookup=token_map().lookup, **where)


def check(ids: np.ndarray, **where: Any) -> None:
    expected = want(ids, **where)
    for hasher in hashers():
        for threads in (1, 3):
            got = hasher.hash_batch(ids, num_threads=threads, **where)
            np.testing.assert_array_equal(got, expected, err_msg=hasher.kernel)


def check_boundary_ids() -> None:
    """Row r has its boundary id at position r."""
    ids = random_ids(1, (LENGTH, LENGTH))
    np.fill_diagonal(ids, BOUNDARY)
    check(ids)


def check_segment_changes() -> None:
    """The segment of row r changes at position r."""
    segments = np.tri(LENGTH, dtype=np.int64).T
    check(random_ids(2, (LENGTH, LENGTH)), segment_ids=segments)


def check_mask_holes() -> None:
    """Position r of row r does not take part; its id is none."""
    ids = random_ids(3, (LENGTH, LENGTH))
    np.fill_diagonal(ids, 10**6)
    check(ids, mask=~np.eye(LENGTH, dtype=bool))


def check_ends_of_rows() -> None:
    """Rows of every length, as a batch and as flat ids."""
    for length in POSITIONS:
        ids = random_ids(4 + length, (3, length))
        check(ids)
        check(ids.reshape(-1), cu_seqlens=[0, length, length * 2, length * 3])


def check_states() -> None:
    """The first call of two ends at every position."""
    ids = random_ids(5, (2, LENGTH))
    expected = want(ids)
    for hasher in hashers():
        for position in POSITIONS:
            state = hasher.new_state(2)
            rows = [hasher.step(part, state) for part in np.split(ids, [position], axis=1)]
            np.testing.assert_array_equal(np.concatenate(rows, axis=2), expected, err_msg=f"{position}")
            drafted = hasher.new_state(2)
            hasher.commit(drafted, ids, [position] * 2)
            np.testing.assert_array_equal(hasher.peek(ids[:, position:], drafted), expected[:, :, position:])


def check_refused_ids() -> None:
    """An id between the layout's limit and its map's length is refused at every position; nothing is written."""
    ids = random_ids(6, (LENGTH,))
    out = np.full((2, LENGTH, 24), -1)
    for hasher in hashers():
        for position in POSITIONS:
            for wrong in (LIMIT, 999):
                bad = ids.copy()
                bad[position] = wrong
                try:
                    hasher.hash_batch(bad, out=out)
                except IndexError as error:
                    assert str(error) == (  # noqa: PT017 (the subprocess runs without pytest)
                        f"token id {wrong} at position {position} is outside the layout's vocabulary of {LIMIT} ids"
                    )
                else:
                    raise AssertionError(f"{wrong} at {position} was taken")
    assert (out == -1).all()


CHECKS = [
    check_boundary_ids,
    check_segment_changes,
    check_mask_holes,
    check_ends_of_rows,
    check_states,
    check_refused_ids,
]


@pytest.mark.parametrize("stores", STORES)
def test_no_position_in_a_block_is_special(stores: str) -> None:
    environment = {**os.environ, "ENGRAM_FAST_STREAM_BYTES": STORES[stores]}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, timeout=280)
    assert (done.returncode, done.stdout.split()) == (0, [check.__name__ for check in CHECKS]), done.stderr


if __name__ == "__main__":
    for one in CHECKS:
        one()
        print(one.__name__, flush=True)
