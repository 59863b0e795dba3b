"""Files that are not what they should be: each is named with the reason and what to do, and nothing advises harm."""

import gzip
import io
import os

import numpy as np
import pytest
from engram_fast.data import TokenDataset

torch = pytest.importorskip("torch", reason="torch is missing")


def refused(path, error=ValueError, **options):
    with pytest.raises(error) as caught:
        TokenDataset(path, seq_len=2, **options)
    message = str(caught.value)
    assert str(path) in message
    for harm in ("allow_pickle", "unsafe", "trust", "max_header_size"):
        assert harm not in message
    return message


@pytest.mark.parametrize("name", ["t.npy", "t.arrow", "t.feather", "t.parquet", "t.idx"])
def test_k_empty_files(tmp_path, name):
    (tmp_path / name).touch()
    if name == "t.idx":
        (tmp_path / "t.bin").touch()
    assert "is empty" in refused(tmp_path / name)


@pytest.mark.parametrize("name", ["t.npy", "t.arrow", "t.parquet"])
def test_k_headerless_files(tmp_path, name):
    (tmp_path / name).write_bytes(np.arange(1000, dtype=np.uint16).tobytes())
    message = refused(tmp_path / name)
    assert "has 2000 bytes and is not a" in message
    assert "write or copy it anew" in message


def written(folder, name):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is missing")
    import pyarrow.parquet as pq

    table = pa.table({"input_ids": pa.array([list(range(100))] * 50, pa.list_(pa.int32()))})
    if name == "t.npy":
        np.save(folder / name, np.arange(5000))
    elif name == "t.arrow":
        with pa.ipc.new_file(str(folder / name), table.schema) as writer:
            writer.write_table(table)
    elif name == "stream.arrow":
        with pa.ipc.new_stream(str(folder / name), table.schema) as writer:
            writer.write_table(table)
    else:
        pq.write_table(table, folder / name)
    return folder / name


@pytest.mark.parametrize("name", ["t.npy", "t.arrow", "stream.arrow", "t.parquet"])
def test_k_shrunken_files(tmp_path, name):
    path = written(tmp_path, name)
    whole = path.read_bytes()
    for length in {1, 4, 8, 9, 30, 100, len(whole) // 2, len(whole) - 1, len(whole) - 9}:
        path.write_bytes(whole[:length])
        try:
            refused(path)
        except pytest.fail.Exception:  # a stream may lack its end
            assert name == "stream.arrow"
            assert length > len(whole) - 10


@pytest.mark.parametrize("name", ["t.npy", "t.arrow", "t.parquet"])
@pytest.mark.parametrize("compressed", [b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b"BZh9", b"\xfd7zXZ\x00"])
def test_k_compressed_files(tmp_path, name, compressed):
    (tmp_path / name).write_bytes(compressed + bytes(range(256)))
    message = refused(tmp_path / name)
    assert "is compressed with" in message
    assert "decompress it first" in message


@pytest.mark.parametrize("name", ["t.bin.gz", "t.bin"])
def test_k_a_compressed_raw_file(tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(np.arange(4001, dtype=np.uint16).tobytes(), mtime=0) + b"\0\0")
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 * 2])
    assert "is compressed with gzip: decompress it first" in refused(path, dtype="uint16")
    assert len(TokenDataset(path, dtype="uint16", seq_len=2, format="raw")) > 0


def test_k_files_of_another_type(tmp_path):
    np.savez(tmp_path / "t.npz", np.arange(4))
    (tmp_path / "t.npy").write_bytes((tmp_path / "t.npz").read_bytes())
    assert "is a zip archive (an .npz file is one)" in refused(tmp_path / "t.npy")
    assert "is a zip archive" in refused(tmp_path / "t.npz", dtype="uint16")
    path = written(tmp_path, "t.parquet")
    (tmp_path / "u.arrow").write_bytes(path.read_bytes())
    assert "is a Parquet file by its first bytes" in refused(tmp_path / "u.arrow")
    (tmp_path / "u.bin").write_bytes(path.read_bytes())
    assert "is a Parquet file by its first bytes" in refused(tmp_path / "u.bin", dtype="uint8")
    np.save(tmp_path / "t.npy", np.arange(4))
    (tmp_path / "v.bin").write_bytes((tmp_path / "t.npy").read_bytes())
    assert "is a .npy file by its first bytes" in refused(tmp_path / "v.bin", dtype="uint16")


def test_k_pickles_are_refused_without_advice(tmp_path):
    np.save(tmp_path / "t.npy", np.array([[1], None], dtype=object), allow_pickle=True)
    assert "pickled Python objects" in refused(tmp_path / "t.npy")
    import pickle

    (tmp_path / "t.npy").write_bytes(pickle.dumps([1, 2, 3]))
    refused(tmp_path / "t.npy")
    index = io.BytesIO()
    np.save(index, np.array([None]), allow_pickle=True)
    (tmp_path / "index.npy").write_bytes(index.getvalue())
    dataset = TokenDataset(np.arange(4), seq_len=2, documents=tmp_path / "index.npy")
    with pytest.raises(ValueError, match=r"index\.npy holds pickled Python objects"):
        dataset[0]


