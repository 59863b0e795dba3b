"""`TokenDataset` over raw and `.npy` files: values, boundaries, refusals, pickles."""

import pickle
import warnings

import numpy as np
import pytest
from engram_fast.data import TokenDataset

torch = pytest.importorskip("torch", reason="torch is missing")

DTYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "<u2", ">u2", ">i4"]


def ids_of(dataset):
    return [item["input_ids"].tolist() for item in dataset]


@pytest.mark.parametrize("dtype", DTYPES)
def test_raw_values_are_kept_in_every_integer_dtype(tmp_path, dtype):
    top = min(np.iinfo(dtype).max, 2**62)
    ids = np.array([0, 1, 5, top, top - 1, 7, 3], dtype=dtype)
    ids.tofile(tmp_path / "t.bin")
    dataset = TokenDataset(tmp_path / "t.bin", dtype=dtype, seq_len=3)
    assert len(dataset) == 2
    assert ids_of(dataset) == [[0, 1, 5], [int(top), int(top) - 1, 7]]
    assert dataset[-1]["input_ids"].tolist() == ids_of(dataset)[1]
    item = dataset[0]["input_ids"]
    assert item.dtype == torch.int64
    assert item.is_contiguous()
    torch.nn.Embedding(6, 2)(item)


def test_items_are_copies(tmp_path):
    np.arange(8, dtype=np.int64).tofile(tmp_path / "t.bin")
    dataset = TokenDataset(tmp_path / "t.bin", dtype="int64", seq_len=4)
    dataset[0]["input_ids"].fill_(-100)
    assert dataset[0]["input_ids"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("index", [2, -3, 100])
def test_index_outside(tmp_path, index):
    np.arange(9, dtype=np.uint16).tofile(tmp_path / "t.bin")
    dataset = TokenDataset(tmp_path / "t.bin", dtype="uint16", seq_len=4)
    with pytest.raises(IndexError, match=rf"item {index} is outside the 2 items of .*t\.bin"):
        dataset[index]


def test_header_is_skipped(tmp_path):
    (tmp_path / "t.bin").write_bytes(b"\xff" * 1024 + np.arange(8, dtype=np.uint16).tobytes())
    dataset = TokenDataset(tmp_path / "t.bin", dtype="uint16", seq_len=8, offset=1024)
    assert ids_of(dataset) == [list(range(8))]
    with pytest.raises(ValueError, match="byte offset 2000 lies outside"):
        TokenDataset(tmp_path / "t.bin", dtype="uint16", seq_len=8, offset=2000)


def test_empty_file_has_no_items(tmp_path):
    (tmp_path / "t.bin").touch()
    assert len(TokenDataset(tmp_path / "t.bin", dtype="uint16", seq_len=8)) == 0


def test_refuses_an_odd_size(tmp_path):
    (tmp_path / "t.bin").write_bytes(b"\0" * 13)
    with pytest.raises(ValueError, match=r"t\.bin holds 13 bytes of ids, which is no multiple of 4"):
        TokenDataset(tmp_path / "t.bin", dtype="uint32", seq_len=2)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bool", "complex64", "S4"])
def test_refuses_what_is_no_integer(tmp_path, dtype):
    (tmp_path / "t.bin").write_bytes(b"\0" * 16)
    with pytest.raises(TypeError, match="integer"):
        TokenDataset(tmp_path / "t.bin", dtype=dtype, seq_len=2)


def test_raw_needs_a_dtype(tmp_path):
    (tmp_path / "t.bin").write_bytes(b"\0" * 16)
    with pytest.raises(TypeError, match="give dtype"):
        TokenDataset(tmp_path / "t.bin", seq_len=2)


@pytest.mark.parametrize("seq_len", [0, -1])
def test_refuses_a_window_of_nothing(tmp_path, seq_len):
    (tmp_path / "t.bin").write_bytes(b"\0" * 16)
    with pytest.raises(ValueError, match=f"seq_len is {seq_len}"):
        TokenDataset(tmp_path / "t.bin", dtype="uint16", seq_len=seq_len)


def test_missing_file_and_unknown_format(tmp_path):
    with pytest.raises(FileNotFoundError):
        TokenDataset(tmp_path / "none.bin", dtype="uint16", seq_len=2)
    (tmp_path / "t.bin").write_bytes(b"\0" * 16)
    with pytest.raises(ValueError, match="unknown format 'csv'; known are raw, npy"):
        TokenDataset(tmp_path / "t.bin", dtype="uint16", seq_len=2, format="csv")


@pytest.mark.parametrize(
    ("dtype", "vocab"), [("uint16", 65537), ("int16", 32769), ("uint8", 257), ("int32", 2**31 + 1)]
)
def test_refuses_a_dtype_that_cannot_hold_the_vocabulary(tmp_path, dtype, vocab):
    (tmp_path / "t.bin").write_bytes(b"\0" * 16)
    TokenDataset(tmp_path / "t.bin", dtype=dtype, seq_len=2, vocab_size=vocab - 1)
    with pytest.raises(ValueError, match=rf"stores {dtype}, which ends at {vocab - 2}"):
        TokenDataset(tmp_path / "t.bin", dtype=dtype, seq_len=2, vocab_size=vocab)


@pytest.mark.parametrize(("dtype", "bad"), [("uint16", 1000), ("int32", -1), ("uint64", 2**64 - 1), ("int64", 2**40)])
def test_id_outside_the_vocabulary_names_file_position_and_value(tmp_path, dtype, bad):
    ids = np.arange(100).astype(dtype)
    ids[57] = bad
    ids.tofile(tmp_path / "t.bin")
    dataset = TokenDataset(tmp_path / "t.bin", dtype=dtype, seq_len=10, vocab_size=1000)
    assert dataset[4]["input_ids"].tolist() == list(range(40, 50))
    for read in (lambda: dataset[5], dataset.check):
        with pytest.raises(IndexError, match=rf"token id {bad} at position 57 of .*t\.bin is outside .* 1000 ids"):
            read()


def test_boundaries_from_an_end_of_document_id(tmp_path):
    ids = np.array([5, 0, 6, 7, 0, 0, 8, 9, 0, 1], np.uint16)
    ids.tofile(tmp_path / "t.bin")
    windows = TokenDataset(tmp_path / "t.bin", dtype="uint16", seq_len=5, eod_id=0)
    assert [item["segment_ids"].tolist() for item in windows] == [[0, 0, 1, 1, 1], [0, 1, 1, 1, 2]]
    assert windows[0]["segment_ids"].dtype == torch.int32
    assert windows.documents.tolist() == [0, 2, 5, 6, 9, 10]
    documents = TokenDataset(tmp_path / "t.bin", dtype="uint16", seq_len=None, eod_id=0)
    assert ids_of(documents) == [[5, 0], [6, 7, 0], [0], [8, 9, 0], [1]]


@pytest.mark.parametrize("as_file", [False, True])
def test_boundaries_from_an_index(tmp_path, as_file):
    np.arange(10, dtype=np.int32).tofile(tmp_path / "t.bin")
    index = np.array([0, 0, 3, 5, 5, 8, 10])
    np.save(tmp_path / "index.npy", index)
    given = tmp_path / "index.npy" if as_file else index
    windows = TokenDataset(tmp_path / "t.bin", dtype="int32", seq_len=5, documents=given)
    for item, want in zip(windows, ([0, 0, 0, 1, 1], [0, 0, 0, 1, 1]), strict=True):
        assert item["segment_ids"].tolist() == want
    documents = TokenDataset(tmp_path / "t.bin", dtype="int32", seq_len=None, documents=given)
    assert ids_of(documents) == [[], [0, 1, 2], [3, 4], [], [5, 6, 7], [8, 9]]
    assert "segment_ids" not in documents[1]


def test_windows_by_index_equal_windows_by_id(tmp_path, rng):
    ids = rng.integers(0, 5, 1000).astype(np.uint16)
    ids.tofile(tmp_path / "t.bin")
    by_id = TokenDataset(tmp_path / "t.bin", dtype="uint16", seq_len=7, eod_id=0)
    by_index = TokenDataset(tmp_path / "t.bin", dtype="uint16", seq_len=7, documents=by_id.documents)
    for a, b in zip(by_id, by_index, strict=True):
        assert a["segment_ids"].tolist() == b["segment_ids"].tolist()


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([1, 10], "runs from 1 to 10; it must run from 0 to 10"),
        ([0, 9], "runs from 0 to 9"),
        ([0, 6, 4, 10], "falls from 6 to 4 after entry 1"),
        ([], "shape"),
    ],
)
def test_refuses_an_index_that_lies(tmp_path, index, message):
    np.arange(10, dtype=np.int32).tofile(tmp_path / "t.bin")
    dataset = TokenDataset(tmp_path / "t.bin", dtype="int32", seq_len=5, documents=np.array(index, np.int64))
    with pytest.raises(ValueError, match=message):
        dataset[0]


