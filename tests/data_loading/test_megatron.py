"""Megatron pairs: every integer dtype, documents of several sequences, and files that lie."""

import pickle
import struct
from itertools import chain

import numpy as np
import pytest
from engram_fast.data import TokenDataset
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is missing")

CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint16": 8}


def write_pair(prefix, sequences, documents, dtype="uint16", *, modes=False, **wrong):
    """Write `prefix.bin` and `prefix.idx`; `wrong` replaces single fields of the index."""
    lengths = np.array([len(sequence) for sequence in sequences], np.int32)
    size = np.dtype(dtype).itemsize
    pointers = np.concatenate([[0], np.cumsum(lengths[:-1].astype(np.int64) * size)])[: len(lengths)].astype(np.int64)
    with open(f"{prefix}.bin", "wb") as file:
        for sequence in sequences:
            file.write(np.array(sequence, dtype).tobytes())
    with open(f"{prefix}.idx", "wb") as file:
        file.write(wrong.get("magic", b"MMIDIDX\x00\x00"))
        file.write(struct.pack("<QB", wrong.get("version", 1), wrong.get("code", CODES.get(dtype))))
        file.write(struct.pack("<QQ", wrong.get("count", len(lengths)), wrong.get("document_count", len(documents))))
        file.write(np.array(wrong.get("lengths", lengths), np.int32).tobytes())
        file.write(np.array(wrong.get("pointers", pointers), np.int64).tobytes())
        file.write(np.array(documents, np.int64).tobytes())
        if modes:
            file.write(np.zeros(len(lengths), np.int8).tobytes())


SEQUENCES = [[1, 2, 3], [4], [5, 6], [7, 8, 9, 10]]


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("suffix", ["", ".bin", ".idx"])
@pytest.mark.parametrize("modes", [False, True])
def test_reads_the_published_format(tmp_path, dtype, suffix, modes):
    write_pair(tmp_path / "d", SEQUENCES, [0, 2, 3, 4], dtype, modes=modes)
    path = f"{tmp_path / 'd'}{suffix}"
    documents = TokenDataset(path, seq_len=None)
    assert [item["input_ids"].tolist() for item in documents] == [[1, 2, 3, 4], [5, 6], [7, 8, 9, 10]]
    windows = TokenDataset(path, seq_len=5)
    assert [item["input_ids"].tolist() for item in windows] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    assert [item["segment_ids"].tolist() for item in windows] == [[0, 0, 0, 0, 1], [0, 1, 1, 1, 1]]
    assert windows.tokens.dtype == np.dtype(dtype)
    again = pickle.loads(pickle.dumps(windows))
    assert again[1]["segment_ids"].tolist() == [0, 1, 1, 1, 1]


def test_raw_beside_an_unrelated_idx(tmp_path):
    np.arange(4, dtype=np.uint16).tofile(tmp_path / "d.bin")
    (tmp_path / "d.idx").write_bytes(b"something else")
    assert len(TokenDataset(tmp_path / "d.bin", dtype="uint16", seq_len=2)) == 2


def test_format_raw_reads_the_bin_alone(tmp_path):
    write_pair(tmp_path / "d", SEQUENCES, [0, 4])
    raw = TokenDataset(tmp_path / "d.bin", dtype="uint16", seq_len=5, format="raw")
    assert raw[0]["input_ids"].tolist() == [1, 2, 3, 4, 5]
    assert "segment_ids" not in raw[0]


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"magic": b"TNTIDX\x00\x00\x00"}, ValueError, "does not begin with"),
        ({"version": 2}, ValueError, "format version 2"),
        ({"code": 9}, ValueError, r"dtype code 9; known are \[1, 2, 3, 4, 5, 8\]"),
        ({"code": 6}, TypeError, "floating-point"),
        ({"code": 7}, TypeError, "floating-point"),
        ({"count": 5}, ValueError, "5 sequences"),
        ({"count": 2**61}, ValueError, "sequences"),
        ({"document_count": 2**63}, ValueError, "document entries"),
        ({"lengths": [3, 1, 2, 5]}, ValueError, "describes 11 tokens, and .* holds 10"),
        ({"lengths": [3, -1, 4, 4]}, ValueError, "sequence 1 the length -1"),
        ({"pointers": [0, 6, 10, 12]}, ValueError, "places sequence 2 at byte 10; .* byte 8"),
        ({"pointers": [0, 6, 8, -12]}, ValueError, "places sequence 3"),
        ({"code": 4}, ValueError, "describes 10 tokens, and .* holds 5"),
    ],
)
def test_refuses_an_index_that_lies(tmp_path, wrong, error, message):
    write_pair(tmp_path / "d", SEQUENCES, [0, 2, 4], **wrong)
    with pytest.raises(error, match=message):
        TokenDataset(tmp_path / "d.idx", seq_len=2)


@pytest.mark.parametrize("documents", [[0, 2, 3], [1, 4], [0, 3, 2, 4], [], [0, 5]])
def test_refuses_a_document_index_that_lies(tmp_path, documents):
    write_pair(tmp_path / "d", SEQUENCES, documents)
    with pytest.raises(ValueError, match="document index"):
        TokenDataset(tmp_path / "d", seq_len=2)


def test_cut_files(tmp_path):
    write_pair(tmp_path / "d", SEQUENCES, [0, 2, 4])
    whole = (tmp_path / "d.idx").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "d.idx").write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"d\.idx"):
            TokenDataset(tmp_path / "d.idx", seq_len=2)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=5), max_size=3), min_size=1, max_size=8),
    st.sampled_from(["int32", "int64"]),
)
def test_round_trip(tmp_path_factory, documents, dtype):
    prefix = tmp_path_factory.mktemp("megatron") / "d"
    sequences = [sequence for document in documents for sequence in document]
    index = np.concatenate([[0], np.cumsum([len(document) for document in documents])])
    write_pair(prefix, sequences, index, dtype)
    got = [item["input_ids"].tolist() for item in TokenDataset(prefix, seq_len=None)]
    assert got == [list(chain(*document)) for document in documents]
