"""Columns as other libraries make them: masks of every type, tensors, list views, frames, single examples."""

import sys

import numpy as np
import pytest
from engram_fast.data import AddRows, map_batch
from engram_fast.data.arrow_rows import MOST, _check_count, _lists

pa = pytest.importorskip("pyarrow", reason="pyarrow is missing")

DOCUMENTS = [[5, 7, 9], [2, 4], [], [8]]


def check(hasher, rows, documents=DOCUMENTS, axis=-2):
    assert len(rows) == len(documents)
    for got, document in zip(rows, documents, strict=True):
        want = hasher.hash_batch(np.array([document], np.int64), layer_axis=axis)[0]
        assert np.array_equal(np.array(got, np.int64).reshape(want.shape), want)


@pytest.mark.parametrize("kind", ["bool_", "float16", "float32", "float64", "int8", "uint8", "int64"])
@pytest.mark.parametrize("as_type", ["list_", "large_list"])
def test_j_masks_in_arrow_lists(demo, kind, as_type):
    mask = [[1, 1, 1], [0, 1], [], [1]]
    values = [[bool(value) for value in row] for row in mask] if kind == "bool_" else mask
    column = pa.array(values, getattr(pa, as_type)(getattr(pa, kind)()))
    table = pa.table({"input_ids": DOCUMENTS, "attention_mask": column})
    for batch in (table, table.to_batches()[0], table.slice(1)):
        first = 0 if len(batch) == 4 else 1
        rows = map_batch(batch, demo).column("engram_rows").to_pylist()
        for row in range(first, 4):
            want = demo.hash_batch(np.array([DOCUMENTS[row]], int), mask=np.array([mask[row]], bool), layer_axis=-2)[0]
            assert np.array_equal(np.array(rows[row - first]).reshape(want.shape), want)


def test_j_masks_in_arrow_lists_that_are_no_masks(demo):
    for column, error, message in (
        ([[0.5, 1.0]], ValueError, r"attention_mask holds 0.5 at \[0\]"),
        ([["a", "b"]], TypeError, "no integer type"),
        ([[True, None]], ValueError, "null"),
    ):
        with pytest.raises(error, match=message):
            map_batch(pa.table({"input_ids": [[1, 2]], "attention_mask": column}), demo)


@pytest.mark.parametrize("form", [None, "numpy", "torch", "arrow", "pandas"])
@pytest.mark.parametrize("kind", ["bool", "float32", "int8"])
def test_j_masks_in_batches_of_datasets(demo, form, kind):
    datasets = pytest.importorskip("datasets", reason="datasets is missing")
    features = datasets.Features(
        {"input_ids": datasets.List(datasets.Value("int32")), "attention_mask": datasets.List(datasets.Value(kind))}
    )
    mask = [[1, 1, 0], [0, 1]]
    made = datasets.Dataset.from_dict({"input_ids": [[5, 7, 9], [2, 4]], "attention_mask": mask}, features)
    mapped = made.with_format(form).map(AddRows(demo), batched=True).with_format(None)
    assert np.array_equal(np.array(mapped[0]["engram_rows"])[:2], demo.hash_batch(np.array([[5, 7]]), layer_axis=-2)[0])
    assert np.array_equal(np.array(mapped[1]["engram_rows"])[1:], demo.hash_batch(np.array([[4]]), layer_axis=-2)[0])


def view(offsets, sizes, large=False):
    dtype, kind = (np.int64, pa.large_list_view) if large else (np.int32, pa.list_view)
    buffers = [None, pa.py_buffer(np.array(offsets, dtype)), pa.py_buffer(np.array(sizes, dtype))]
    values = pa.array([5, 7, 9, 2, 4], pa.int32())
    return pa.Array.from_buffers(kind(pa.int32()), len(offsets), buffers, children=[values])


@pytest.mark.skipif(not hasattr(pa, "list_view"), reason="this pyarrow has no list views: a newer one is missing")
@pytest.mark.parametrize("large", [False, True])
def test_j_list_views(demo, large):
    column = view([3, 0, 1, 5], [2, 3, 3, 0], large)  # out of order, and overlapping
    documents = [[2, 4], [5, 7, 9], [7, 9, 2], []]
    table = pa.table({"input_ids": column})
    check(demo, map_batch(table, demo).column("engram_rows").to_pylist(), documents)
    check(demo, map_batch(table.slice(1, 2), demo).column("engram_rows").to_pylist(), documents[1:3])


