"""For the tests of faults seen in the field: the small hasher that their inputs are made for."""

from __future__ import annotations

from typing import Any

import numpy as np
from engram_fast import HashLayout, NgramHasher, TokenMap

CONFIG = {"layer_ids": [1, 15], "engram_vocab_size": [97, 97], "n_head_per_ngram": 2, "pad_id": 0, "seed": 0}


def hasher(size: int = 1000, lookup: Any = None, preset: str = "engram-demo-v1", **overrides: Any) -> NgramHasher:
    """Two layers, orders 2 and 3, two heads; raw ids are compressed ids unless `lookup` says otherwise."""
    token_map = TokenMap.identity(size) if lookup is None else TokenMap.from_lookup(lookup)
    layout = HashLayout.preset(preset, token_map=token_map, **{**CONFIG, **overrides})
    return NgramHasher(layout, token_map)


def strict(size: int = 1000, lookup: Any = None, **overrides: Any) -> NgramHasher:
    """The same numbers, refusing negative ids as well."""
    return hasher(size, lookup, "megatron", **overrides)


def random_ids(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1000, shape)


def same(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)
