"""`AddRows` as a Ray Data callable: the rows that one process computes."""

import numpy as np
import pytest
from conftest import small_hasher
from engram_fast.data import AddRows

pa = pytest.importorskip("pyarrow", reason="pyarrow is missing")


@pytest.fixture(scope="module")
def local_ray():
    ray = pytest.importorskip("ray", reason="ray is missing")
    pytest.importorskip("ray.data", reason="ray.data is missing")
    import os
    import sys

    environment = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": environment})
    yield ray
    ray.shutdown()


@pytest.mark.parametrize("as_class", [False, True])
def test_map_batches(local_ray, as_class):
    hasher = small_hasher()
    documents = [list(range(i % 5 + 1)) for i in range(40)]
    table = pa.table({"input_ids": pa.array(documents, pa.list_(pa.int32())), "tag": list(range(40))})
    dataset = local_ray.data.from_arrow([table.slice(0, 15), table.slice(15)])
    if as_class:
        mapped = dataset.map_batches(
            AddRows, fn_constructor_args=(hasher,), batch_format="pyarrow", batch_size=8, concurrency=1
        )
    else:
        mapped = dataset.map_batches(AddRows(hasher), batch_format="pyarrow", batch_size=8)
    rows = sorted(mapped.take_all(), key=lambda row: row["tag"])
    assert len(rows) == 40
    for row, document in zip(rows, documents, strict=True):
        want = hasher.hash_batch(np.array([document]), layer_axis=-2)[0]
        assert np.array_equal(np.array([[list(one) for one in layers] for layers in row["engram_rows"]]), want)


def test_numpy_batches(local_ray):
    hasher = small_hasher()
    ids = np.random.default_rng(0).integers(0, 1000, (12, 6))
    dataset = local_ray.data.from_numpy(ids).rename_columns({"data": "input_ids"})
    mapped = dataset.map_batches(AddRows(hasher, layer_axis=1), batch_format="numpy")
    got = np.concatenate([batch["engram_rows"] for batch in mapped.iter_batches(batch_format="numpy")])
    assert np.array_equal(got, hasher.hash_batch(ids, layer_axis=1))
