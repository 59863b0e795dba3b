"""Faults seen in the field where Python's objects are read: each with an input that shows it, none of which may happen
here."""

from __future__ import annotations

import array
import contextlib
import copy
import pickle
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from engram_fast import NgramHasher
from field_hasher import hasher, random_ids, same

H = hasher()


# ---- arrays of every kind -----------------------------------------------------------------------------------------


def test_strided_arrays_are_not_read_as_if_contiguous() -> None:
    base = random_ids(0, (8, 64))
    views = (
        *(base[::2], base[:, ::3], base[::-1], base[:, ::-1], base[::-2, ::-5], base.T, base.T[::3]),
        *(np.asfortranarray(base), np.broadcast_to(base[:1], (8, 64)), np.broadcast_to(base[:, :1], (8, 64))),
        *(base[:0], base[:, :0], base[2:3, 5:6], base[1:, 1:], np.lib.stride_tricks.sliding_window_view(base[0], 10)),
    )
    for view in views:
        copy = np.ascontiguousarray(view)
        same(H.hash_batch(view), H.hash_batch(copy))
        same(H.hash_batch(view, num_threads=3), H.hash_batch(copy))
        same(H.hash_batch(np.zeros_like(copy), mask=view % 2), H.hash_batch(np.zeros_like(copy), mask=copy % 2))
        same(H.hash_batch(copy, segment_ids=view), H.hash_batch(copy, segment_ids=copy))
        state = H.seed(view)
        assert state == H.seed(copy)
    wide = np.full((2, 8, 64, 8), -1)
    with pytest.raises(ValueError, match="out: expected a C-contiguous array"):
        H.hash_batch(base, out=wide[..., ::2])
    assert (wide == -1).all()


def test_swapped_bytes_are_read_by_value() -> None:
    ids = np.array([[1, 256, 999]])
    want = H.hash_batch(ids)
    for dtype in (">i8", ">i4", ">i2", ">u2", ">u4", ">u8", "<i4", "=u2"):
        same(H.hash_batch(ids.astype(dtype)), want)
        same(H.hash_batch(ids, segment_ids=ids.astype(dtype)), H.hash_batch(ids, segment_ids=ids))
        same(
            H.hash_batch(ids[0], cu_seqlens=np.array([0, 1, 3], dtype=dtype)),
            H.hash_batch(ids[0], cu_seqlens=[0, 1, 3]),
        )
        assert H.token_map.compress(ids.astype(dtype)).tolist() == ids.tolist()


def test_read_only_arrays_are_read_in_silence_and_results_can_be_written() -> None:
    ids = np.arange(12).reshape(3, 4)
    ids.flags.writeable = False
    torch = pytest.importorskip("torch", reason="needs the package torch")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = H.hash_batch(ids)
        tensor = torch.from_numpy(rows)
    assert not ids.flags.writeable
    assert rows.flags.writeable
    assert rows.flags.owndata
    tensor[:] = 0
    assert (rows == 0).all()
    assert not np.shares_memory(rows, H.hash_batch(ids))


def test_read_only_overlapping_and_misshapen_buffers_are_refused() -> None:
    ids = np.arange(12).reshape(3, 4)
    for bad in (np.zeros((2, 3, 4, 4), np.int64)[:0], np.zeros((2, 3, 4, 4), np.int16), np.zeros((2, 3, 4), np.int64)):
        with pytest.raises((ValueError, TypeError), match="out"):
            H.hash_batch(ids, out=bad)
    memory = np.zeros(64, np.int64)
    with pytest.raises(ValueError, match="out: shares memory"):
        H.hash_batch(memory[:4].reshape(1, 4), out=memory[2:18].reshape(1, 1, 4, 4), layers=[1])
    assert (memory == 0).all()
    H.hash_batch(memory[:4].reshape(1, 4), out=memory[4:20].reshape(1, 1, 4, 4), layers=[1])


