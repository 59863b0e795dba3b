"""engram-fast hash: a .npy file of token ids to one of rows."""

from __future__ import annotations

import errno
import os

import goldens
import numpy as np
import pytest
from cli_tools import listing, refuse, run, run_json, small_tokenizer, start
from engram_fast import HashLayout, NgramHasher, TokenMap


@pytest.fixture
def v4(tmp_path):
    path = tmp_path / "v4.safetensors"
    TokenMap.from_lookup(goldens.lookup("v4")).save(path)
    return path


def tokens(tmp_path, ids, name="tokens.npy"):
    np.save(tmp_path / name, ids)
    return tmp_path / name


def test_golden_rows_of_the_demo(tmp_path, v4):
    arrays = goldens.load("demo_v1_deepseek_v4")
    for given, expected in (("input_ids", "hash_layer"), ("input_ids_with_negatives", "hash_negatives_layer")):
        source = tokens(tmp_path, arrays[given])
        report = run_json("hash", source, "-o", tmp_path / "rows.npy", "--layout", "engram-demo-v1", "--token-map", v4)
        rows = np.load(tmp_path / "rows.npy")
        assert report["shape"] == list(rows.shape) == [2, 5, 64, 16]
        assert report["dtype"] == str(rows.dtype) == "int32"
        assert report["layers"] == [1, 15]
        np.testing.assert_array_equal(rows, goldens.layer_arrays(arrays, expected, [1, 15]))


def test_golden_rows_of_v41_in_its_own_axes_and_dtype(tmp_path, v4):
    arrays = goldens.load("deepseek_v41")
    source = tokens(tmp_path, arrays["input_ids"].astype(np.int32))
    options = ("--layout", "deepseek-v4.1", "--token-map", v4, "--layer-axis", -2, "--dtype", "int64", "--threads", 2)
    run("hash", source, "-o", tmp_path / "rows.npy", *options)
    rows = np.load(tmp_path / "rows.npy")
    assert rows.dtype == np.int64
    np.testing.assert_array_equal(rows, arrays["rows"])


@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("offsets", [[], ["--offsets"], ["--no-offsets"]])
def test_options_are_those_of_hash_batch(tmp_path, hasher, axis, flat, offsets):
    ids = np.random.default_rng(0).integers(0, 1000, 30 if flat else (3, 10))
    run("hash", tokens(tmp_path, ids), "-o", tmp_path / "r.npy", "--hasher", hasher, "--layer-axis", axis, *offsets)
    add = {"--offsets": True, "--no-offsets": False}.get(offsets[0]) if offsets else None
    expected = NgramHasher.load(hasher).hash_batch(ids, layer_axis=axis, add_offsets=add)
    rows = np.load(tmp_path / "r.npy")
    assert rows.dtype == expected.dtype
    np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize("dtype", ["u1", "u2", "i2", "<i4", ">i4", "u8", ">i8"])
def test_every_integer_dtype_and_order_of_axes(tmp_path, hasher, dtype):
    ids = np.random.default_rng(0).integers(0, 128, (3, 10)).astype(dtype)
    expected = NgramHasher.load(hasher).hash_batch(ids)
    for given in (ids, np.asfortranarray(ids)):
        run("hash", tokens(tmp_path, given), "-o", tmp_path / "rows.npy", "--hasher", hasher)
        np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), expected)


@pytest.mark.parametrize("shape", [(0,), (0, 7), (7, 0), (1, 1)])
def test_shapes_at_the_edge(tmp_path, hasher, shape):
    ids = np.zeros(shape, np.int64)
    for axis in (0, 1, -2):
        target = tmp_path / "rows.npy"
        run("hash", tokens(tmp_path, ids), "-o", target, "--hasher", hasher, "--layer-axis", axis)
        expected = NgramHasher.load(hasher).hash_batch(ids, layer_axis=axis)
        rows = np.load(target)
        assert rows.shape == expected.shape
        np.testing.assert_array_equal(rows, expected)