@pytest.mark.parametrize("header", [b"", b"{", b"{'descr': '<i8'}", b"x" * 20000, b"\xff" * 40, b"{'descr': '<i8', "])
def test_k_damaged_headers(tmp_path, header):
    (tmp_path / "t.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    assert "damaged header" in refused(tmp_path / "t.npy")


@pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.txt", "corpus.csv", "corpus", "corpus.bin"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32"])
def test_h15_text_is_no_token_file(tmp_path, name, dtype):
    text = '{"text": "The cat sat on the mat; naïve, isn\'t it?"}\n' * 40
    (tmp_path / name).write_bytes(text.encode()[: len(text) // 8 * 8])
    assert "is text, not token ids: tokenise it first" in refused(tmp_path / name, dtype=dtype)
    bytes_as_ids = TokenDataset(tmp_path / name, dtype="uint8", seq_len=2, format="raw")
    assert bytes_as_ids[0]["input_ids"].tolist() == [ord("{"), ord('"')]


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        ("uint32", "uint16"),
        ("int32", "uint16"),
        ("int64", "uint32"),
        ("int64", "int32"),
        ("uint16", "uint8"),
        (">u4", ">u2"),
    ],
)
@pytest.mark.parametrize("vocabulary", [250, 60_000])
@pytest.mark.parametrize("count", [12, 5000])
def test_h15_ids_read_by_halves(tmp_path, rng, stored, read, vocabulary, count):
    if stored == "uint16":
        vocabulary = 250
    rng.integers(1, vocabulary, count).astype(stored).tofile(tmp_path / "t.bin")
    assert "twice as wide" in refused(tmp_path / "t.bin", dtype=read)
    TokenDataset(tmp_path / "t.bin", dtype=read, seq_len=2, format="raw")
    TokenDataset(tmp_path / "t.bin", dtype=stored, seq_len=2)


def test_h15_ids_past_16_bits_read_by_halves(tmp_path, rng):
    rng.integers(0, 129280, 5000).astype(np.uint32).tofile(tmp_path / "t.bin")
    assert "twice as wide (uint32 or int32)" in refused(tmp_path / "t.bin", dtype="uint16")
    assert "twice as wide" in refused(tmp_path / "t.bin", dtype="uint16", vocab_size=60_000)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32"])
@pytest.mark.parametrize(
    "make",
    [
        lambda rng: np.zeros(600),
        lambda rng: np.tile([7, 0], 300),
        lambda rng: rng.integers(0, 3, 600),
        lambda rng: rng.integers(0, 200, 600),
        lambda rng: np.arange(600) % 200,
        lambda rng: np.repeat(rng.integers(0, 2, 300), 2),
        lambda rng: np.array([5, 0, 7, 0, 9, 0, 11, 0]),
    ],
)
def test_h15_files_of_their_dtype_are_read(tmp_path, rng, dtype, make):
    make(rng).astype(dtype).tofile(tmp_path / "t.bin")
    TokenDataset(tmp_path / "t.bin", dtype=dtype, seq_len=2)


def test_j_a_list_of_shards_is_one_sequence(tmp_path, rng):
    ids = rng.integers(1, 1000, 40).astype(np.uint16)
    bounds = [0, 13, 13, 29, 40]
    paths = [tmp_path / f"shard_{n}.bin" for n in range(4)]
    for path, start, stop in zip(paths, bounds[:-1], bounds[1:], strict=True):
        ids[start:stop].tofile(path)
    for given in (
        paths,
        tuple(map(str, paths)),
        iter(paths),
        [os.fsencode(path) for path in paths],
        tmp_path / "shard_*.bin",
        str(tmp_path / "shard_?.bin"),
    ):
        dataset = TokenDataset(given, dtype="uint16", seq_len=6)
        assert len(dataset) == 6
        assert np.concatenate([item["input_ids"] for item in dataset]).tolist() == ids[:36].tolist()
    reverse = TokenDataset(paths[::-1], dtype="uint16", seq_len=11)
    assert reverse[0]["input_ids"].tolist() == ids[29:].tolist()
    ids[30] = 1000
    ids[29:].tofile(paths[3])
    dataset = TokenDataset(paths, dtype="uint16", seq_len=6, vocab_size=1000)
    for read in (lambda: dataset[5], dataset.check):
        with pytest.raises(IndexError, match=r"token id 1000 at position 1 of .*shard_3\.bin is outside"):
            read()


