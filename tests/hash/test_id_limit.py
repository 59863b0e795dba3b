"""A layout's limit below its token map's length: ids between the two are refused, or enter unmapped, on every path."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from engram_fast import HashLayout, NgramHasher, TokenMap, _core, hash_slice, reference

LENGTH, LIMIT = 100, 60
TOKEN_MAP = TokenMap.from_lookup(np.arange(LENGTH) // 2)
IDS = np.random.default_rng(0).integers(0, LIMIT, (3, 70))


def layout(too_large: str, mix: str) -> HashLayout:
    multipliers = [3, 5, 7] if mix == "xor" else [[3, 5, 0]] * 2 + [[7, 11, 13]] * 2
    numbers = {"multipliers": multipliers, "moduli": [101, 103, 107, 109], "orders": [2, 3], "mix": mix}
    return HashLayout.from_numbers(**numbers, id_limit=LIMIT, too_large_ids=too_large, token_map=TOKEN_MAP)


def oracle(layout: HashLayout, ids: Any) -> np.ndarray:
    return reference.hash_rows(json.loads(layout.to_json()), ids, lookup=TOKEN_MAP.lookup)


@pytest.mark.parametrize("kernel", _core.kernels())
@pytest.mark.parametrize("mix", ["xor", "sum"])
@pytest.mark.parametrize("token_id", [LIMIT, LIMIT + 1, LENGTH - 1])
def test_ids_between_the_limit_and_the_maps_length_are_refused(token_id: int, mix: str, kernel: str) -> None:
    hasher = NgramHasher(layout("error", mix), TOKEN_MAP, kernel=kernel)
    assert np.array_equal(hasher.hash_batch(IDS), oracle(hasher.layout, IDS))
    ids = IDS.copy()
    ids[1, 65] = token_id
    state = hasher.seed(IDS)
    before = state.to_numpy()
    calls = {
        "hash_batch": lambda: hasher.hash_batch(ids),
        "flat": lambda: hasher.hash_batch(ids.ravel(), cu_seqlens=[0, 70, 140, 210]),
        "step": lambda: hasher.step(ids, state),
        "peek": lambda: hasher.peek(ids, state),
        "commit": lambda: hasher.commit(state, ids, np.full(3, 70)),
        "seed": lambda: hasher.seed(ids),
        "hash_slice": lambda: hash_slice(ids[:, 68:], hasher, ids[:, 60:68]),
    }
    for name, call in calls.items():
        with pytest.raises(IndexError, match=rf"{token_id}\b"):
            call()
        assert all(map(np.array_equal, state.to_numpy(), before)), name
    mask = np.ones(ids.shape, dtype=bool)
    mask[1, 65] = False
    rows = hasher.hash_batch(ids, mask=mask)
    assert np.array_equal(rows, hasher.hash_batch(np.where(mask, ids, 0), mask=mask)), "masked ids are not looked at"


@pytest.mark.parametrize("kernel", _core.kernels())
@pytest.mark.parametrize("mix", ["xor", "sum"])
def test_ids_between_the_limit_and_the_maps_length_enter_unmapped(mix: str, kernel: str) -> None:
    hasher = NgramHasher(layout("enter", mix), TOKEN_MAP, kernel=kernel)
    ids = np.random.default_rng(1).integers(0, LENGTH + 20, (3, 300))
    expected = oracle(hasher.layout, ids)
    assert np.array_equal(hasher.hash_batch(ids), expected)
    assert not np.array_equal(
        expected, oracle(HashLayout.from_json(hasher.layout.to_json().replace(f'"limit":{LIMIT}', '"limit":100')), ids)
    ), "the limit matters for these ids"
    state = hasher.new_state(3)
    stepped = [hasher.step(ids[:, at : at + 77], state) for at in range(0, 300, 77)]
    assert np.array_equal(np.concatenate(stepped, axis=2), expected)


def test_a_compressed_preset_whose_vocabulary_is_smaller_than_its_map() -> None:
    numbers = {"vocab_size": LIMIT, "ngram_vocab_size_ratio": 2, "emb_neighbor_num": 3, "emb_split_num": 2}
    numbers |= {"eos_token_id": 1, "ngram_mod_force_prime": True, "ngram_compressed_tokenizer": True}
    nanbeige = HashLayout.preset("nanbeige", token_map=TOKEN_MAP, **numbers)
    assert (nanbeige.id_limit, nanbeige.token_map_length) == (LIMIT, LENGTH)
    hasher = NgramHasher(nanbeige, TOKEN_MAP)
    assert np.array_equal(hasher.hash_batch(IDS), oracle(nanbeige, IDS))
    with pytest.raises(IndexError, match=f"{LIMIT}"):
        hasher.hash_batch([[LIMIT]])
