"""`grain_rows`: elements and batches of a Grain dataset, NumPy int32, also from worker processes."""

import pickle

import numpy as np
import pytest
from conftest import small_hasher
from engram_fast.data import grain_rows

grain = pytest.importorskip("grain", reason="grain is missing")


def source(count=12, length=6):
    ids = np.random.default_rng(0).integers(0, 1000, (count, length))
    return ids, grain.MapDataset.source([{"input_ids": row} for row in ids])


def test_elements_and_batches(hasher):
    ids, dataset = source()
    want = hasher.hash_batch(ids, layer_axis=1)
    elements = list(dataset.map(grain_rows(hasher)))
    assert all(element["engram_rows"].dtype == np.int32 for element in elements)
    assert np.array_equal(np.stack([element["engram_rows"] for element in elements]), want)
    batches = list(dataset.batch(5).map(grain_rows(hasher)))
    assert [batch["engram_rows"].shape for batch in batches] == [(5, 2, 6, 4), (5, 2, 6, 4), (2, 2, 6, 4)]
    assert np.array_equal(np.concatenate([batch["engram_rows"] for batch in batches]), want)
    after = list(dataset.map(grain_rows(hasher)).batch(12))
    assert np.array_equal(after[0]["engram_rows"], want)


def test_packed_elements(hasher):
    element = {"input_ids": np.array([1, 2, 3, 4]), "segment_ids": np.array([0, 0, 1, 1])}
    rows = grain_rows(hasher).map(element)["engram_rows"]
    for start, stop in ((0, 2), (2, 4)):
        alone = hasher.hash_batch(element["input_ids"][None, start:stop], layer_axis=1)[0]
        assert np.array_equal(rows[:, start:stop], alone)
    assert set(element) == {"input_ids", "segment_ids"}


def test_worker_processes():
    hasher = small_hasher()
    ids, dataset = source()
    options = grain.multiprocessing.MultiprocessingOptions(num_workers=2)
    batches = dataset.map(grain_rows(hasher)).batch(4).to_iter_dataset().mp_prefetch(options)
    rows = sorted(batch["engram_rows"].tolist() for batch in batches)
    assert rows == sorted(hasher.hash_batch(part, layer_axis=1).tolist() for part in ids.reshape(3, 4, 6))


def test_operations_of_a_data_loader(hasher):
    ids, _dataset = source()
    loader = grain.DataLoader(
        data_source=[{"input_ids": row} for row in ids],
        sampler=grain.samplers.IndexSampler(num_records=12, shuffle=False, num_epochs=1),
        operations=[grain_rows(hasher), grain.transforms.Batch(batch_size=12)],
        worker_count=0,
    )
    (batch,) = list(loader)
    assert np.array_equal(batch["engram_rows"], hasher.hash_batch(ids, layer_axis=1))


def test_pickles_and_refuses_early(hasher):
    again = pickle.loads(pickle.dumps(grain_rows(hasher, layers=[15])))
    assert again.map({"input_ids": np.array([1, 2])})["engram_rows"].shape == (1, 2, 4)
    with pytest.raises(ValueError, match="99"):
        grain_rows(hasher, layers=[99])
    with pytest.raises(ValueError, match=r"the element has no 'input_ids'; it has \['ids'\]"):
        again.map({"ids": np.array([1, 2])})