def test_j_shards_with_documents(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6).reshape(2, 3))
    np.save(tmp_path / "b.npy", np.arange(6, 14).reshape(2, 4))
    dataset = TokenDataset(tmp_path / "*.npy", seq_len=None)
    assert [item["input_ids"].tolist() for item in dataset] == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9], [10, 11, 12, 13]]
    windows = TokenDataset(tmp_path / "*.npy", seq_len=7)
    assert [item["segment_ids"].tolist() for item in windows] == [[0, 0, 0, 1, 1, 1, 2], [0, 0, 0, 1, 1, 1, 1]]
    by_id = TokenDataset(tmp_path / "*.npy", seq_len=7, eod_id=8)
    assert [item["segment_ids"].tolist() for item in by_id] == [[0] * 7, [0, 0, 1, 1, 1, 1, 1]]


def test_j_shards_are_pickled_by_path_and_checked(tmp_path):
    import pickle

    for name in "ab":
        np.arange(10, dtype=np.uint16).tofile(tmp_path / f"{name}.bin")
    data = pickle.dumps(TokenDataset(tmp_path / "*.bin", dtype="uint16", seq_len=5))
    assert len(data) < 1000
    assert len(pickle.loads(data)) == 4
    np.arange(8, dtype=np.uint16).tofile(tmp_path / "b.bin")
    with pytest.raises(ValueError, match=r"b\.bin has 16 bytes, and had 20"):
        len(pickle.loads(data))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda folder: [], ValueError, "the list of token files is empty"),
        (lambda folder: folder / "*.none", FileNotFoundError, r"no file matches .*\*\.none"),
        (lambda folder: [folder / "a.bin", folder / "none.bin"], FileNotFoundError, "none"),
        (lambda folder: folder, IsADirectoryError, r"is a folder; name its files, for example .*/\*\.arrow"),
        (lambda folder: [folder / "a.bin", folder / "b.npy"], TypeError, r"b\.npy stores uint32, and .* uint16"),
        (
            lambda folder: [folder / "a.bin", folder / "c.npy"],
            ValueError,
            r"c\.npy says where documents end, and .*a\.bin",
        ),
        (lambda folder: [3], TypeError, "int"),
    ],
)
def test_j_shards_that_do_not_fit_together(tmp_path, make, error, message):
    np.arange(10, dtype=np.uint16).tofile(tmp_path / "a.bin")
    np.save(tmp_path / "b.npy", np.arange(10, dtype=np.uint32))
    np.save(tmp_path / "c.npy", np.arange(10, dtype=np.uint16).reshape(2, 5))
    with pytest.raises(error, match=message):
        TokenDataset(make(tmp_path), dtype="uint16", seq_len=2)


def test_j_an_empty_shard_has_the_dtype_of_its_column(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is missing")
    for name, lists in (("a", []), ("b", [[1, 2], [3]])):
        table = pa.table({"input_ids": pa.array(lists, pa.list_(pa.int32()))})
        with pa.ipc.new_file(str(tmp_path / f"{name}.arrow"), table.schema) as writer:
            for batch in table.to_batches() if lists else []:
                writer.write_batch(batch)
    dataset = TokenDataset(tmp_path / "*.arrow", seq_len=None)
    assert [item["input_ids"].tolist() for item in dataset] == [[1, 2], [3]]


def test_j_a_name_with_signs_of_a_pattern_is_a_name(tmp_path):
    np.arange(10, dtype=np.uint16).tofile(tmp_path / "a[1].bin")
    np.arange(4, dtype=np.uint16).tofile(tmp_path / "a1.bin")
    assert len(TokenDataset(tmp_path / "a[1].bin", dtype="uint16", seq_len=2)) == 5


def test_j_megatron_pairs_by_pattern_and_with_a_short_document_index(tmp_path):
    from test_megatron import SEQUENCES, write_pair

    for name in ("a", "b"):
        write_pair(tmp_path / name, SEQUENCES, [0, 2, 3, 4])
    for pattern in ("*", "*.bin", "*.idx"):
        dataset = TokenDataset(tmp_path / pattern, seq_len=None)
        assert [len(item["input_ids"]) for item in dataset] == [4, 2, 4] * 2
    write_pair(tmp_path / "c", SEQUENCES, [0, 2, 3])
    with pytest.raises(ValueError, match="document index"):
        TokenDataset(tmp_path / "c", seq_len=5)
    dataset = TokenDataset(tmp_path / "c", seq_len=5, documents=False)
    assert [item["input_ids"].tolist() for item in dataset] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    assert "segment_ids" not in dataset[0]
    by_id = TokenDataset(tmp_path / "c", seq_len=5, eod_id=4)
    assert by_id[0]["segment_ids"].tolist() == [0, 0, 0, 0, 1]
    given = TokenDataset(tmp_path / "c", seq_len=None, documents=[0, 10])
    assert len(given) == 1
