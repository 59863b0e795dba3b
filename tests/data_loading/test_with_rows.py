"""`with_rows`: any iterable, order, errors, early exits, attributes."""

import copy
import pickle
import threading
import time

import numpy as np
import pytest
from engram_fast.data import with_rows

torch = pytest.importorskip("torch", reason="torch is missing")


def batches(count=5):
    return [{"input_ids": torch.arange(6).reshape(2, 3) + i, "tag": i} for i in range(count)]


@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_any_iterable_in_order(hasher, ahead, count):
    source = batches(count)
    loader = with_rows(source, hasher, ahead=ahead)
    assert len(loader) == count
    for _ in range(2):
        got = list(loader)
        assert [batch["tag"] for batch in got] == list(range(count))
        for batch in got:
            want = hasher.hash_batch(batch["input_ids"].numpy(), layer_axis=1)
            assert np.array_equal(batch["engram_rows"], want)
    assert all("engram_rows" not in batch for batch in source)


def test_masks_and_options(hasher):
    source = [{"ids": torch.tensor([[1, 2, 0]]), "attention_mask": torch.tensor([[1, 1, 0]])}]
    (batch,) = with_rows(source, hasher, ids_key="ids", key="rows", layers=[15], layer_axis=-2, dtype=np.int64)
    want = hasher.hash_batch(np.array([[1, 2]]), layers=[15], layer_axis=-2, dtype=np.int64)
    assert np.array_equal(batch["rows"][:, :2], want)
    (batch,) = with_rows(source, hasher, ids_key="ids", per_layer=True)
    assert {"engram_rows_1", "engram_rows_15"} < set(batch)


@pytest.mark.parametrize("ahead", [0, 1])
def test_batches_before_an_error_come_out(hasher, ahead):
    def source():
        yield from batches(2)
        raise RuntimeError("broken shard")

    seen = []
    with pytest.raises(RuntimeError, match="broken shard"):
        seen.extend(batch["tag"] for batch in with_rows(source(), hasher, ahead=ahead))
    assert seen == [0, 1]


def test_leaving_early_leaves_no_thread(hasher):
    for _ in range(5):
        for _batch in with_rows(batches(), hasher):
            break
    deadline = time.monotonic() + 5
    while any("engram-rows" in thread.name for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_loader_runs_in_the_calling_thread(hasher):
    threads = set()

    def source():
        for batch in batches():
            threads.add(threading.current_thread())
            yield batch

    list(with_rows(source(), hasher))
    assert threads == {threading.current_thread()}


@pytest.mark.parametrize("seconds", [0, 0.1])
def test_a_batch_is_hashed_while_a_slow_consumer_has_the_one_before(hasher, monkeypatch, seconds):
    from engram_fast.data.rows import RowWriter

    threads, prepare = [], RowWriter.prepare

    def recording(writer, batch):
        result, fill = prepare(writer, batch)
        return result, lambda: (threads.append(threading.current_thread().name), fill())

    monkeypatch.setattr(RowWriter, "prepare", recording)
    monkeypatch.setattr("engram_fast.data.loader.PAYS", 0.05)
    for batch in with_rows(batches(6), hasher):
        time.sleep(seconds)
        assert np.array_equal(batch["engram_rows"], hasher.hash_batch(batch["input_ids"].numpy(), layer_axis=1))
    here = threading.current_thread().name
    # The first two were asked for before anybody had been away.
    assert threads == [here, here, *(["engram-rows"] * 4 if seconds else [here] * 4)]


def test_attributes_pass_through(hasher):
    from torch.utils.data import DataLoader

    inner = DataLoader(batches(), batch_size=None)
    loader = with_rows(inner, hasher)
    assert loader.dataset is inner.dataset
    assert loader.sampler is inner.sampler
    with pytest.raises(AttributeError):
        _ = loader.nothing
    assert len(list(copy.copy(loader))) == 5
    assert len(list(pickle.loads(pickle.dumps(with_rows(batches(), hasher))))) == 5


def test_refuses_more_ahead(hasher):
    with pytest.raises(ValueError, match="ahead is 2"):
        with_rows([], hasher, ahead=2)


def test_pinned_rows(hasher):
    if not torch.cuda.is_available():
        pytest.skip("a CUDA device is missing")
    (batch,) = with_rows(batches(1), hasher, pin_memory=True)
    assert batch["engram_rows"].is_pinned()