def test_documents_need_boundaries(tmp_path):
    np.arange(10, dtype=np.int32).tofile(tmp_path / "t.bin")
    with pytest.raises(ValueError, match="nothing says where the documents"):
        len(TokenDataset(tmp_path / "t.bin", dtype="int32", seq_len=None))


def test_npy(tmp_path):
    np.save(tmp_path / "flat.npy", np.arange(10, dtype=np.uint32))
    assert ids_of(TokenDataset(tmp_path / "flat.npy", seq_len=4)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    np.save(tmp_path / "table.npy", np.arange(12).reshape(3, 4))
    table = TokenDataset(tmp_path / "table.npy", seq_len=None)
    assert ids_of(table) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert TokenDataset(tmp_path / "table.npy", seq_len=6)[0]["segment_ids"].tolist() == [0, 0, 0, 0, 1, 1]
    assert "segment_ids" not in TokenDataset(tmp_path / "table.npy", seq_len=6, documents=False)[0]
    with pytest.raises(TypeError, match="stores uint32, and dtype int64 was asked for"):
        TokenDataset(tmp_path / "flat.npy", dtype="int64", seq_len=4)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 2, 2), int), r"has shape \[2, 2, 2\]"),
        (np.asfortranarray(np.zeros((3, 4), int)), r"of shape \[3, 4\] is stored by column"),
    ],
)
def test_npy_refuses_other_shapes(tmp_path, array, message):
    np.save(tmp_path / "t.npy", array)
    with pytest.raises(ValueError, match=message):
        TokenDataset(tmp_path / "t.npy", seq_len=2)


