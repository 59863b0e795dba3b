"""Bad input to every argument of what hashes: the named exception, and nothing has changed."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from argument_tools import (
    HASHER,
    IDS,
    LARGE,
    NO_INTEGERS,
    OUTSIDE,
    SHAPE,
    STRICT,
    TOKEN_MAP,
    WRONG_SHAPES,
    Broken,
    everything_that_takes_ids,
    out_of,
    refused,
    shown,
    with_id,
)
from engram_fast import HashLayout, HashState, NgramHasher, TokenMap, find_row, hash_batch, hash_slice
from engram_fast.trace import trace


@pytest.mark.parametrize(("ids", "error"), [*NO_INTEGERS, *WRONG_SHAPES], ids=shown)
def test_ids_that_are_no_batch_of_integers(ids: Any, error: type[Exception]) -> None:
    everything_that_takes_ids("ids", ids, error, "^ids: ")
    refused(error, "^ids: ", HASHER.hash, ids)


@pytest.mark.parametrize("token_id", OUTSIDE, ids=lambda token_id: shown(token_id)[:30])
def test_ids_outside_the_range(token_id: int) -> None:
    digits = str(token_id) if abs(token_id) < 2**128 else "of"
    message = f"^token id {digits}.* at row 1, column 3 is outside"
    everything_that_takes_ids("ids", with_id(token_id), IndexError, message)
    for dtype in (np.int64, np.uint64, np.int32, ">i8"):
        if np.iinfo(dtype).min <= token_id <= np.iinfo(dtype).max:
            everything_that_takes_ids("ids", np.array(with_id(token_id), dtype=dtype), IndexError, message)
    refused(IndexError, message, HASHER.hash, with_id(token_id))
    flat = f"^token id {digits}.* at position 3 is outside"
    refused(IndexError, flat, HASHER.hash_batch, with_id(token_id)[1], cu_seqlens=[0, 2, 4])


def test_ids_that_no_integer_type_holds_together() -> None:
    refused(IndexError, f"token id {2**63} at row 0, column 1 is outside 64 bits", HASHER.hash_batch, [[-1, 2**63]])
    refused(IndexError, f"token id {2**63} at position 1 is outside 64 bits", TOKEN_MAP.compress, [-1, 2**63])


def test_an_exception_of_the_argument_itself_comes_through() -> None:
    for options in ({"ids": Broken()}, {"ids": IDS, "mask": Broken()}, {"ids": IDS, "segment_ids": Broken()}):
        refused(KeyError, "broken on purpose", HASHER.hash_batch, out=out_of(), **options)


@pytest.mark.parametrize("name", ["mask", "segment_ids"])
@pytest.mark.parametrize(("value", "error"), [*NO_INTEGERS[1:], *WRONG_SHAPES], ids=shown)
def test_masks_and_segment_ids_that_are_none(name: str, value: Any, error: type[Exception]) -> None:
    if name == "mask" and np.asarray(value, dtype=object).ravel()[0] in (True, False):
        # Booleans are what masks are made of; a lone one has the wrong shape.
        if value is not True:
            return
        error = ValueError
    everything_that_takes_ids(name, IDS, error, f"^{name}: ", **{name: value})


@pytest.mark.parametrize("name", ["mask", "segment_ids"])
@pytest.mark.parametrize("shape", [(2,), (4,), (8,), (4, 2), (1, 4), (2, 3), (2, 5), (0, 4), (2, 0), (2, 4, 1)])
def test_masks_and_segment_ids_of_another_shape(name: str, shape: tuple[int, ...]) -> None:
    everything_that_takes_ids(name, IDS, ValueError, f"^{name}: ", **{name: np.ones(shape, dtype=np.int64)})
    refused(ValueError, f"^{name}: ", HASHER.hash_batch, IDS[0], **{name: np.ones((1, 4), dtype=np.int64)})


@pytest.mark.parametrize("value", [2, -1, 255, 2**62, -(2**63), 2**64 - 1, 256, 2**32])
def test_mask_values_other_than_0_and_1(value: int) -> None:
    mask = np.ones((2, 4), dtype=np.uint64 if value > 0 else np.int64)
    mask[1, 2] = value
    everything_that_takes_ids(
        "mask", IDS, ValueError, f"^mask: expected 0 or 1, got {value} at row 1, column 2", mask=mask
    )
    for dtype in (np.int8, np.uint8, np.int16, ">i2", ">u4", np.int64):
        if np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
            everything_that_takes_ids("mask", IDS, ValueError, "^mask: expected 0 or 1", mask=mask.astype(dtype))


@pytest.mark.parametrize(
    ("value", "error"),
    [
        *[(value, error) for value, error in NO_INTEGERS[1:]],
        ([], ValueError),
        (np.zeros(0, int), ValueError),
        ([0], ValueError),
        ([4], ValueError),
        ([0, 3], ValueError),
        ([0, 5], ValueError),
        ([1, 4], ValueError),
        ([-1, 4], ValueError),
        ([0, 3, 2, 4], ValueError),
        ([0, 5, 4], ValueError),
        ([0, -1, 4], ValueError),
        ([0, 2**63 - 1, 4], ValueError),
        ([0, -(2**63), 4], ValueError),
        (np.array([0, 2**64 - 1, 4], np.uint64), ValueError),
        (np.array([0, 2**63], np.uint64), ValueError),
        ([0, 2**70, 4], ValueError),
        ([[0, 4]], ValueError),
        (4, ValueError),
        (np.array(4), ValueError),
        (np.broadcast_to(np.int64(0), 2**45), MemoryError),
    ],
    ids=shown,
)
def test_cu_seqlens_that_are_none(value: Any, error: type[Exception]) -> None:
    message = "^cu_seqlens"
    refused(error, message, HASHER.hash_batch, IDS[0], cu_seqlens=value)
    refused(error, message, HASHER.hash_batch, IDS[0], cu_seqlens=value, out=out_of((2, 4, 4)))
    refused(error, message, HASHER.hash_batch, IDS[0], cu_seqlens=value, layers=[], out=out_of((0, 4, 4)))


def test_cu_seqlens_are_for_flat_ids_alone() -> None:
    refused(ValueError, "^cu_seqlens needs flat ids", HASHER.hash_batch, IDS, cu_seqlens=[0, 8], out=out_of())
    refused(ValueError, "^cu_seqlens needs flat ids", HASHER.hash_batch, IDS[:1], cu_seqlens=[0, 4])
    for call in (HASHER.step, HASHER.peek):
        refused(TypeError, "cu_seqlens", call, IDS[0], HASHER.new_state(1), cu_seqlens=[0, 4])


READ_ONLY = out_of()
READ_ONLY.flags.writeable = False
SHARED = np.arange(70)


@pytest.mark.parametrize(
    ("out", "error"),
    [
        (out_of((2, 2, 4)), ValueError),
        (out_of((2, 2, 4, 4, 1)), ValueError),
        (out_of((2, 4, 2, 4)), ValueError),
        (out_of((64,)), ValueError),
        (out_of((2, 2, 4, 5)), ValueError),
        (out_of((2, 2, 4, 4))[:0], ValueError),
        (out_of((2, 2, 4, 8))[..., ::2], ValueError),
        (np.asfortranarray(out_of()), ValueError),
        (out_of()[::-1], ValueError),
        (READ_ONLY, ValueError),
        (np.zeros(64 * 8 + 1, np.uint8)[1:].view(np.int64).reshape(SHAPE), ValueError),
        (np.broadcast_to(np.zeros((1, 2, 4, 4), np.int64), SHAPE), ValueError),
        (out_of(dtype=np.float64), TypeError),
        (np.zeros(SHAPE, np.uint32), TypeError),
        (np.zeros(SHAPE, np.uint64), TypeError),
        (out_of(dtype=np.int16), TypeError),
        (out_of(dtype=">i4"), TypeError),
        (out_of(dtype=">i8"), TypeError),
        (np.zeros(SHAPE, bool), TypeError),
        (np.zeros(SHAPE, object), TypeError),
        (np.zeros(SHAPE, "m8[s]"), TypeError),
        (np.ma.array(out_of()), TypeError),
        (out_of().tolist(), TypeError),
        (memoryview(out_of()), TypeError),
        (bytearray(512), TypeError),
        ("out", TypeError),
        (1.5, TypeError),
        (True, TypeError),
    ],
    ids=lambda value: (
        shown(value) if not isinstance(value, np.ndarray) else f"{value.dtype}{value.shape}{value.strides}"
    ),
)
def test_buffers_that_cannot_take_the_result(out: Any, error: type[Exception]) -> None:
    refused(error, "^out: ", HASHER.hash_batch, IDS, out=out)
    for call in (HASHER.step, HASHER.peek):
        refused(error, "^out: ", call, IDS, HASHER.new_state(2), out=out)


def test_buffers_that_share_memory_with_an_input() -> None:
    for offset in (0, 1, 7, 8, 62):
        ids = SHARED[offset : offset + 8].reshape(2, 4)
        refused(ValueError, "^out: shares memory", HASHER.hash_batch, ids, out=SHARED[:64].reshape(SHAPE))
        refused(ValueError, "^out: shares memory", HASHER.hash_batch, ids[::-1, ::-1], out=SHARED[6:].reshape(SHAPE))
    zeros = np.zeros(70, np.int64)
    for name in ("mask", "segment_ids"):
        given = {name: zeros[:8].reshape(2, 4)}
        refused(ValueError, "^out: shares memory", HASHER.hash_batch, IDS, out=zeros[6:].reshape(SHAPE), **given)
    # Beside each other, and interleaved without touching, is fine.
    HASHER.hash_batch(zeros[:8].reshape(2, 4)[:, :3], out=np.zeros(48, np.int64).reshape(2, 2, 3, 4))
    HASHER.hash_batch(zeros[:4].reshape(1, 4), out=zeros[4:36].reshape(2, 1, 4, 4))


@pytest.mark.parametrize(
    ("dtype", "error"),
    [
        *[
            (dtype, TypeError)
            for dtype in ("float32", float, bool, "uint32", np.uint64, "int16", ">i4", object, "i8,i8")
        ],
        *[(dtype, TypeError) for dtype in ("nonsense", 5, 1.5, [], {}, "")],
    ],
    ids=shown,
)
def test_dtypes_other_than_int32_and_int64(dtype: Any, error: type[Exception]) -> None:
    refused(error, "^dtype: ", HASHER.hash_batch, IDS, dtype=dtype)
    refused(error, "^dtype: ", HASHER.hash_batch, IDS, dtype=dtype, out=out_of())
    refused(error, "^dtype: ", HASHER.step, IDS, HASHER.new_state(2), dtype=dtype)


def test_dtypes_that_contradict_the_buffer_or_cannot_hold_the_rows() -> None:
    refused(TypeError, "^dtype: int32 differs from out's int64", HASHER.hash_batch, IDS, dtype="int32", out=out_of())
    refused(TypeError, "^dtype: ", HASHER.hash_batch, IDS, dtype=np.int64, out=out_of(dtype=np.int32))
    refused(ValueError, "^dtype: int32 cannot hold row", LARGE.hash_batch, IDS, dtype=np.int32)
    shape = (2, 2, 4, 16)
    refused(ValueError, "^out: int32 cannot hold row", LARGE.hash_batch, IDS, out=out_of(shape, np.int32))
    assert LARGE.hash_batch(IDS).dtype == np.int64


@pytest.mark.parametrize(
    ("axis", "error"),
    [
        *[(axis, ValueError) for axis in (2, 3, -1, -3, 2**70, -(2**70))],
        *[(axis, TypeError) for axis in ("x", 1.0, True, False, [0], b"0", np.bool_(True), np.float64(1))],
    ],
    ids=shown,
)
def test_layer_axes_that_there_are_not(axis: Any, error: type[Exception]) -> None:
    refused(error, "^layer_axis: ", HASHER.hash_batch, IDS, layer_axis=axis, out=out_of())
    refused(error, "^layer_axis: ", HASHER.peek, IDS, HASHER.new_state(2), layer_axis=axis)


@pytest.mark.parametrize(
    ("layers", "error"),
    [
        *[([layer], ValueError) for layer in (0, 2, -1, 2**63 - 1, 2**63, -(2**70))],
        ([1, 2], ValueError),
        (itertools.repeat(1), ValueError),
        (itertools.count(1), ValueError),
        *[(layers, TypeError) for layers in (1, "1", b"x", [1.0], [True], [None], ["1"], [[1]], object())],
        (np.array([1.0]), TypeError),
        (b"\x02", ValueError),
    ],
    ids=shown,
)
def test_layers_that_the_layout_has_not(layers: Any, error: type[Exception]) -> None:
    error = ValueError if isinstance(layers, bytes) else error
    refused(error, "^layers: ", HASHER.hash_batch, IDS, layers=layers)


@pytest.mark.parametrize("flag", [0, 1, 2, "yes", 1.0, [], np.int64(1), np.array([True, False])], ids=shown)
def test_add_offsets_that_is_no_bool(flag: Any) -> None:
    refused(TypeError, "^add_offsets: ", HASHER.hash_batch, IDS, add_offsets=flag, out=out_of())
    refused(TypeError, "^add_offsets: ", HASHER.step, IDS, HASHER.new_state(2), add_offsets=flag)


@pytest.mark.parametrize(
    ("threads", "error"),
    [
        *[(threads, ValueError) for threads in (0, -1, -(2**63), -(10**30), 10**30)],
        *[(threads, TypeError) for threads in (True, False, 1.5, 2.0, "2", [2], np.float64(2), np.bool_(True))],
    ],
    ids=shown,
)
def test_numbers_of_threads_that_are_none(threads: Any, error: type[Exception]) -> None:
    refused(error, "^num_threads: ", HASHER.hash_batch, IDS, num_threads=threads, out=out_of())
    refused(error, "^num_threads: ", HASHER.step, IDS, HASHER.new_state(2), num_threads=threads)


def test_more_threads_than_there_are_is_fine() -> None:
    ids = np.tile(IDS, (1, 2000))
    expected = HASHER.hash_batch(ids)
    for threads in (10**6, 2**62, np.int8(3)):
        np.testing.assert_array_equal(HASHER.hash_batch(ids, num_threads=threads), expected)


def test_hashers_of_what_are_no_layouts_and_token_maps() -> None:
    refused(TypeError, "layout", NgramHasher, None)
    refused(TypeError, "layout", NgramHasher, STRICT.to_json())
    refused(TypeError, "token_map", NgramHasher, STRICT, TOKEN_MAP.lookup)
    refused(ValueError, "^token_map: ", NgramHasher, STRICT)
    refused(ValueError, "^token_map: ", NgramHasher, STRICT, TokenMap.identity(999))
    refused(ValueError, "^token_map: ", NgramHasher, HashLayout.preset("qwen-ple"), TOKEN_MAP)
    lying = HashLayout.from_json(STRICT.to_json().replace('"size":1000', '"size":999'))
    refused(ValueError, "^token_map: ", NgramHasher, lying, TOKEN_MAP)
    refused(ValueError, '^kernel: kernel "none" is not available', NgramHasher, STRICT, TOKEN_MAP, kernel="none")
    for call in (hash_batch, hash_slice, trace, functools.partial(find_row, row=1, layer=1)):
        for wrong in (None, STRICT, HASHER.hash_batch):
            refused(TypeError, f"^hasher: expected an NgramHasher, got {type(wrong).__name__}$", call, IDS, wrong)
    refused(TypeError, "^layers: ", trace, IDS, HASHER, layers=1)
    with pytest.raises(TypeError):
        HashState()


def test_unknown_options_are_named() -> None:
    for call in (HASHER.hash_batch, lambda ids, **more: hash_batch(ids, HASHER, **more)):
        refused(TypeError, "threads", call, IDS, threads=1)
    refused(TypeError, "threads", hash_slice, IDS, HASHER, threads=1)
    refused(TypeError, "threads", HASHER.step, IDS, HASHER.new_state(2), threads=1)


@pytest.mark.parametrize("shape", [(0,), (0, 0), (0, 5), (5, 0), (2**20, 0), (1,), (1, 1)])
def test_empty_and_smallest_batches(shape: tuple[int, ...]) -> None:
    ids = np.zeros(shape, dtype=np.int64)
    rows = HASHER.hash_batch(ids)
    assert rows.shape == (2, *shape, 4)
    out = np.full(rows.shape, -1, dtype=rows.dtype)
    assert HASHER.hash_batch(ids, out=out, num_threads=3) is out
    np.testing.assert_array_equal(out, rows)
    if len(shape) == 2:
        state = HASHER.new_state(shape[0])
        assert HASHER.step(ids, state).shape == rows.shape
        assert (state == HASHER.new_state(shape[0])) == (ids.size == 0)
    else:
        bounds = [0, 0, shape[0], shape[0]]
        np.testing.assert_array_equal(HASHER.hash_batch(ids, cu_seqlens=bounds), rows)
