"""`map_batch` and `AddRows`: datasets, Arrow batches, and iterators as Spark hands them over."""

import pickle

import numpy as np
import pytest
from conftest import small_hasher
from engram_fast import NgramHasher
from engram_fast.data import AddRows, map_batch
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow is missing")

DOCUMENTS = [[5, 6, 7, 8], [9], [], [5, 5, 6]]


def rows_of(hasher, ids, **options):
    """Rows [T, L, C] of one example."""
    return hasher.hash_batch(np.array([ids], np.int64), layer_axis=-2, **options)[0]


def same_rows(hasher, got, documents, axis=-2):
    assert len(got) == len(documents)
    for rows, document in zip(got, documents, strict=True):
        want = rows_of(hasher, document)
        want = want if axis == -2 else want.swapaxes(0, 1)
        assert np.array_equal(np.array(rows, np.int64).reshape(want.shape), want)


@pytest.mark.parametrize("axis", [-2, 1])
@pytest.mark.parametrize("fixed_size", [True, False])
@pytest.mark.parametrize("kind", [pa.list_(pa.int32()), pa.large_list(pa.uint16())])
def test_arrow_tables_and_record_batches(hasher, axis, fixed_size, kind):
    table = pa.table({"input_ids": pa.array(DOCUMENTS, kind), "tag": [1, 2, 3, 4]})
    add = AddRows(hasher, layer_axis=axis, fixed_size=fixed_size)
    schema = add.arrow_schema(table.schema)
    for batch in (table, table.to_batches()[0], table.slice(1, 3), pa.concat_tables([table, table])):
        result = add(batch)
        assert type(result) is type(batch)
        result.validate(full=True)
        assert result.schema == schema
        assert result.column("tag") == batch.column("tag")
        same_rows(hasher, result.column("engram_rows").to_pylist(), batch.column("input_ids").to_pylist(), axis)
    for result in add.record_batches(iter(table.to_batches(max_chunksize=2))):
        assert result.schema == schema


def test_arrow_values_are_the_hashed_memory(hasher, monkeypatch):
    """The column is built on the array that the hasher returned; nothing is copied on the way in or out."""
    given_ids, returned = [], []

    class Spy(NgramHasher):
        def hash_batch(self, ids, **options):
            given_ids.append(ids.ctypes.data)
            returned.append(super().hash_batch(ids, **options))
            return returned[-1]

    column = pa.array(DOCUMENTS, pa.list_(pa.int32()))
    result = map_batch(pa.table({"input_ids": column}), Spy(hasher.layout, hasher.token_map))
    assert given_ids == [column.values.buffers()[1].address]
    values = result.column("engram_rows").chunk(0).values.values.values
    assert values.buffers()[1].address == returned[0].ctypes.data


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.lists(st.integers(0, 999), min_size=1, max_size=5), max_size=3), min_size=1, max_size=4))
def test_packed_examples_equal_separate_documents(hasher, examples):
    """Positions that restart inside an example divide it, in Arrow and in lists alike."""
    ids = [[token for document in example for token in document] for example in examples]
    positions = [[i for document in example for i in range(len(document))] for example in examples]
    wants = [
        np.concatenate([rows_of(hasher, d) for d in example]) if example else rows_of(hasher, [])
        for example in examples
    ]
    types = {"input_ids": pa.list_(pa.int64()), "position_ids": pa.list_(pa.int64())}
    table = pa.table({"input_ids": ids, "position_ids": positions}, schema=pa.schema(types.items()))
    lists = map_batch({"input_ids": ids, "position_ids": positions}, hasher)["engram_rows"]
    arrow = map_batch(table, hasher)["engram_rows"].to_pylist()
    for got, want, from_arrow in zip(lists, wants, arrow, strict=True):
        assert np.array_equal(got, want)
        assert np.array_equal(np.array(from_arrow, np.int64).reshape(want.shape), want)


@pytest.mark.parametrize("axis", [-2, 1])
def test_mappings(hasher, axis):
    add = AddRows(hasher, layer_axis=axis)
    batch = {"input_ids": DOCUMENTS, "tag": [1, 2, 3, 4]}
    result = add(batch)
    assert set(batch) == {"input_ids", "tag"}
    assert result["tag"] is batch["tag"]
    same_rows(hasher, result["engram_rows"], DOCUMENTS, axis)
    objects = np.empty(4, object)
    objects[:] = [np.array(document, np.uint16) for document in DOCUMENTS]
    same_rows(hasher, add({"input_ids": objects})["engram_rows"], DOCUMENTS, axis)


@pytest.mark.parametrize(("axis", "shape"), [(-2, (3, 5, 2, 4)), (1, (3, 2, 5, 4))])
def test_rectangular_columns_give_one_array(hasher, rng, axis, shape):
    ids = rng.integers(0, 1000, (3, 5))
    rows = map_batch({"input_ids": ids}, hasher, layer_axis=axis)["engram_rows"]
    assert rows.shape == shape
    assert rows.flags.c_contiguous
    assert np.array_equal(rows, hasher.hash_batch(ids, layer_axis=axis))
    torch = pytest.importorskip("torch", reason="torch is missing")
    tensor = map_batch({"input_ids": torch.from_numpy(ids)}, hasher, layer_axis=axis)["engram_rows"]
    assert isinstance(tensor, torch.Tensor)
    assert np.array_equal(tensor, rows)


