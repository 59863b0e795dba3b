"""Token maps with gaps among their compressed ids: which layouts count what, and which maps they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from engram_fast import HashLayout, NgramHasher, TokenMap, reference
from engram_fast.token_map import megatron
from hypothesis import given, settings
from hypothesis import strategies as st

SMALL = {"engram_vocab_size": [97, 97], "n_head_per_ngram": 2, "pad_id": 0}
# Compressed id 10 is no token's.
LOOKUP = np.where(np.arange(64) == 10, 1, np.arange(64))
OF_63_IDS = {
    0: [91515683286447207, 131354550522904273, 113562503250728783],
    2: [31229475771129333, 46078815423225855, 29066557787581659],
}


def layout(name: str, lookup: np.ndarray, **parameters: object) -> HashLayout:
    return HashLayout.preset(name, token_map=TokenMap.from_lookup(lookup), **{**SMALL, **parameters})


def multipliers(found: HashLayout) -> dict[int, list[int]]:
    return {layer: numbers.tolist() for layer, numbers in found.multipliers.items()}


def test_megatron_counts_different_ids() -> None:
    parameters = {"layer_ids": [0, 2], "seed": 7}
    assert multipliers(layout("megatron", LOOKUP, **parameters)) == OF_63_IDS
    oracle = reference.preset("megatron", lookup=LOOKUP, **SMALL, **parameters)
    assert {numbers["layer_id"]: numbers["multipliers"] for numbers in oracle["layers"]} == OF_63_IDS


@pytest.mark.parametrize("name", ["engram-demo-v1", "tilekernels"])
def test_the_demo_counts_up_to_the_largest_id(name: str) -> None:
    found = multipliers(layout(name, LOOKUP, layer_ids=[0, 2], seed=7))
    assert found == multipliers(layout(name, np.arange(64), layer_ids=[0, 2], seed=7)) != OF_63_IDS


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.integers(0, 40), min_size=41, max_size=60),
    st.sampled_from(["megatron", "engram-demo-v1", "tilekernels", "maxtext-int32"]),
)
def test_rows_equal_the_reference_for_any_gaps(lookup: list[int], name: str) -> None:
    token_map = TokenMap.from_lookup(lookup)
    ids = np.arange(len(lookup))[None]
    oracle = reference.preset(name, lookup=np.array(lookup), **SMALL)
    expected = reference.hash_rows(oracle, ids, lookup=np.array(lookup))
    rows = NgramHasher(layout(name, np.array(lookup)), token_map).hash_batch(ids)
    np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize("name", ["megatron", "engram-demo-v1", "tilekernels", "maxtext-int32"])
def test_a_layout_refuses_compressed_ids_beyond_the_raw_ids_and_names_the_remedy(name: str) -> None:
    lookup = np.array([0, 5])
    assert TokenMap.from_lookup(lookup).size == 6
    with pytest.raises(ValueError, match=r"token_map\.size: the largest compressed id is 5, but there are 2 raw ids"):
        layout(name, lookup)
    assert layout(name, np.unique(lookup, return_inverse=True)[1]).token_map_size == 2


def test_a_megatron_file_takes_the_multipliers_of_a_map_with_gaps(tmp_path) -> None:
    for seed in range(200):
        found = layout("megatron", LOOKUP, layer_ids=[2], seed=seed)
        path = tmp_path / "map.json"
        token_map = TokenMap.from_lookup(LOOKUP)
        megatron.write(path, token_map, pad_token_id=0, layer_multipliers=multipliers(found), hash_seed=seed)
        assert {layer: list(row) for layer, row in megatron.read(path).layer_multipliers.items()} == multipliers(found)
