"""engram-fast hash: documents are kept apart, and ids come from every kind of file, from stdin and in pieces."""

from __future__ import annotations

import io
import json
import os

import numpy as np
import pytest
from cli_tools import listing, refuse, run, run_json
from engram_fast import NgramHasher
from engram_fast.cli import pieces
from engram_fast.cli.app import app
from typer.testing import CliRunner

SHAPES = [(64,), (4, 16), (1, 40), (40, 1)]


def pipe(arguments, data, code=0):
    """The result of the command with bytes on stdin."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=data)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def rows_of(hasher, ids, **options):
    return NgramHasher.load(hasher).hash_batch(ids, **options)


@pytest.fixture(params=[1 << 23, 1], ids=["whole", "token-by-token"])
def piece(request, monkeypatch):
    """Pieces of the usual size, and of one token."""
    monkeypatch.setattr(pieces, "_PIECE", request.param)


@pytest.mark.parametrize("shape", SHAPES)
def test_eod_id_ends_a_document_after_it(tmp_path, hasher, saved, piece, shape):
    ids = np.random.default_rng(1).integers(0, 5, shape)
    report = run_json("hash", saved("i.npy", ids), "-o", tmp_path / "r.npy", "--hasher", hasher, "--eod-id", 3)
    assert report["boundaries"] == "eod_id"
    ends = np.cumsum(ids == 3, axis=-1)
    segments = np.concatenate([np.zeros_like(ends[..., :1]), ends[..., :-1]], axis=-1)
    expected = rows_of(hasher, ids, segment_ids=segments)
    assert (expected != rows_of(hasher, ids)).any() or shape[-1] == 1
    np.testing.assert_array_equal(np.load(tmp_path / "r.npy"), expected)


def test_cu_seqlens_keep_flat_documents_apart(tmp_path, hasher, saved, piece):
    ids = np.array([5, 7, 9, 2, 4, 4, 8])
    bounds = np.array([0, 3, 3, 5, 7])
    options = ("--hasher", hasher, "--cu-seqlens", saved("c.npy", bounds))
    run("hash", saved("i.npy", ids), "-o", tmp_path / "r.npy", *options)
    rows = np.load(tmp_path / "r.npy")
    np.testing.assert_array_equal(rows, rows_of(hasher, ids, cu_seqlens=bounds))
    assert rows[0, 3].tolist() == [44, 95, 61, 36]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axis", [0, 1, -2])
def test_segment_ids_and_mask_are_those_of_hash_batch(tmp_path, hasher, saved, piece, shape, axis):
    random = np.random.default_rng(2)
    ids = random.integers(0, 1000, shape)
    segments = np.cumsum(random.random(shape) < 0.2, axis=-1)
    mask = random.random(shape) < 0.8
    for given in ({"segment_ids": segments}, {"mask": mask}, {"segment_ids": segments, "mask": mask.astype(np.uint8)}):
        options = [option for name, array in given.items() for option in (f"--{name.replace('_', '-')}", array)]
        options = [saved(f"{n}.npy", option) if n % 2 else option for n, option in enumerate(options)]
        run("hash", saved("i.npy", ids), "-o", tmp_path / "r.npy", "--hasher", hasher, "--layer-axis", axis, *options)
        expected = rows_of(hasher, ids, layer_axis=axis, **given)
        np.testing.assert_array_equal(np.load(tmp_path / "r.npy"), expected)


@pytest.mark.parametrize("layout", ["longcat", "qwen-ple", "blt"])
def test_pieces_give_the_rows_of_the_whole(tmp_path, saved, piece, layout):
    ids = np.random.default_rng(3).integers(0, 4, (3, 30))
    run("hash", saved("i.npy", ids), "-o", tmp_path / "r.npy", "--layout", layout)
    from engram_fast import HashLayout

    np.testing.assert_array_equal(np.load(tmp_path / "r.npy"), NgramHasher(HashLayout.preset(layout)).hash_batch(ids))


def test_an_id_outside_its_range_is_named_with_its_place_in_the_file(tmp_path, hasher, saved, piece):
    ids = np.zeros((3, 40), int)
    ids[2, 31] = 1000
    sentence = refuse("hash", saved("i.npy", ids), "-o", tmp_path / "r.npy", "--hasher", hasher)
    assert "i.npy: token id 1000 at row 2, column 31 is outside the token map of 1000 ids" in sentence
    assert not (tmp_path / "r.npy").exists()


def test_wrong_boundaries_are_refused_and_named(tmp_path, hasher, saved):
    ids = saved("i.npy", np.zeros((2, 5), int))
    flat = saved("f.npy", np.zeros(10, int))
    turned = saved("turned.npy", np.zeros((5, 2), int))
    floats = saved("floats.npy", np.zeros((2, 5)))
    ragged = saved("ragged.npy", np.array([0, 7, 3, 10]))
    short = saved("short.npy", np.array([0, 9]))
    before = listing(tmp_path)
    for source, options, says in [
        (ids, ("--mask", turned), "turned.npy: has the shape [5, 2]; the ids have [2, 5]"),
        (ids, ("--segment-ids", turned), "turned.npy: has the shape [5, 2]; the ids have [2, 5]"),
        (ids, ("--segment-ids", floats), "floats.npy: expected integers, got float64"),
        (ids, ("--mask", floats), "floats.npy: expected integers or booleans, got float64"),
        (ids, ("--cu-seqlens", short), "--cu-seqlens: needs flat ids [N]"),
        (flat, ("--cu-seqlens", short), "short.npy runs from 0 to 9; it must run from 0 to 10"),
        (flat, ("--cu-seqlens", ragged), "ragged.npy falls from 7 to 3"),
        (flat, ("--cu-seqlens", short, "--eod-id", 3), "--cu-seqlens and --eod-id: one of them"),
        (flat, ("--eod-id", 1000), "--eod-id: 1000 is outside the token map of 1000 ids"),
        (flat, ("--eod-id", -1), "--eod-id: -1 is outside"),
        (flat, ("--mask", tmp_path / "no.npy"), "no.npy: no such file"),
    ]:
        assert says in refuse("hash", source, "-o", tmp_path / "r.npy", "--hasher", hasher, *options), options
    for option, file in (("--mask", ids), ("--segment-ids", ids)):
        assert "replace the input" in refuse("hash", ids, "-o", file, "--hasher", hasher, option, file)
    assert listing(tmp_path) == before


def test_stdin_and_stdout_carry_npy(hasher):
    ids = np.arange(20).reshape(2, 10)
    result = pipe(["hash", "-", "-o", "-", "--hasher", hasher], npy(ids))
    np.testing.assert_array_equal(np.load(io.BytesIO(result.stdout_bytes)), rows_of(hasher, ids))
    assert result.stderr.startswith("stdout: int32 [2, 2, 10, 4] from 20 tokens")
    result = pipe(["hash", "-", "-o", "-", "--hasher", hasher, "--json", "--eod-id", 3], npy(ids))
    assert json.loads(result.stderr)["shape"] == [2, 2, 10, 4]


def test_stdin_takes_raw_ids_with_their_dtype(tmp_path, hasher):
    ids = np.arange(300, 320, dtype=np.uint16)
    target = tmp_path / "r.npy"
    pipe(["hash", "-", "-o", target, "--hasher", hasher, "--input-dtype", "uint16"], ids.tobytes())
    np.testing.assert_array_equal(np.load(target), rows_of(hasher, ids))


def test_wrong_streams_are_refused_and_nothing_is_written(hasher):
    ids = npy(np.arange(20))
    for data, options, says in [
        (b"", (), "stdin: is empty"),
        (ids[:-1], (), "stdin: is a .npy file that is cut or damaged"),
        (ids[:20], (), "stdin: is a .npy file that is cut or damaged"),
        (b"\x1f\x8b\x08 zipped", (), "stdin: is compressed with gzip"),
        (b"\x01\x02\x03", (), "give raw ids their --input-dtype"),
        (b"\x01\x02\x03", ("--input-dtype", "uint16"), "stdin: has 3 bytes, no multiple of 2"),
        (b"\x01\x02", ("--input-dtype", "float16"), "no integer dtype"),
        (b"\x01\x02", ("--input-dtype", "many"), "is no dtype"),
        (npy(np.array([2000])), (), "stdin: token id 2000 at position 0"),
    ]:
        result = pipe(["hash", "-", "-o", "-", "--hasher", hasher, *options], data, code=2)
        assert says in result.stderr, says
        assert result.stderr.count("\n") == 1
        assert result.stdout_bytes == b""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes of the operating system")
def test_a_named_pipe_is_read_like_stdin(tmp_path, hasher):
    import threading

    ids = np.arange(20)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(npy(ids)))
    writer.start()
    run("hash", tmp_path / "pipe", "-o", tmp_path / "r.npy", "--hasher", hasher)
    writer.join()
    np.testing.assert_array_equal(np.load(tmp_path / "r.npy"), rows_of(hasher, ids))


def test_raw_arrow_parquet_and_megatron_files_are_read(tmp_path, hasher):
    documents = [[5, 7, 9], [2, 4], [8]]
    ids = np.concatenate(documents).astype(np.uint16)
    apart = rows_of(hasher, ids, cu_seqlens=[0, 3, 5, 6])
    ids.tofile(tmp_path / "ids.bin")
    target = tmp_path / "r.npy"
    run("hash", tmp_path / "ids.bin", "-o", target, "--hasher", hasher, "--input-dtype", "uint16")
    np.testing.assert_array_equal(np.load(target), rows_of(hasher, ids))
    arrow = pytest.importorskip("pyarrow", reason="needs pyarrow (the extra `data`)")
    import pyarrow.parquet as parquet

    table = arrow.table({"tokens": documents})
    parquet.write_table(table, tmp_path / "ids.parquet")
    with arrow.OSFile(str(tmp_path / "ids.arrow"), "wb") as file, arrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    for name in ("ids.parquet", "ids.arrow"):
        report = run_json("hash", tmp_path / name, "-o", target, "--hasher", hasher, "--column", "tokens")
        assert report["boundaries"] == "documents"
        np.testing.assert_array_equal(np.load(target), apart)
    assert "has no column 'input_ids'" in refuse("hash", tmp_path / "ids.arrow", "-o", target, "--hasher", hasher)


def test_unreadable_files_of_ids_are_named_with_the_reason(tmp_path, hasher, saved):
    import gzip

    good = saved("good.npy", np.arange(50)).read_bytes()
    files = {
        "empty.npy": (b"", "is empty"),
        "shrunken.npy": (good[:-8], "is cut"),
        "headerless.npy": (np.arange(50).tobytes(), "is not a .npy file"),
        "zipped.npy": (gzip.compress(good), "compressed with gzip"),
        "text.npy": (b"the tokens are these and those, one to a line", "is text"),
        "empty.bin": (b"", "--input-dtype"),
        "raw.bin": (np.arange(50).tobytes(), "--input-dtype"),
        "zipped.bin": (gzip.compress(good), "compressed with gzip"),
        "words.txt": (b"a cat", "is text"),
        "archive.npz": (b"PK\x03\x04 and so on", "is a zip archive"),
        "empty.parquet": (b"", "is empty"),
        "cut.parquet": (b"PAR1\x00", "cut.parquet"),
        "empty.arrow": (b"", "is empty"),
    }
    pytest.importorskip("pyarrow", reason="needs pyarrow (the extra `data`)")
    for name, (content, _) in files.items():
        (tmp_path / name).write_bytes(content)
    np.save(tmp_path / "objects.npy", np.array([1, None]), allow_pickle=True)
    before = listing(tmp_path)
    for name, says in [*((name, says) for name, (_, says) in files.items()), ("objects.npy", "pickled Python objects")]:
        sentence = refuse("hash", tmp_path / name, "-o", tmp_path / "r.npy", "--hasher", hasher)
        assert says in sentence, (name, sentence)
        assert name in sentence
        assert "allow_pickle" not in sentence
        assert "format=" not in sentence
    for name in ("empty.npy", "shrunken.npy", "zipped.npy"):
        sentence = refuse(
            "hash", tmp_path / "good.npy", "-o", tmp_path / "r.npy", "--hasher", hasher, "--mask", tmp_path / name
        )
        assert name in sentence
    assert listing(tmp_path) == before


def test_a_file_that_shrinks_while_it_is_read_is_named(tmp_path, hasher, saved, monkeypatch):
    source = saved("i.npy", np.zeros(4096, int))
    monkeypatch.setattr(pieces, "_PIECE", 1 << 13)
    original = NgramHasher.hash_batch

    def shrink(self, ids, **options):
        rows = original(self, ids, **options)
        if len(ids):
            os.truncate(source, 4096)
        return rows

    monkeypatch.setattr(NgramHasher, "hash_batch", shrink)
    sentence = refuse("hash", source, "-o", tmp_path / "r.npy", "--hasher", hasher)
    assert "i.npy: shrank from" in sentence
    assert not (tmp_path / "r.npy").exists()