class Dlpack:
    """A tensor of some other library."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


class Named(np.ndarray):
    """A subclass."""


def test_whatever_holds_integers_is_read() -> None:
    ids = [[5, 7, 5], [9, 2, 2]]
    want, values = H.hash_batch(np.array(ids)), np.array(ids)
    assert want.shape == (2, 2, 3, 4)
    sources = [
        ids,
        tuple(map(tuple, ids)),
        [np.array(ids[0]), ids[1]],
        memoryview(values),
        values.view(Named),
        Dlpack(values),
    ]
    for source in sources:
        same(H.hash_batch(source), want)
    flat = [array.array(code, ids[0]) for code in "bBhHiIlLqQ"]
    for source in (*flat, range(5, 8), memoryview(bytes(ids[0]))):
        same(H.hash_batch(source), H.hash_batch(list(source)))
    assert H.hash_batch([]).shape == (2, 0, 4)
    assert H.hash_batch([[], []]).shape == (2, 2, 0, 4)


def test_tensors_are_read_where_they_lie() -> None:
    torch = pytest.importorskip("torch", reason="needs the package torch")
    values = random_ids(0, (6, 70))
    want = H.hash_batch(values)
    for dtype in (torch.int64, torch.int32, torch.int16, torch.uint16, torch.uint32, torch.uint64):
        same(H.hash_batch(torch.from_numpy(values).to(dtype)), want)
    tensor = torch.from_numpy(values)
    same(H.hash_batch(tensor.T), H.hash_batch(values.T))
    same(H.hash_batch(tensor[::2, 3:]), H.hash_batch(values[::2, 3:]))
    mask = tensor > 500
    same(
        H.hash_batch(tensor, mask=mask, segment_ids=tensor // 100),
        H.hash_batch(values, mask=values > 500, segment_ids=values // 100),
    )
    bounds = torch.tensor([0, 3, 3, 70], dtype=torch.int32)
    same(H.hash_batch(tensor[0], cu_seqlens=bounds), H.hash_batch(values[0], cu_seqlens=[0, 3, 3, 70]))
    state = H.seed(tensor)
    H.commit(state, tensor, torch.tensor([1, 2, 3, 4, 5, 70]))
    assert state.select(torch.tensor([1, 1])).batch == 2
    for wrong in (tensor.float(), mask, tensor.to("meta"), torch.zeros(2, 3, requires_grad=True), tensor.to_sparse()):
        with pytest.raises(TypeError):
            H.hash_batch(wrong)
    with pytest.raises(ValueError, match="out: shares memory"):
        H.hash_batch(tensor[:1, :4], out=values.reshape(-1)[:32].reshape(2, 1, 4, 4))


# ---- panics -------------------------------------------------------------------------------------------------------


def test_no_argument_reaches_a_panic() -> None:
    bad = [
        *(None, [], [[]], "abc", np.zeros(3), np.zeros((1, 2, 3), int), np.array([[2**63]], np.uint64)),
        *(np.array([["a"]]), np.ma.array([[1]]), np.zeros((0, 0), int), np.array(5), [[1], [2, 3]]),
        *(
            np.zeros((2**20, 0), int),
            np.zeros((2**40, 0), int),
            np.zeros((0, 2**40), int),
            2**70,
            [2**70],
            [[-(2**63)]],
        ),
        *(np.broadcast_to(np.uint8(1), (2**30, 2**30)), np.zeros((1,) * 30, int), object(), Ellipsis, H, np.nan),
    ]
    options = [{}, *({"num_threads": n} for n in (0, -1, 10**6, 2**62)), *({"layer_axis": n} for n in (-2, 1, 3))]
    options += [{"layers": []}, {"layers": [15, 15]}, {"cu_seqlens": [0]}, {"cu_seqlens": [0, 0]}, {"mask": [[1]]}]
    allowed = (TypeError, ValueError, IndexError, OverflowError, MemoryError)
    for ids in bad:
        for option in options:
            for call in (H.hash_batch, lambda ids, **more: H.step(ids, H.new_state(1), **more)):
                with contextlib.suppress(allowed):  # a panic is no Exception and fails the test
                    call(ids, **option)
        for call in (H.hash, H.seed, H.trace, H.token_map.compress, lambda ids: H.commit(H.new_state(1), ids, [0])):
            with contextlib.suppress(allowed):
                call(ids)


def test_sizes_that_no_machine_has_are_errors() -> None:
    huge = np.broadcast_to(np.uint8(1), (2**21, 2**22))
    for call in (H.hash_batch, H.token_map.compress):
        with pytest.raises(MemoryError):
            call(huge)


def test_reading_and_hashing_leaks_no_references() -> None:
    ids, out = random_ids(0, (2, 8)), np.zeros((2, 2, 8, 4), np.int64)
    mask, state = np.ones((2, 8), bool), H.new_state(2)
    things = (ids, out, mask, state, H, H.layout)
    counts = []
    for _ in range(3):
        for _ in range(100):
            H.hash_batch(ids, out=out, mask=mask)
            H.step(ids, state, mask=mask, segment_ids=ids)
            with pytest.raises(ValueError, match="out"):
                H.hash_batch(ids, out=out[:1])
        counts.append([sys.getrefcount(thing) for thing in things])
    assert counts[1] == counts[2]


def test_a_subclass_stays_one_when_pickled() -> None:
    for again in (pickle.loads(pickle.dumps(H)), copy.copy(H), copy.deepcopy(H)):
        assert type(again) is NgramHasher
        assert again.layout == H.layout
        assert again.token_map == H.token_map
        same(again.hash_batch([[5, 7]]), H.hash_batch([[5, 7]]))
    assert len(pickle.dumps(H)) < 20_000
