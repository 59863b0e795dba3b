"""The digests that the official inference code of DeepSeek-V4.1 publishes for its token map and its rows."""

from __future__ import annotations

import hashlib
import json

import goldens
import numpy as np
import pytest
from engram_fast import HashLayout, NgramHasher, TokenMap, reference

PUBLISHED = json.loads((goldens.DATA / "official_v41_digests.json").read_text())
IDS = [[0, 3]]
MASKS = pytest.mark.parametrize("mask", [None, [[True, True]]], ids=["no mask", "all true"])


def digest(array: np.ndarray) -> str:
    """SHA-256 of the numbers as little-endian int64."""
    return hashlib.sha256(np.ascontiguousarray(array, dtype="<i8").tobytes()).hexdigest()


def check(rows: np.ndarray) -> None:
    """Rows [B,T,L,C]."""
    assert rows.shape == (1, 2, 2, 24)
    assert digest(rows) == PUBLISHED["rows_all_layers"]
    assert digest(rows[:, :, 0]) == PUBLISHED["rows_layer_1"]
    assert digest(rows[:, :, 1]) == PUBLISHED["rows_layer_14"]


def test_token_map() -> None:
    assert digest(goldens.lookup("v4")) == PUBLISHED["token_map_lookup"]


@MASKS
def test_rows(mask: list | None) -> None:
    token_map = TokenMap.from_lookup(goldens.lookup("v4"))
    hasher = NgramHasher(HashLayout.preset("deepseek-v4.1", token_map=token_map), token_map)
    check(hasher.hash_batch(IDS, mask=mask, layer_axis=-2))


@MASKS
def test_rows_of_the_reference(mask: list | None) -> None:
    layout = reference.preset("deepseek-v4.1", lookup=goldens.lookup("v4"))
    rows = reference.hash_rows(layout, IDS, lookup=goldens.lookup("v4"), mask=mask)
    check(np.moveaxis(rows, 0, -2))
