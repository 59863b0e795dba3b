"""The work that is timed: layouts with the real token map, batches of ids, and the oracle that checks the answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from engram_fast import HashLayout, NgramHasher, TokenMap, reference

from benches.environment import ROOT

SIZES = {"1": (1, 1), "64": (1, 64), "8x2048": (8, 2048), "32x4096": (32, 4096), "1M": (512, 2048)}
"""Rows and columns of the batches; 1M is 2**20 tokens."""

SMOKE_SIZES = {"1": (1, 1), "64": (1, 64), "8x2048": (3, 40)}


@cache
def lookup() -> np.ndarray:
    """The token map of the DeepSeek V4 tokenizer, 129280 ids onto 99092, from the golden arrays of the tests."""
    with np.load(ROOT / "tests" / "data" / "token_map_deepseek_v4.npz") as file:
        return file["lookup"].astype(np.int32)


@cache
def token_map() -> TokenMap:
    return TokenMap.from_lookup(lookup())


@dataclass(frozen=True)
class Case:
    """One layout, by the preset's name and parameters, so that other processes and older versions can build it too."""

    preset: str
    parameters: tuple[tuple[str, Any], ...] = ()
    compressed: bool = True

    @cached_property
    def layout(self) -> HashLayout:
        return HashLayout.preset(self.preset, token_map=self.map, **dict(self.parameters))

    @property
    def map(self) -> TokenMap | None:
        return token_map() if self.compressed else None

    @cached_property
    def hasher(self) -> NgramHasher:
        return NgramHasher(self.layout, self.map)

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The layout as plain numbers, for peers and for the oracle."""
        return json.loads(self.layout.to_json())

    def ids(self, shape: tuple[int, int], seed: int = 0) -> np.ndarray:
        """Raw ids, int64, uniform: the hard case for the look-up, as real text repeats itself."""
        return np.random.default_rng(seed).integers(0, self.numbers["ids"]["limit"] or len(lookup()), shape)

    def shape(self, shape: tuple[int, int]) -> tuple[int, ...]:
        return (len(self.layout.layer_ids), *shape, self.layout.columns)

    def buffer(self, shape: tuple[int, int]) -> np.ndarray:
        """An int32 result whose pages are there already."""
        return np.full(self.shape(shape), -1, dtype=np.int32)

    def expected(self, ids: np.ndarray, **where: Any) -> np.ndarray:
        """The answer by the oracle, int64 [L,B,T,C]; slow."""
        return reference.hash_rows(self.numbers, ids, lookup=lookup() if self.compressed else None, **where)


DEMO = Case("engram-demo-v1")
"""N=3, H=8, two layers."""
V41 = Case("deepseek-v4.1")
"""N=4, H=8, two layers, with offsets."""
QWEN = Case("qwen-ple", compressed=False)
"""N=3, H=8, one layer, raw ids."""


def peft(order: int) -> Case:
    """The layout of engram-peft with the sizes of `DEMO`."""
    orders = list(range(2, order + 1))
    return Case(
        "engram-peft",
        (
            ("engram_vocab_size_per_ngram", [646400 * 8] * len(orders)),
            ("ngram_sizes", orders),
            ("n_head_per_ngram", 8),
            ("layer_ids", [1, 15]),
            ("pad_id", 2),
            ("seed", 0),
        ),
    )
