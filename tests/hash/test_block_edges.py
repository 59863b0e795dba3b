"""A boundary, a segment change, a mask hole, an end of row and a state at every position around the kernels' blocks."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from engram_fast import HashLayout, NgramHasher, TokenMap, _core, reference

#: Blocks have 64 and 256 tokens: this many reach past both, and past two of the smaller ones.
TOKENS = 262
EOS = 99
TOKEN_MAP = TokenMap.from_lookup(np.arange(100) // 2)
IDS = np.random.default_rng(0).integers(0, EOS, TOKENS)
FEATURES = ("boundary", "segment", "hole", "row")


@cache
def layout(kind: str) -> HashLayout:
    """Orders 2 to 4 with eight heads (whole vectors), odd heads, or a polynomial; EOS ends the look-back."""
    numbers = {"fill": 7, "boundary_ids": EOS, "token_map": TOKEN_MAP}
    if kind == "polynomial":
        multipliers = [[3, 5, 0, 0]] * 3 + [[7, 11, 13, 17]] * 3
        return HashLayout.from_numbers(
            multipliers=multipliers, moduli=[9001, 9007, 9011] * 2, orders=[2, 4], mix="sum", **numbers
        )
    moduli = [9001 + 2 * c for c in range(24)] if kind == "vectors" else [101 + 2 * c for c in range(9)]
    return HashLayout.from_numbers(
        multipliers=[[2**40 + 1, 2**50 + 3, 2**61 - 1, 5], [3, 7, 11, 2**62 + 9]],
        moduli=[moduli, moduli[::-1]],
        orders=[2, 3, 4],
        layer_ids=[1, 2],
        **numbers,
    )


@cache
def batch(feature: str) -> tuple[np.ndarray, dict[str, Any]]:
    """[TOKENS, TOKENS] ids, and where their look-back stops: in row b the feature lies at position b."""
    ids = np.tile(IDS, (TOKENS, 1))
    at = np.arange(TOKENS)
    if feature == "boundary":
        ids[at, at] = EOS
        return ids, {}
    if feature == "segment":
        return ids, {"segment_ids": (at[None, :] >= at[:, None]).astype(np.int32)}
    mask = np.ones(ids.shape, dtype=bool)
    mask[at, at] = False
    return ids, {"mask": mask}


@cache
def expected(kind: str, feature: str) -> np.ndarray:
    """int64 [L, TOKENS, TOKENS, C] by the reference; read-only."""
    ids, where = batch("segment" if feature == "row" else feature)
    rows = reference.hash_rows(json.loads(layout(kind).to_json()), ids, lookup=TOKEN_MAP.lookup, **where)
    rows.setflags(write=False)
    return rows


@pytest.mark.parametrize("kernel", _core.kernels())
@pytest.mark.parametrize("kind", ["vectors", "odd", "polynomial"])
@pytest.mark.parametrize("feature", FEATURES)
def test_the_end_of_a_look_back_at_every_position(feature: str, kind: str, kernel: str) -> None:
    hasher = NgramHasher(layout(kind), TOKEN_MAP, kernel=kernel)
    want = expected(kind, feature)
    if feature == "row":
        for at in range(TOKENS):
            rows = hasher.hash_batch(IDS, cu_seqlens=[0, at, TOKENS])
            assert np.array_equal(rows, want[:, at]), at
        return
    ids, where = batch(feature)
    for dtype in (np.int32, np.int64):
        assert np.array_equal(hasher.hash_batch(ids, dtype=dtype, **where), want)
    # One row at a time: positions in the memory of the result differ from those in the batch.
    for at in range(0, TOKENS, 3):
        one = {name: value[at : at + 1] for name, value in where.items()}
        assert np.array_equal(hasher.hash_batch(ids[at : at + 1], **one), want[:, at : at + 1]), at


@pytest.mark.parametrize("kernel", _core.kernels())
@pytest.mark.parametrize("kind", ["vectors", "odd", "polynomial"])
@pytest.mark.parametrize("feature", ["boundary", "segment", "hole"])
def test_a_state_at_every_position_next_to_a_look_backs_end(feature: str, kind: str, kernel: str) -> None:
    hasher = NgramHasher(layout(kind), TOKEN_MAP, kernel=kernel)
    ids, where = batch(feature)
    want = expected(kind, feature)
    for split in range(TOKENS + 1):
        # The rows of the batch whose feature lies from four tokens before the split to two after it.
        rows = slice(max(0, split - 4), min(TOKENS, split + 3))
        state = hasher.new_state(len(ids[rows]))
        got = [
            hasher.step(ids[rows, part], state, **{name: value[rows, part] for name, value in where.items()})
            for part in (slice(0, split), slice(split, TOKENS))
        ]
        assert np.array_equal(np.concatenate(got, axis=2), want[:, rows]), split
