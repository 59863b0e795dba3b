"""The file of a token map: the same map comes back, and nothing damaged is taken."""

import json
import multiprocessing
import os
import stat
import struct

import numpy as np
import pytest
from engram_fast import TokenMap
from hypothesis import given, settings
from hypothesis import strategies as st

TEXTS = st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=4)), min_size=1)
LOOKUPS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=200)
MAPS = st.one_of(
    st.builds(lambda texts: TokenMap.from_pieces(texts, ["piece"] * len(texts)), TEXTS),
    st.builds(TokenMap.from_lookup, LOOKUPS),
    st.builds(TokenMap.identity, st.integers(1, 2000)),
)


def example():
    # Id 5 has the holes' empty key without being one.
    return TokenMap.from_pieces(["The", None, "the", " ", None, ""], ["x"] * 6)


def parts(data):
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def joined(header, tensors):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + tensors


def refused(path, data, match):
    path.write_bytes(data)
    with pytest.raises(ValueError, match=match) as caught:
        TokenMap.load(path)
    assert path.name in str(caught.value)


@settings(deadline=None)
@given(MAPS)
def test_save_then_load_is_the_same_map(tmp_path_factory, token_map):
    path = tmp_path_factory.mktemp("map") / "map"
    token_map.save(path)
    back = TokenMap.load(path)
    assert type(back) is TokenMap
    assert back.lookup.dtype == np.int32
    np.testing.assert_array_equal(back.lookup, token_map.lookup)
    for name in ("size", "holes", "digest", "metadata"):
        assert getattr(back, name) == getattr(token_map, name), name
    assert back.to_bytes() == path.read_bytes()


def test_the_file_is_an_ordinary_safetensors_file(tmp_path):
    numpy_files = pytest.importorskip("safetensors.numpy", reason="needs the package safetensors")
    example().save(tmp_path / "map")
    tensors = numpy_files.load_file(tmp_path / "map")
    assert tensors["lookup"].tolist() == example().lookup.tolist()
    assert tensors["holes"].tolist() == [1, 4]
    header, _ = parts((tmp_path / "map").read_bytes())
    assert header["__metadata__"]["format"] == "engram-fast-token-map"
    assert header["__metadata__"]["digest"] == example().digest


def test_the_same_map_is_the_same_bytes(tmp_path):
    for name in "ab":
        example().save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_the_file_has_the_mode_of_an_ordinary_one(tmp_path):
    (tmp_path / "ordinary").write_bytes(b"")
    example().save(tmp_path / "map")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "map")}
    assert len(modes) == 1


def test_every_truncation_is_refused(tmp_path):
    data = example().to_bytes()
    for length in range(len(data)):
        refused(tmp_path / "map", data[:length], "map")
    refused(tmp_path / "map", data + b"\0", "safetensors")


def test_every_flipped_bit_is_refused_or_harmless(tmp_path):
    data, token_map = example().to_bytes(), example()
    for index in range(len(data)):
        damaged = bytearray(data)
        damaged[index] ^= 1 << (index % 8)
        try:
            back = TokenMap.from_bytes(bytes(damaged))
        except ValueError:
            continue
        assert back == token_map  # a free text of the metadata, or padding
        assert back.holes == token_map.holes


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=300))
def test_garbage_is_a_value_error(data):
    for garbage in (data, struct.pack("<Q", len(data)) + data, struct.pack("<Q", 2) + b"{}" + data):
        with pytest.raises(ValueError, match="token map"):
            TokenMap.from_bytes(garbage)