def test_npy_refuses_floats_and_objects(tmp_path):
    np.save(tmp_path / "float.npy", np.zeros(4))
    with pytest.raises(TypeError, match="no integer dtype"):
        TokenDataset(tmp_path / "float.npy", seq_len=2)
    np.save(tmp_path / "object.npy", np.array([[1], None], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"(?i)pickle|object"):
        TokenDataset(tmp_path / "object.npy", seq_len=2)


def test_pickle_holds_the_path(tmp_path, monkeypatch):
    np.arange(5_000_000).astype(np.uint16).tofile(tmp_path / "t.bin")
    monkeypatch.chdir(tmp_path)
    dataset = TokenDataset("t.bin", dtype="uint16", seq_len=1024, eod_id=3)
    assert len(dataset.documents) > 1
    data = pickle.dumps(dataset)
    assert len(data) < 2_000
    monkeypatch.chdir("/")
    again = pickle.loads(data)
    assert len(again) == len(dataset)
    assert again[7]["input_ids"].tolist() == dataset[7]["input_ids"].tolist()
    assert np.array_equal(again.documents, dataset.documents)


def test_a_file_that_changed_is_refused_after_unpickling(tmp_path):
    np.arange(100, dtype=np.uint16).tofile(tmp_path / "t.bin")
    data = pickle.dumps(TokenDataset(tmp_path / "t.bin", dtype="uint16", seq_len=10))
    np.arange(50, dtype=np.uint16).tofile(tmp_path / "t.bin")
    with pytest.raises(ValueError, match="has 100 bytes, and had 200"):
        len(pickle.loads(data))


def test_arrays_are_pickled_by_value_and_large_ones_warned_about(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small = pickle.dumps(TokenDataset(np.arange(10), seq_len=3, documents=[0, 2, 10]))
    assert ids_of(pickle.loads(small)) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    mapped = np.memmap(tmp_path / "t.bin", dtype=np.uint16, mode="w+", shape=(600_000,))
    with pytest.warns(UserWarning, match=r"holds 1200000 bytes of its ids.* more than 1048576 .*give its path"):
        pickle.dumps(TokenDataset(mapped, seq_len=1024))
    index = np.arange(200_001)
    index[-1] = 600_000
    dataset = TokenDataset(tmp_path / "t.bin", dtype="uint16", seq_len=1024, documents=index)
    with pytest.warns(UserWarning, match=r"t\.bin holds 1600008 bytes of its document index.*np\.save"):
        data = pickle.dumps(dataset)
    assert pickle.loads(data).documents.tolist() == index.tolist()


@pytest.mark.parametrize("kind", ["path", "npy map", "raw map"])
def test_an_index_is_pickled_by_its_file(tmp_path, monkeypatch, kind):
    np.zeros(600_000, np.uint16).tofile(tmp_path / "t.bin")
    index = np.append(np.arange(400_000), 600_000)
    np.save(tmp_path / "index.npy", index)
    (tmp_path / "index.bin").write_bytes(b"head" * 2 + index.tobytes())
    monkeypatch.chdir(tmp_path)
    given = {
        "path": lambda: "index.npy",
        "npy map": lambda: np.load("index.npy", mmap_mode="r"),
        "raw map": lambda: np.memmap("index.bin", np.int64, "r", 8),
    }[kind]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = pickle.dumps(TokenDataset("t.bin", dtype="uint16", seq_len=None, documents=given))
    assert len(data) < 2_000
    monkeypatch.chdir("/")
    assert np.array_equal(pickle.loads(data).documents, index)


@pytest.mark.parametrize("kind", ["slice", "private"])
def test_an_index_that_is_not_what_its_file_holds_is_pickled_by_value(tmp_path, kind):
    np.save(tmp_path / "index.npy", np.array([7, 0, 4, 10]))
    if kind == "slice":
        index = np.load(tmp_path / "index.npy", mmap_mode="r")[1:]
    else:
        index = np.load(tmp_path / "index.npy", mmap_mode="c")
        index[:2] = 0
    dataset = TokenDataset(np.arange(10), seq_len=None, documents=index)
    assert pickle.loads(pickle.dumps(dataset)).documents.tolist() == index.tolist()


def test_reading_maps_instead_of_loading(tmp_path):
    np.arange(100, dtype=np.uint16).tofile(tmp_path / "t.bin")
    dataset = TokenDataset(tmp_path / "t.bin", dtype="uint16", seq_len=10)
    view = dataset.tokens.read(10, 20)
    assert not view.flags.owndata
    assert not view.flags.writeable


def test_lengths_and_places_are_whole_numbers(tmp_path):
    np.arange(8, dtype=np.int64).tofile(tmp_path / "t.bin")
    with pytest.raises(TypeError, match="float"):
        TokenDataset(tmp_path / "t.bin", dtype="int64", seq_len=2.5)
    dataset = TokenDataset(tmp_path / "t.bin", dtype="int64", seq_len=4)
    assert dataset[np.int64(1)]["input_ids"].tolist() == [4, 5, 6, 7]
    for index in (0.0, slice(0, 1)):
        with pytest.raises(TypeError, match="integer"):
            dataset[index]