def test_layouts_by_configuration_by_file_and_with_parameters(tmp_path):
    ids = np.random.default_rng(0).integers(0, 1000, (2, 20))
    source, target = tokens(tmp_path, ids), tmp_path / "rows.npy"
    layout = HashLayout.preset("longcat", emb_split_num=2)
    expected = NgramHasher(layout).hash_batch(ids)
    (tmp_path / "layout.json").write_text(layout.to_json())
    for options in (["longcat", "--set", "emb_split_num=2"], [tmp_path / "layout.json"]):
        report = run_json("hash", source, "-o", target, "--layout", *options)
        assert report["digest"] == layout.digest
        np.testing.assert_array_equal(np.load(target), expected)
    (tmp_path / "config.json").write_text('{"model_type": "blt"}')
    run("hash", source, "-o", target, "--config", tmp_path)
    np.testing.assert_array_equal(np.load(target), NgramHasher(HashLayout.preset("blt")).hash_batch(ids))


def test_a_tokenizer_gives_the_map(tmp_path):
    tokenizer = small_tokenizer(tmp_path / "model")
    ids = np.array([[3, 5, 9]])
    options = ("--layout", "engram-demo-v1", "--tokenizer", tokenizer, "--vocab-size", 16)
    run("hash", tokens(tmp_path, ids), "-o", tmp_path / "rows.npy", *options)
    token_map = TokenMap.from_file(tokenizer, 16)
    expected = NgramHasher(HashLayout.preset("engram-demo-v1", token_map=token_map), token_map).hash_batch(ids)
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), expected)


def test_the_text_names_file_shape_and_speed(tmp_path, hasher):
    target = tmp_path / "rows.npy"
    text = run("hash", tokens(tmp_path, np.zeros((2, 3), int)), "-o", target, "--hasher", hasher).stdout
    assert text.startswith(f"{target}: int32 [2, 2, 3, 4] from 6 tokens, layers 1, 15 at ")


def test_wrong_input_is_refused_and_leaves_everything_as_it_was(tmp_path, hasher, v4, no_deepseek):
    good = tokens(tmp_path, np.arange(12).reshape(3, 4))
    old = tmp_path / "old.npy"
    old.write_bytes(b"what was there before")
    for name, array in {
        "float": np.zeros((2, 3)),
        "bool": np.zeros((2, 3), bool),
        "cube": np.zeros((2, 2, 2), int),
        "scalar": np.array(3),
        "large": np.array([[1, 2], [3, 1000]]),
        "structured": np.zeros(3, [("a", int)]),
        "text": np.array(["a"]),
    }.items():
        tokens(tmp_path, array, f"{name}.npy")
    np.save(tmp_path / "object.npy", np.array([1, None]), allow_pickle=True)
    np.savez(tmp_path / "several.npz", a=np.zeros(3, int))
    (tmp_path / "cut.npy").write_bytes(good.read_bytes()[:-8])
    (tmp_path / "header.npy").write_bytes(b"\x93NUMPY\x01\x00\x05\x00{'de'")
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "words.npy").write_text("token ids")
    (tmp_path / "taken").mkdir()
    broken = tmp_path / "broken"
    NgramHasher.load(hasher).save(broken)
    (broken / "engram_layout.json").write_text("{}")
    mixed = tmp_path / "mixed"
    NgramHasher.load(hasher).save(mixed)
    TokenMap.identity(999).save(mixed / "engram_token_map.safetensors")
    (tmp_path / "demo.json").write_text(HashLayout.preset("engram-demo-v1", token_map=TokenMap.identity(50)).to_json())
    saved = ("--hasher", hasher)
    cases = [
        ("float.npy", saved, "expected integers, got float64"),
        ("bool.npy", saved, "expected integers, got bool"),
        ("cube.npy", saved, "3 dimensions"),
        ("scalar.npy", saved, "dimensions"),
        ("structured.npy", saved, "expected integers"),
        ("text.npy", saved, "expected integers"),
        ("large.npy", saved, "token id 1000 at row 1, column 1 is outside the token map of 1000 ids"),
        ("object.npy", saved, "object.npy"),
        ("several.npz", saved, "several.npz"),
        ("cut.npy", saved, "cut.npy"),
        ("header.npy", saved, "header.npy"),
        ("empty.npy", saved, "empty.npy"),
        ("words.npy", saved, "words.npy"),
        ("missing.npy", saved, "no such file"),
        ("taken", saved, "directory"),
        ("tokens.npy", (), "exactly one of --layout NAME, --config FILE and --hasher FOLDER"),
        ("tokens.npy", (*saved, "--layout", "blt"), "exactly one"),
        ("tokens.npy", (*saved, "--set", "seed=1"), "--set"),
        ("tokens.npy", (*saved, "--token-map", v4), "was made for the token map"),
        ("tokens.npy", ("--hasher", tmp_path / "missing"), "no such folder"),
        ("tokens.npy", ("--hasher", tmp_path / "taken"), "no such file"),
        ("tokens.npy", ("--hasher", broken), "broken"),
        ("tokens.npy", ("--hasher", mixed), "was made for the token map"),
        ("tokens.npy", ("--layout", "nope"), "'nope' is not a preset"),
        ("tokens.npy", ("--layout", "engram-demo-v1"), "--tokenizer FILE"),
        ("tokens.npy", ("--layout", tmp_path / "demo.json", "--token-map", v4), "was made for the token map"),
        ("tokens.npy", ("--layout", tmp_path / "demo.json"), "token_map"),
        ("tokens.npy", (*saved, "--dtype", "float32"), "expected int32 or int64"),
        ("tokens.npy", (*saved, "--dtype", "nonsense"), "expected int32 or int64"),
        ("tokens.npy", (*saved, "--layer-axis", 2), "layer_axis"),
        ("tokens.npy", (*saved, "--threads", 0), "num_threads"),
    ]
    before = listing(tmp_path)
    for name, options, says in cases:
        for target in (tmp_path / "new.npy", old):
            assert says in refuse("hash", tmp_path / name, "-o", target, *options), (name, options)
    assert "does not exist" in refuse("hash", good, "-o", tmp_path / "no" / "rows.npy", *saved)
    assert "not a regular file" in refuse("hash", good, "-o", tmp_path / "taken", *saved)
    assert "replace the input" in refuse("hash", good, "-o", good, *saved)
    if os.path.exists("/dev/null"):
        assert "not a regular file" in refuse("hash", good, "-o", "/dev/null", *saved)
    assert listing(tmp_path) == before


