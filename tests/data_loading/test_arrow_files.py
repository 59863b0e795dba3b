"""Arrow and Parquet files: every list type, chunks, slices, no copies, no nulls."""

import pickle

import numpy as np
import pytest
from engram_fast.data import TokenDataset
from engram_fast.data.files.arrow import flatten

pa = pytest.importorskip("pyarrow", reason="pyarrow is missing")
pytest.importorskip("torch", reason="torch is missing")

DOCUMENTS = [[1, 2, 3], [], [4, 5], [6, 7, 8, 9]]


def write(path, table):
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, path, row_group_size=2)
    else:
        make = pa.ipc.new_stream if path.name.startswith("stream") else pa.ipc.new_file
        with make(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=2)


@pytest.mark.parametrize("name", ["t.arrow", "stream.arrow", "t.feather", "t.parquet"])
@pytest.mark.parametrize("kind", [pa.list_(pa.int32()), pa.large_list(pa.int64()), pa.list_(pa.uint16())])
def test_lists_are_documents(tmp_path, name, kind):
    write(tmp_path / name, pa.table({"other": ["a"] * 4, "input_ids": pa.array(DOCUMENTS, kind)}))
    documents = TokenDataset(tmp_path / name, seq_len=None)
    assert [item["input_ids"].tolist() for item in documents] == DOCUMENTS
    windows = TokenDataset(tmp_path / name, seq_len=4)
    assert [item["input_ids"].tolist() for item in windows] == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert [item["segment_ids"].tolist() for item in windows] == [[0, 0, 0, 1], [0, 1, 1, 1]]
    data = pickle.dumps(windows)
    assert len(data) < 2_000
    assert pickle.loads(data)[1]["input_ids"].tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize("name", ["t.arrow", "t.parquet"])
def test_fixed_size_lists_and_flat_columns(tmp_path, name):
    fixed = pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32(), 2))
    write(tmp_path / name, pa.table({"tokens": fixed}))
    dataset = TokenDataset(tmp_path / name, seq_len=None, column="tokens")
    assert [item["input_ids"].tolist() for item in dataset] == [[1, 2], [3, 4], [5, 6]]
    write(tmp_path / name, pa.table({"tokens": pa.array([1, 2, 3, 4, 5], pa.uint32())}))
    dataset = TokenDataset(tmp_path / name, seq_len=2, column="tokens")
    assert [item["input_ids"].tolist() for item in dataset] == [[1, 2], [3, 4]]
    assert "segment_ids" not in dataset[0]


def test_an_arrow_file_is_read_in_place(tmp_path):
    ids = np.arange(1_000_000, dtype=np.int32)
    write(tmp_path / "t.arrow", pa.table({"input_ids": pa.array(ids.reshape(-1, 1000).tolist(), pa.list_(pa.int32()))}))
    before = pa.total_allocated_bytes()
    dataset = TokenDataset(tmp_path / "t.arrow", seq_len=4096)
    assert dataset[100]["input_ids"].tolist() == ids[409600:413696].tolist()
    assert pa.total_allocated_bytes() - before < 100_000


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[9], *DOCUMENTS, [9]], pa.list_(pa.int32())).slice(1, 4),
        pa.array([[9], *DOCUMENTS, [9]], pa.large_list(pa.int32())).slice(1, 4),
        pa.chunked_array([[[1, 2, 3], []], [], [[4, 5], [6, 7, 8, 9]]], pa.list_(pa.int32())),
    ],
)
def test_slices_and_chunks(array):
    chunks, starts = flatten(array, "x")
    assert np.concatenate(chunks).tolist() == list(range(1, 10))
    assert starts.tolist() == [0, 3, 3, 5, 9]


def test_a_slice_of_a_fixed_size_list():
    chunks, starts = flatten(pa.array([[9, 9], [1, 2], [3, 4], [9, 9]], pa.list_(pa.int32(), 2)).slice(1, 2), "x")
    assert np.concatenate(chunks).tolist() == [1, 2, 3, 4]
    assert starts.tolist() == [0, 2, 4]


@pytest.mark.parametrize("name", ["t.arrow", "t.parquet"])
@pytest.mark.parametrize("rows", [[[1], None, [2]], [[1, None], [2], [3]]])
def test_refuses_nulls(tmp_path, name, rows):
    write(tmp_path / name, pa.table({"input_ids": pa.array(rows, pa.list_(pa.int32()))}))
    with pytest.raises(ValueError, match="null"):
        TokenDataset(tmp_path / name, seq_len=2)


@pytest.mark.parametrize(
    ("rows", "place"), [([[2], None], "in row 1 of chunk 1"), ([[2], [3, None]], "at value 2 of chunk 1")]
)
def test_a_null_is_placed_in_its_chunk(rows, place):
    column = pa.chunked_array([pa.array([[1]], pa.list_(pa.int32())), pa.array(rows, pa.list_(pa.int32()))])
    with pytest.raises(ValueError, match=f"x has a null {place}"):
        flatten(column, "x")


def test_refuses_other_columns(tmp_path):
    write(tmp_path / "t.parquet", pa.table({"text": ["a"], "weights": pa.array([[1.0]])}))
    with pytest.raises(ValueError, match=r"no column 'input_ids'; it has \['text', 'weights'\]"):
        TokenDataset(tmp_path / "t.parquet", seq_len=2)
    for column in ("text", "weights"):
        with pytest.raises(TypeError, match="no integer type"):
            TokenDataset(tmp_path / "t.parquet", seq_len=2, column=column)
