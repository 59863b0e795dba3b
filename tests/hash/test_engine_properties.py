"""The core equals the reference, and itself under every way to ask: threads, arrays, buffers, packing, padding."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import strategies as sts
from engram_fast import hash_batch
from hypothesis import given, settings
from hypothesis import strategies as st

DTYPES = [np.dtype(order + kind) for kind in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8") for order in "<>"]


def same(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)


@given(st.data())
def test_batches_equal_the_reference(data: st.DataObject) -> None:
    model = data.draw(sts.models())
    shape = data.draw(sts.shapes())
    ids = data.draw(sts.token_ids(model, shape))
    where = data.draw(sts.boundaries(shape))
    add = data.draw(st.sampled_from([None, False, True]))
    rows = model.hasher.hash_batch(ids, dtype=np.int64, add_offsets=add, **where)
    same(rows, model.reference(ids, add_offsets=add, **where))


@given(st.data())
def test_flat_ids_equal_the_reference(data: st.DataObject) -> None:
    model = data.draw(sts.models())
    length = data.draw(sts.LENGTHS)
    ids = data.draw(sts.token_ids(model, (length,)))
    where = data.draw(sts.boundaries((length,)))
    if data.draw(st.booleans()):
        where["cu_seqlens"] = data.draw(sts.cuts(length))
    expected = model.reference(ids, **where)
    same(model.hasher.hash_batch(ids, dtype=np.int64, **where), expected)
    for axis in (1, -2):
        rows = model.hasher.hash_batch(ids, dtype=np.int64, layer_axis=axis, **where)
        same(rows, expected.transpose(1, 0, 2))


@given(st.data())
def test_the_narrow_result_equals_the_wide_one(data: st.DataObject) -> None:
    model = data.draw(sts.models())
    shape = data.draw(sts.shapes(3000))
    ids = data.draw(sts.token_ids(model, shape))
    wide = model.hasher.hash_batch(ids, dtype=np.int64)
    rows = model.hasher.hash_batch(ids)
    fits = model.hasher.layout.max_row(model.hasher.layout.adds_offsets) < 2**31
    assert rows.dtype == (np.int32 if fits else np.int64)
    same(rows, wide)
    axis = data.draw(st.sampled_from([1, -2]))
    order = {1: (1, 0, 2, 3), -2: (1, 2, 0, 3)}[axis]
    same(model.hasher.hash_batch(ids, layer_axis=axis), wide.transpose(order))


@settings(max_examples=25)
@given(st.data())
def test_any_number_of_threads_equals_one(data: st.DataObject) -> None:
    model = data.draw(sts.models())
    # Past the size from which threads are used, and of several pieces of work, whose borders fall anywhere.
    length = data.draw(st.sampled_from([1, 7, 63, 64, 65, 100, 129, 500, 2047, 2049, 4096, 4097, 9001]))
    rows = max(1, data.draw(st.integers(4200, 9100)) // length)
    ids = data.draw(sts.token_ids(model, (rows, length)))
    where = data.draw(sts.boundaries((rows, length)))
    axis = data.draw(st.sampled_from([0, 1, -2]))
    one = model.hasher.hash_batch(ids, num_threads=1, layer_axis=axis, **where)
    for threads in (2, 3, data.draw(st.integers(4, 9))):
        same(model.hasher.hash_batch(ids, num_threads=threads, layer_axis=axis, **where), one)
    state = model.hasher.seed(ids[:, :2])
    one = model.hasher.peek(ids, state, num_threads=1, **where)
    same(model.hasher.peek(ids, state, num_threads=3, **where), one)


@settings(max_examples=15)
@given(st.data())
def test_threads_in_one_long_row_equal_one_thread(data: st.DataObject) -> None:
    model = data.draw(sts.models())
    length = data.draw(st.integers(5000, 12000))
    ids = data.draw(sts.token_ids(model, (length,)))
    where = data.draw(sts.boundaries((length,)))
    where["cu_seqlens"] = data.draw(sts.cuts(length))
    one = model.hasher.hash_batch(ids, num_threads=1, **where)
    same(model.hasher.hash_batch(ids, num_threads=data.draw(st.integers(2, 5)), **where), one)


def rearranged(data: st.DataObject, array: np.ndarray) -> np.ndarray:
    """The same numbers, laid out in memory in another way, in another dtype, at another alignment."""
    fits = [d for d in DTYPES if array.size == 0 or (np.iinfo(d).min <= array.min() and array.max() <= np.iinfo(d).max)]
    array = array.astype(data.draw(st.sampled_from(fits)))
    how = data.draw(
        st.sampled_from(["fortran", "reversed", "stretched", "unaligned", "transposed", "read-only", "plain"])
    )
    if how == "fortran":
        array = np.asfortranarray(array)
    elif how == "reversed":
        array = array[::-1, ::-1].copy()[::-1, ::-1]
    elif how == "stretched":
        room = np.zeros((array.shape[0] * 2, array.shape[1] * 3), array.dtype)
        room[::2, ::3] = array
        array = room[::2, ::3]
    elif how == "unaligned":
        room = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
        room[...] = array
        array = room
    elif how == "transposed":
        array = array.T.copy().T
    elif how == "read-only":
        array = array.copy()
        array.flags.writeable = False
    return array


@given(st.data())
def test_any_memory_layout_equals_a_contiguous_copy(data: st.DataObject) -> None:
    model = data.draw(sts.models())
    shape = data.draw(sts.shapes(2000))
    ids = data.draw(sts.token_ids(model, shape))
    where = data.draw(sts.boundaries(shape))
    expected = model.hasher.hash_batch(ids, **where)
    other = {name: rearranged(data, value.astype(np.int64)) for name, value in where.items()}
    same(model.hasher.hash_batch(rearranged(data, ids), **other), expected)


@given(st.data())
def test_a_buffer_of_the_caller_gets_the_same(data: st.DataObject) -> None:
    model = data.draw(sts.models())
    shape = data.draw(sts.shapes(3000))
    ids = data.draw(sts.token_ids(model, shape))
    options: dict[str, Any] = {
        "layer_axis": data.draw(st.sampled_from([0, 1, -2])),
        "layers": data.draw(st.none() | st.lists(st.sampled_from(model.hasher.layout.layer_ids), max_size=4)),
        "num_threads": data.draw(st.sampled_from([None, 1, 2])),
        **data.draw(sts.boundaries(shape)),
    }
    expected = model.hasher.hash_batch(ids, **options)
    room = np.full(expected.size + 2, -7, dtype=expected.dtype)
    out = room[1:-1].reshape(expected.shape)
    assert hash_batch(ids, model.hasher, out=out, **options) is out
    same(out, expected)
    assert room[0] == room[-1] == -7


@given(st.data())
def test_packed_sequences_equal_separate_ones(data: st.DataObject) -> None:
    model = data.draw(sts.models())
    length = data.draw(sts.LENGTHS)
    ids = data.draw(sts.token_ids(model, (length,)))
    bounds = data.draw(sts.cuts(length))
    packed = model.hasher.hash_batch(ids, cu_seqlens=bounds)
    pieces = [model.hasher.hash_batch(ids[a:b]) for a, b in itertools.pairwise(bounds)]
    same(packed, np.concatenate(pieces, axis=1))
    numbers = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    same(model.hasher.hash_batch(ids, segment_ids=numbers), packed)
    same(model.hasher.hash_batch(ids[None], segment_ids=numbers[None])[:, 0], packed)


@given(st.data())
def test_a_padded_row_equals_the_row_alone(data: st.DataObject) -> None:
    model = data.draw(sts.models())
    lengths = data.draw(st.lists(sts.LENGTHS, min_size=1, max_size=5))
    widest = max(lengths) + data.draw(st.integers(0, 3))
    left = data.draw(st.booleans())
    # What stands under the mask is not looked at, whatever it is.
    ids = np.full((len(lengths), widest), data.draw(sts.WIDE), dtype=np.int64)
    mask = np.zeros(ids.shape, dtype=bool)
    rows = [data.draw(sts.token_ids(model, (length,))) for length in lengths]
    places = [slice(widest - length, widest) if left else slice(0, length) for length in lengths]
    for i, (row, place) in enumerate(zip(rows, places, strict=True)):
        ids[i, place], mask[i, place] = row, True
    together = model.hasher.hash_batch(ids, mask=mask)
    for i, (row, place) in enumerate(zip(rows, places, strict=True)):
        same(together[:, i, place], model.hasher.hash_batch(row))
    nothing = model.hasher.hash_batch(ids, mask=np.zeros_like(mask))
    assert (nothing == nothing[:, :1, :1]).all()


@given(st.data())
def test_a_refused_id_is_the_same_one_for_core_and_reference(data: st.DataObject) -> None:
    model = data.draw(sts.models())
    shape = data.draw(sts.shapes().filter(lambda shape: shape[0] * shape[1] > 0))
    ids = data.draw(sts.token_ids(model, shape))
    for _ in range(data.draw(st.integers(1, 3))):
        ids[data.draw(st.integers(0, shape[0] - 1)), data.draw(st.integers(0, shape[1] - 1))] = data.draw(sts.WIDE)
    where = data.draw(sts.boundaries(shape))
    try:
        expected = model.reference(ids, **where)
    except IndexError as error:
        message = str(error).split(" is outside ")[0]
        out = np.full((len(model.hasher.layout.layer_ids), *shape, model.hasher.layout.columns), -7, dtype=np.int64)
        for more in ({}, {"out": out}, {"num_threads": 3}):
            with pytest.raises(IndexError) as got:
                model.hasher.hash_batch(ids, **more, **where)
            assert str(got.value).split(" is outside ")[0] == message
        assert (out == -7).all()
    else:
        same(model.hasher.hash_batch(ids, dtype=np.int64, **where), expected)


@settings(max_examples=15)
@given(st.data())
def test_of_many_refused_ids_the_first_is_named_whatever_the_threads(data: st.DataObject) -> None:
    model = sts.preset(data.draw(st.sampled_from(["qwen-ple", "megatron", "longcat"])))
    length = data.draw(st.sampled_from([5, 64, 200, 5000]))
    rows = 10000 // length
    ids = np.zeros((rows, length), dtype=np.int64)
    bad = sorted(data.draw(st.sets(st.integers(0, rows * length - 1), min_size=1, max_size=6)))
    ids.reshape(-1)[bad] = np.arange(len(bad)) + 2**40
    row, column = divmod(bad[0], length)
    out = np.full((1, rows, length, model.hasher.layout.columns), -7, dtype=np.int64)
    layers = model.hasher.layout.layer_ids[:1]
    for options in ({}, {"out": out, "layers": layers}, {"mask": np.ones(ids.shape, bool)}):
        for threads in (1, 2, 5):
            with pytest.raises(IndexError, match=f"token id {2**40} at row {row}, column {column} is outside"):
                model.hasher.hash_batch(ids, num_threads=threads, **options)
    assert (out == -7).all()
