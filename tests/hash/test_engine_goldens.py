"""The core against every golden array of rows: whole, in every form of result, with every kernel, and streamed."""

from __future__ import annotations

import itertools
import json
from functools import cache

import goldens
import numpy as np
import pytest
from engram_fast import HashLayout, HashState, NgramHasher, TokenMap, _core, hash_batch

CASES = pytest.mark.parametrize("case", goldens.cases(), ids=str)
# A past is fed as a state, not in one call; `hash` takes no boundaries.
WHOLE_CASES = pytest.mark.parametrize("case", [case for case in goldens.cases() if "past" not in case.where], ids=str)
PLAIN_CASES = pytest.mark.parametrize("case", [case for case in goldens.cases() if not case.where], ids=str)


@cache
def token_map(length: int, content: bytes) -> TokenMap:
    made = TokenMap.from_lookup(np.frombuffer(content, dtype=np.int32))
    assert len(made) == length
    return made


@cache
def hasher_of(name: str, kernel: str | None = None) -> NgramHasher:
    """By the library's own preset, whose numbers must be those of the reference."""
    case = next(case for case in goldens.cases() if str(case) == name)
    made_for = None if case.lookup is None else token_map(len(case.lookup), case.lookup.tobytes())
    layout = HashLayout.preset(case.preset, token_map=made_for, **case.parameters)
    document = json.loads(layout.to_json())
    for key, value in case.layout().items():
        assert document[key] == value, key
    return NgramHasher(layout, made_for, kernel=kernel)


def hasher_for(case: goldens.Case, kernel: str | None = None) -> NgramHasher:
    return hasher_of(str(case), kernel)


def whole(case: goldens.Case) -> tuple[np.ndarray, dict, np.ndarray]:
    """Ids, boundaries and rows int64 [L,B,T,C]; a past is fed as a state, not here."""
    where = {name: value for name, value in case.where.items() if name in ("mask", "segment_ids")}
    return case.ids, where, case.expected.astype(np.int64)


def same(got: np.ndarray, expected: np.ndarray, dtype: type) -> None:
    assert (got.dtype, got.shape) == (dtype, expected.shape)
    assert got.flags.c_contiguous
    assert got.flags.writeable
    np.testing.assert_array_equal(got, expected)


@WHOLE_CASES
@pytest.mark.parametrize("kernel", _core.kernels())
def test_every_form_of_the_result(case: goldens.Case, kernel: str) -> None:
    hasher = hasher_for(case, kernel)
    ids, where, expected = whole(case)
    axes = {0: expected, 1: expected.transpose(1, 0, 2, 3), -2: expected.transpose(1, 2, 0, 3)}
    fits = expected.max() < 2**31 and hasher.layout.max_row(hasher.layout.adds_offsets) < 2**31
    for dtype, (axis, rows), threads in itertools.product((np.int32, np.int64), axes.items(), (1, 2, 7)):
        options = {"layer_axis": axis, "num_threads": threads, **where}
        if dtype is np.int32 and not fits:
            with pytest.raises(ValueError, match="dtype"):
                hasher.hash_batch(ids, dtype=dtype, **options)
            continue
        same(hasher.hash_batch(ids, dtype=dtype, **options), rows, dtype)
        out = np.full(rows.shape, -9, dtype=dtype)
        assert hash_batch(ids, hasher, out=out, **options) is out
        same(out, rows, dtype)
    default = np.int32 if fits else np.int64
    same(hasher.hash_batch(ids, **where), expected, default)


@WHOLE_CASES
def test_layers_of_choice_and_offsets(case: goldens.Case) -> None:
    hasher = hasher_for(case)
    ids, where, expected = whole(case)
    layers = hasher.layout.layer_ids
    for chosen in ([], [layers[-1]], list(layers[::-1]), [layers[0]] * 3):
        rows = hasher.hash_batch(ids, layers=chosen, dtype=np.int64, **where)
        same(rows, expected[[layers.index(layer) for layer in chosen]], np.int64)
    offsets = np.stack([hasher.layout.offsets[layer] for layer in layers])[:, None, None]
    other = expected - offsets if hasher.layout.adds_offsets else expected + offsets
    same(hasher.hash_batch(ids, add_offsets=not hasher.layout.adds_offsets, dtype=np.int64, **where), other, np.int64)


@PLAIN_CASES
def test_hash_gives_layers_by_name(case: goldens.Case) -> None:
    hasher = hasher_for(case)
    rows = hasher.hash(case.ids)
    assert list(rows) == list(hasher.layout.layer_ids)
    for got, expected in zip(rows.values(), case.expected, strict=True):
        same(got, expected.astype(np.int64), np.int64)
    flat = hasher.hash(case.ids[0])
    same(next(iter(flat.values())), case.expected[0, 0].astype(np.int64), np.int64)


@CASES
@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
def test_streamed_in_chunks(case: goldens.Case, size: int) -> None:
    hasher = hasher_for(case)
    ids, where, expected = whole(case)
    state = hasher.seed(case.where["past"]) if "past" in case.where else hasher.new_state(len(ids))
    length = ids.shape[1]
    for begin in range(0, length if size > 2 else min(length, 40), size):
        chunk = slice(begin, min(begin + size, length))
        options = {"dtype": np.int64, **{name: value[:, chunk] for name, value in where.items()}}
        before = state.copy()
        peeked = hasher.peek(ids[:, chunk], state, **options)
        assert state == before
        rows = hasher.step(ids[:, chunk], state, **options)
        same(peeked, expected[:, :, chunk], np.int64)
        same(rows, expected[:, :, chunk], np.int64)
        counts = np.full(len(ids), chunk.stop - chunk.start)
        hasher.commit(before, ids[:, chunk], counts, **{k: v for k, v in options.items() if k != "dtype"})
        assert before == state


def test_the_past_of_the_onnxruntime_operator_is_a_seed() -> None:
    case = next(case for case in goldens.cases() if "past" in case.where)
    hasher, arrays = hasher_for(case), goldens.load(case.golden)
    ids, where, expected = whole(case)
    state = hasher.seed(case.where["past"])
    same(hasher.step(ids, state, dtype=np.int64, **where), expected, np.int64)
    history, lengths = state.to_numpy(raw=True)
    assert (history.dtype, lengths.dtype) == (np.int64, np.int64)
    np.testing.assert_array_equal(history, arrays["present_ids"])
    again = HashState.from_numpy(arrays["past_ids"], hasher)
    same(hasher.step(ids, again, dtype=np.int64, **where), expected, np.int64)
    assert again == state
