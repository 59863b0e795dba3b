"""Recycled memory: reused when nobody holds it, never before."""

import copy
import pickle

import numpy as np
import pytest
from engram_fast.data.buffers import ALIGNMENT, KEPT, Buffers

torch = pytest.importorskip("torch", reason="torch is missing")
INT32 = np.dtype(np.int32)


def test_memory_comes_back_with_the_last_view():
    buffers = Buffers()
    tensor = buffers.take((4, 1000), INT32)
    address = tensor.data_ptr()
    assert address % ALIGNMENT == 0
    view = tensor[2:3, ::7]
    array = tensor.numpy()
    del tensor
    assert buffers.take((4, 1000), INT32).data_ptr() != address
    del view
    assert buffers.take((4, 1000), INT32).data_ptr() != address
    del array
    assert any(buffers.take((4, 1000), INT32).data_ptr() == address for _ in range(KEPT))


def test_what_is_held_is_not_given_to_other_threads():
    from concurrent.futures import ThreadPoolExecutor

    buffers = Buffers()
    held = [buffers.take((100,), INT32).fill_(i) for i in range(3)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: buffers.take((100,), INT32).fill_(-1).sum().item(), range(200)))
    assert [tensor.unique().tolist() for tensor in held] == [[0], [1], [2]]


@pytest.mark.parametrize("shapes", [[(10, 10), (3, 3), (10, 10)], [(1,), (1000,), (0, 5), (7, 7)]])
def test_other_sizes(shapes):
    buffers = Buffers()
    for shape in shapes * 3:
        tensor = buffers.take(shape, np.dtype(np.int64))
        assert tuple(tensor.shape) == shape
        assert tensor.dtype == torch.int64
        tensor.fill_(1)


def test_copies_are_empty():
    buffers = Buffers()
    buffers.take((10_000,), INT32)
    for again in (copy.copy(buffers), copy.deepcopy(buffers), pickle.loads(pickle.dumps(buffers))):
        assert not again._free
    assert len(buffers._free) == 1