def test_masks(hasher):
    batch = {"input_ids": [[0, 5, 6], [7, 8, 0]], "attention_mask": [[0, 1, 1], [1, 1, 0]]}
    rows = map_batch(batch, hasher)["engram_rows"]
    assert np.array_equal(rows[0][1:], rows_of(hasher, [5, 6]))
    assert np.array_equal(rows[1][:2], rows_of(hasher, [7, 8]))
    unmasked = map_batch(batch, hasher, ignore=("attention_mask",))["engram_rows"]
    assert np.array_equal(unmasked[0], rows_of(hasher, [0, 5, 6]))


@pytest.mark.parametrize(
    ("batch", "options", "error", "message"),
    [
        ({"ids": [[1]]}, {}, ValueError, r"no column 'input_ids'; it has \['ids'\]"),
        ({"input_ids": [[1]]}, {"layer_axis": 0}, ValueError, "layer_axis is 0"),
        ({"input_ids": [[1]]}, {"threads": 1}, TypeError, "unknown option 'threads'; known are layers"),
        ({"input_ids": [[[1]]]}, {}, ValueError, "example 0 of column 'input_ids' has shape"),
        ({"input_ids": np.ones(3, int)}, {}, ValueError, r"must be \[examples, tokens\]"),
        (
            {"input_ids": [[3], [1, 2]], "attention_mask": [[1], [1]]},
            {},
            ValueError,
            "example 1 has 1 values in column 'attention_mask', and 2 in 'input_ids'",
        ),
        (
            {"input_ids": [[3], [1, 2]], "attention_mask": [[1]]},
            {},
            ValueError,
            "column 'attention_mask' has 1 examples, and 'input_ids' 2",
        ),
        (pa.table({"input_ids": [1, 2]}), {}, TypeError, "list of token ids per example"),
        (pa.table({"input_ids": [[1], None]}), {}, ValueError, "null"),
        (pa.table({"input_ids": [[1.0]]}), {}, TypeError, "no integer type"),
        ([[1]], {}, TypeError, "Arrow table or a mapping"),
    ],
)
def test_refusals(hasher, batch, options, error, message):
    with pytest.raises(error, match=message):
        map_batch(batch, hasher, **options)


@pytest.fixture(scope="module")
def dataset():
    datasets = pytest.importorskip("datasets", reason="datasets is missing")
    documents = [list(range(i % 7)) for i in range(50)]
    return datasets.Dataset.from_dict({"input_ids": documents, "tag": list(range(50))})


@pytest.mark.parametrize("num_proc", [None, 2])
@pytest.mark.parametrize("form", [None, "numpy", "arrow"])
def test_dataset_map(hasher, dataset, num_proc, form):
    source = dataset.with_format(form)
    mapped = source.map(AddRows(hasher), batched=True, batch_size=16, num_proc=num_proc).with_format(None)
    assert mapped.column_names == ["input_ids", "tag", "engram_rows"]
    assert mapped["tag"] == list(range(50))
    assert mapped["input_ids"] == dataset["input_ids"]
    same_rows(hasher, mapped["engram_rows"], dataset["input_ids"])


def test_dataset_map_does_not_format_the_ids(hasher, dataset, monkeypatch):
    from datasets.formatting import formatting

    touched = []
    original = formatting.LazyBatch.format
    monkeypatch.setattr(formatting.LazyBatch, "format", lambda self, key: touched.append(key) or original(self, key))
    dataset.map(AddRows(hasher), batched=True, load_from_cache_file=False, new_fingerprint="untouched")
    assert touched == []


def test_dataset_with_transform(hasher, dataset):
    transformed = dataset.with_transform(AddRows(hasher))
    same_rows(hasher, transformed[3:9]["engram_rows"], dataset[3:9]["input_ids"])
    assert transformed[3:9]["tag"] == dataset[3:9]["tag"]


def test_pickle_is_small():
    add = pickle.loads(pickle.dumps(AddRows(small_hasher(), layer_axis=1)))
    same_rows(add.hasher, add({"input_ids": DOCUMENTS})["engram_rows"], DOCUMENTS, 1)


def test_the_hasher_has_it_as_a_method(hasher, dataset):
    mapped = dataset.map(hasher.map_batch, batched=True, num_proc=2)
    same_rows(hasher, mapped["engram_rows"], dataset["input_ids"])


@pytest.mark.parametrize("axis", [-2, 1])
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_one_array_of_nothing(hasher, axis, shape):
    """Pipelines send empty batches to learn a schema."""
    rows = map_batch({"input_ids": np.zeros(shape, np.int64)}, hasher, layer_axis=axis)["engram_rows"]
    assert rows.shape == ((*shape, 2, 4) if axis == -2 else (shape[0], 2, shape[1], 4))


def test_lengths_of_examples_are_refused_not_dropped(hasher):
    lists = {"input_ids": [[5, 6, 7]], "cu_seqlens": [[0, 1, 3]]}
    for batch in (lists, pa.table(lists)):
        with pytest.raises(ValueError, match="'cu_seqlens' says where documents end"):
            map_batch(batch, hasher)
        map_batch(batch, hasher, ignore=("cu_seqlens",))


def test_rows_are_not_added_twice(hasher):
    for batch in ({"input_ids": [[5, 6]]}, pa.table({"input_ids": [[5, 6]]})):
        with pytest.raises(ValueError, match="already has 'engram_rows'"):
            map_batch(map_batch(batch, hasher), hasher)