@pytest.mark.parametrize("claim", [2**64 - 1, 2**63, 2**40, 10**8, 2**20 + 1, 10**5, 0])
def test_a_header_length_that_lies_is_refused(tmp_path, claim):
    data = example().to_bytes()
    refused(tmp_path / "map", struct.pack("<Q", claim) + data[8:], "header|safetensors")


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("format", "other", "format is 'other'|format is \"other\""),
        ("version", "2", "version"),
        ("rule", "other", "rule"),
        ("digest", "0" * 64, "digest"),
        ("holes_digest", "0" * 64, "holes_digest"),
        ("size", "4", "size"),
        ("length", "7", "length"),
        *((name, None, f'lacks "{name}"') for name in ("format", "version", "rule", "digest", "holes_digest", "size")),
        *((name, None, f'lacks "{name}"') for name in ("length", "source", "engram_fast", "tokenizers", "unicode")),
    ],
)
def test_metadata_that_lies_or_lacks_a_field_is_refused(tmp_path, name, value, match):
    header, tensors = parts(example().to_bytes())
    if value is None:
        del header["__metadata__"][name]
    else:
        header["__metadata__"][name] = value
    refused(tmp_path / "map", joined(header, tensors), match)


def test_tensors_that_lie_are_refused(tmp_path):
    header, tensors = parts(example().to_bytes())
    path = tmp_path / "map"

    def edited(name, **fields):
        return joined({**header, name: {**header[name], **fields}}, tensors)

    refused(path, edited("lookup", dtype="F32"), "F32")
    refused(path, edited("lookup", dtype="U32"), "U32")
    refused(path, edited("lookup", shape=[2, 3]), "one-dimensional")
    refused(path, edited("lookup", shape=[2**62]), "safetensors")
    refused(path, edited("lookup", shape=[2**64 - 1, 2]), "safetensors")
    refused(path, edited("lookup", data_offsets=[0, 2**63]), "safetensors")
    refused(path, edited("lookup", data_offsets=header["holes"]["data_offsets"]), "safetensors")
    refused(path, joined({k: v for k, v in header.items() if k != "__metadata__"}, tensors), "metadata")
    extra = {"dtype": "I32", "shape": [0], "data_offsets": [len(tensors)] * 2}
    refused(path, joined({**header, "extra": extra}, tensors), "extra")
    refused(path, joined({"__metadata__": header["__metadata__"]}, b""), "tensors")


@pytest.mark.parametrize(
    ("lookup", "holes"), [([-1, 0], []), ([0, 1], [5]), ([0, 1], [-1]), ([0, 1], [1, 0]), ([0, 1], [0, 1]), ([], [])]
)
def test_numbers_that_no_map_has_are_refused(tmp_path, lookup, holes):
    header, _ = parts(example().to_bytes())
    tensors = np.array(holes, "<i4").tobytes() + np.array(lookup, "<i4").tobytes()
    middle = 4 * len(holes)
    header["holes"] = {"dtype": "I32", "shape": [len(holes)], "data_offsets": [0, middle]}
    header["lookup"] = {"dtype": "I32", "shape": [len(lookup)], "data_offsets": [middle, len(tensors)]}
    header["__metadata__"]["length"] = str(len(lookup))
    refused(tmp_path / "map", joined(header, tensors), "lookup|holes")


@pytest.mark.skipif(os.name != "posix", reason="sparse files and FIFOs are POSIX's")
def test_what_is_no_regular_file_or_far_too_long_is_refused_without_reading_it(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(2**40)
    for name, match in [("fifo", "regular"), ("sparse", "bytes long"), ("", "regular")]:
        with pytest.raises(ValueError, match=match):
            TokenMap.load(tmp_path / name)


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    (tmp_path / "folder" / "x").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        example().save(tmp_path / "folder")
    with pytest.raises(FileNotFoundError) as caught:
        example().save(tmp_path / "none" / "map")
    assert caught.value.filename == str(tmp_path / "none" / "map")
    with pytest.raises(FileNotFoundError):
        TokenMap.load(tmp_path / "none")
    assert os.listdir(tmp_path) == ["folder"]


def write_and_read(path, n, times):
    """Saves a map again and again and reads what is there: always one whole map of those written."""
    for _ in range(times):
        TokenMap.identity(n).save(path)
        if len(TokenMap.load(path)) not in (1000, 2000, 3000, 4000):
            raise AssertionError("a map that nobody wrote")


def test_processes_that_write_the_same_file_do_not_disturb_each_other(tmp_path):
    path = str(tmp_path / "map")
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=write_and_read, args=(path, n, 40)) for n in (1000, 2000, 3000, 4000)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert os.listdir(tmp_path) == ["map"]