def test_j_dictionary_and_run_end_encoded_values(demo):
    import pyarrow.compute as pc

    values = pa.array([5, 7, 7, 2, 4])
    for encoded in (values.dictionary_encode(), pc.run_end_encode(values)):
        column = pa.ListArray.from_arrays(pa.array([0, 3, 5], pa.int32()), encoded)
        check(
            demo,
            map_batch(pa.table({"input_ids": column}), demo).column("engram_rows").to_pylist(),
            [[5, 7, 7], [2, 4]],
        )


def tensors(shape, count=6):
    storage = pa.FixedSizeListArray.from_arrays(pa.array(range(count), pa.int32()), int(np.prod(shape)))
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int32(), shape), storage)


def test_j_fixed_shape_tensors_of_one_dimension(demo):
    table = pa.table({"input_ids": tensors((3,)), "attention_mask": tensors((3,)), "ids": tensors((3,))})
    rows = map_batch(table, demo, ignore="attention_mask").column("engram_rows").to_pylist()
    check(demo, rows, [[0, 1, 2], [3, 4, 5]])
    rows = map_batch(table.slice(1), demo, column="ids", ignore="attention_mask").column("engram_rows").to_pylist()
    check(demo, rows, [[3, 4, 5]])


@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (1, 1, 2)])
def test_j_tensors_of_more_dimensions_are_refused_as_for_numpy(demo, shape):
    with pytest.raises(ValueError, match=f"tensors of {len(shape)} dimensions"):
        map_batch(pa.table({"input_ids": tensors(shape)}), demo)
    with pytest.raises(ValueError, match="has shape"):
        map_batch({"input_ids": np.arange(6).reshape(-1, *shape)}, demo)


@pytest.mark.filterwarnings("ignore")  # of Ray, about itself
def test_j_tensors_of_ray(demo):
    extension = pytest.importorskip("ray.data._internal.tensor_extensions.arrow", reason="ray is missing")
    arrays = [np.array(document, np.int64) for document in [[5, 7, 9], [2, 4], [8]]]
    table = pa.table({"input_ids": extension.ArrowVariableShapedTensorArray.from_numpy(arrays)})
    for start, count in ((0, 3), (1, 2), (2, 1)):
        rows = map_batch(table.slice(start, count), demo).column("engram_rows").to_pylist()
        check(demo, rows, [array.tolist() for array in arrays[start : start + count]])
    table = pa.table({"input_ids": extension.ArrowTensorArray.from_numpy(np.arange(6).reshape(2, 3))})
    check(demo, map_batch(table, demo).column("engram_rows").to_pylist(), [[0, 1, 2], [3, 4, 5]])
    for deep in (
        extension.ArrowTensorArray.from_numpy(np.arange(8).reshape(2, 2, 2)),
        extension.ArrowVariableShapedTensorArray.from_numpy([np.ones((2, 2), int), np.ones((1, 2), int)]),
    ):
        with pytest.raises(ValueError, match="tensors of 2 dimensions"):
            map_batch(pa.table({"input_ids": deep}), demo)


@pytest.mark.parametrize("axis", [-2, 1])
@pytest.mark.parametrize("fixed_size", [True, False])
@pytest.mark.parametrize("how", ["lists", "arrays", "arrow"])
def test_j_pandas(demo, axis, fixed_size, how):
    pandas = pytest.importorskip("pandas", reason="pandas is missing")
    mask = [[True] * 3, [False, True], [], [True]]
    if how == "arrow":
        frame = pa.table({"input_ids": DOCUMENTS, "attention_mask": mask}).to_pandas(types_mapper=pandas.ArrowDtype)
    else:
        make, types = (np.array, (bool,)) if how == "arrays" else (list, ())
        frame = pandas.DataFrame(
            {"input_ids": [make(d) for d in DOCUMENTS], "attention_mask": [make(m, *types) for m in mask]},
            index=[3, 1, 4, 1],
        )
        frame["input_ids"] = frame["input_ids"].map(lambda ids: ids if len(ids) else np.empty(0, np.int64))
    result = map_batch(frame, demo, layer_axis=axis, fixed_size=fixed_size, ignore="attention_mask")
    assert type(result) is type(frame)
    assert result.index.equals(frame.index)
    assert "engram_rows" not in frame
    check(demo, list(result["engram_rows"]), axis=axis)
    assert (
        pa.Table.from_pandas(result)["engram_rows"].type
        == AddRows(demo, layer_axis=axis, fixed_size=fixed_size).arrow_schema(pa.schema([])).field(0).type
    )
    masked = map_batch(frame, demo, layer_axis=axis)["engram_rows"]
    assert not np.array_equal(np.array(masked.iloc[1]), np.array(result["engram_rows"].iloc[1]))
    with pytest.raises(ValueError, match="already has"):
        map_batch(result, demo)