def test_rows_past_int32_are_refused_as_int32(tmp_path):
    source = tokens(tmp_path, np.zeros(3, int))
    parameters = ["--layout", "blt", "--set", "encoder_hash_byte_group_vocab=600000000"]
    before = listing(tmp_path)
    assert "int32" in refuse("hash", source, "-o", tmp_path / "r.npy", *parameters, "--dtype", "int32")
    assert listing(tmp_path) == before
    assert run_json("hash", source, "-o", tmp_path / "r.npy", *parameters)["dtype"] == "int64"


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="needs posix_fallocate")
def test_a_full_disk_is_found_before_anything_is_written(tmp_path, hasher, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    source = tokens(tmp_path, np.zeros((3, 4), int))
    before = listing(tmp_path)
    monkeypatch.setattr(os, "posix_fallocate", full)
    sentence = refuse("hash", source, "-o", tmp_path / "rows.npy", "--hasher", hasher)
    assert "no room for" in sentence
    assert "No space left" in sentence
    assert listing(tmp_path) == before


@pytest.mark.parametrize("raised", [KeyboardInterrupt, MemoryError])
def test_what_stops_the_hashing_leaves_no_file(tmp_path, hasher, monkeypatch, raised):
    source = tokens(tmp_path, np.zeros((3, 4), int))
    before = listing(tmp_path)

    def stop(*_):
        raise raised

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(AssertionError):
        run("hash", source, "-o", tmp_path / "rows.npy", "--hasher", hasher)
    assert listing(tmp_path) == before


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc/self/statm")
def test_large_files_are_mapped_not_read(tmp_path, hasher):
    source = tokens(tmp_path, np.zeros((512, 8192), np.uint16))  # 8 MB, and 128 MB of rows
    # As much again as starting takes would not hold the rows.
    limit = "import resource; import engram_fast.cli.demo.steps; "
    limit += "size = int(open('/proc/self/statm').read().split()[5]) * resource.getpagesize() + (64 << 20); "
    limit += "resource.setrlimit(resource.RLIMIT_DATA, (size, size))"
    done = start(
        "hash",
        source,
        "-o",
        tmp_path / "rows.npy",
        "--hasher",
        hasher,
        "--threads",
        1,
        "--dtype",
        "int64",
        before=limit,
    )
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "rows.npy", mmap_mode="r").shape == (2, 512, 8192, 4)