@pytest.mark.parametrize("axis", [-2, 1])
@pytest.mark.parametrize("fixed_size", [True, False])
def test_j_polars(demo, axis, fixed_size):
    polars = pytest.importorskip("polars", reason="polars is missing")
    frame = polars.DataFrame({"input_ids": DOCUMENTS, "tag": ["a", "b", "c", "d"]})
    result = map_batch(frame, demo, layer_axis=axis, fixed_size=fixed_size)
    assert type(result) is type(frame)
    assert frame.columns == ["input_ids", "tag"]
    check(demo, result["engram_rows"].to_list(), axis=axis)
    check(demo, map_batch(frame.slice(1, 2), demo)["engram_rows"].to_list(), DOCUMENTS[1:3])
    with pytest.raises(TypeError, match="LazyFrame"):
        map_batch(frame.lazy(), demo)


@pytest.mark.parametrize("form", ["pandas", "polars"])
def test_j_datasets_in_frames(demo, form):
    datasets = pytest.importorskip("datasets", reason="datasets is missing")
    pytest.importorskip(form, reason=f"{form} is missing")
    made = datasets.Dataset.from_dict({"input_ids": DOCUMENTS})
    mapped = made.with_format(form).map(AddRows(demo), batched=True).with_format(None)
    check(demo, mapped["engram_rows"])


@pytest.mark.parametrize("axis", [-2, 1])
def test_h12_a_single_example_of_datasets_map(demo, axis):
    datasets = pytest.importorskip("datasets", reason="datasets is missing")
    made = datasets.Dataset.from_dict(
        {"input_ids": [[5, 7, 9], [2, 4]], "position_ids": [[0, 1, 0], [0, 1]], "attention_mask": [[1, 1, 1], [1, 1]]}
    )
    mapped = made.map(AddRows(demo, layer_axis=axis))
    first = np.array(mapped[0]["engram_rows"])
    assert first.shape == ((3, 2, 4) if axis == -2 else (2, 3, 4))
    want = demo.hash_batch(np.array([[5, 7, 9]]), segment_ids=np.array([[0, 0, 1]]), layer_axis=axis)[0]
    assert np.array_equal(first, want)
    together = made.map(AddRows(demo, layer_axis=axis), batched=True)
    assert mapped["engram_rows"] == together["engram_rows"]
    for form in ("arrow", "pandas"):
        again = made.with_format(form).map(AddRows(demo, layer_axis=axis)).with_format(None)
        assert again["engram_rows"] == together["engram_rows"]
    for form in ("numpy", "torch"):
        with pytest.raises(ValueError, match="batched=True"):
            made.with_format(form).map(AddRows(demo))
    streamed = made.to_iterable_dataset()
    with pytest.raises(ValueError, match="batched=True"):
        next(iter(streamed.map(AddRows(demo))))
    assert next(iter(streamed.map(AddRows(demo, layer_axis=axis), batched=True)))["engram_rows"] is not None


def test_columns_that_a_function_changed_before_are_read_as_they_are(demo):
    """A lazy batch of datasets keeps its table, in which they are not changed."""
    datasets = pytest.importorskip("datasets", reason="datasets is missing")

    def shifted(batch):
        batch["input_ids"] = [[token + 1 for token in ids] for ids in batch["input_ids"]]
        return AddRows(demo)(batch)

    def cut(batch):
        batch["segment_ids"] = [[0, 0, 1][: len(ids)] for ids in batch["input_ids"]]
        return AddRows(demo)(batch)

    made = datasets.Dataset.from_dict({"input_ids": [[5, 7, 9], [2, 4]]})
    mapped = made.map(shifted, batched=True)
    check(demo, mapped["engram_rows"], [[6, 8, 10], [3, 5]])
    mapped = made.map(cut, batched=True)
    want = demo.hash_batch(np.array([[5, 7, 9]]), segment_ids=np.array([[0, 0, 1]]), layer_axis=-2)[0]
    assert np.array_equal(np.array(mapped[0]["engram_rows"]), want)


def test_k_more_numbers_than_an_arrow_list_counts():
    few = np.broadcast_to(np.int32(0), (2**31,))  # takes no memory
    with pytest.raises(ValueError, match=r"2147483648 numbers in one Arrow list.*counts to 2147483647.*batch_size="):
        _lists(few, 4, fixed_size=False)
    _check_count(MOST)


def test_refusing_a_batch_imports_nothing(demo):
    before = set(sys.modules)
    with pytest.raises(TypeError, match=r"the batch is a set; it must be an Arrow table or a mapping"):
        map_batch({1, 2}, demo)
    assert {name.split(".")[0] for name in set(sys.modules) - before} <= {"pyarrow"}
