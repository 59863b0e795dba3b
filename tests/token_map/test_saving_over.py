"""Saving over a file that is there: a symlink stays one, and the mode of the file is kept."""

import os
import stat

import pytest
from engram_fast import HashLayout, NgramHasher, TokenMap
from engram_fast.token_map import megatron

pytestmark = pytest.mark.skipif(os.name != "posix", reason="symlinks and modes are POSIX's")

MAP = TokenMap.identity(10)


def save_map(path):
    MAP.save(path)


def save_megatron(path):
    megatron.write(path, MAP, pad_token_id=0, layer_multipliers={1: [3, 5]})


def save_layout(path):
    """The file of `NgramHasher.save` that is replaced last; its folder has one name for each file."""
    parameters = {"engram_vocab_size": [97, 97], "n_head_per_ngram": 2, "pad_id": 0}
    NgramHasher(HashLayout.preset("engram-demo-v1", token_map=MAP, **parameters), MAP).save(path.parent)


WRITERS = pytest.mark.parametrize(
    ("save", "name"),
    [
        (save_map, "map.safetensors"),
        (save_megatron, "map.json"),
        (save_layout, "engram_layout.json"),
        (save_layout, "engram_token_map.safetensors"),
    ],
    ids=["TokenMap.save", "megatron.write", "NgramHasher.save: layout", "NgramHasher.save: token map"],
)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def folders(tmp_path):
    """The folder that is saved into, and another."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    return tmp_path / "here", tmp_path / "there"


@WRITERS
def test_a_symlink_stays_one_and_its_target_is_replaced(folders, save, name):
    here, there = folders
    (there / "target").write_bytes(b"old")
    (here / name).symlink_to(there / "target")
    save(here / name)
    assert (here / name).is_symlink()
    assert os.readlink(here / name) == str(there / "target")
    assert not (there / "target").is_symlink()
    assert (there / "target").read_bytes() not in (b"", b"old")
    assert os.listdir(there) == ["target"]


@WRITERS
def test_links_to_links_and_relative_links_are_followed(folders, save, name):
    here, there = folders
    (there / "target").write_bytes(b"old")
    (there / "second").symlink_to("target")
    (here / name).symlink_to(os.path.join("..", "there", "second"))
    save(here / name)
    assert (here / name).is_symlink()
    assert (there / "second").is_symlink()
    assert (there / "target").read_bytes() not in (b"", b"old")


@WRITERS
def test_a_link_to_a_file_that_is_not_there_yet_makes_that_file(folders, save, name):
    here, there = folders
    (here / name).symlink_to(there / "target")
    save(here / name)
    assert (here / name).is_symlink()
    assert (there / "target").is_file()
    assert os.listdir(there) == ["target"]


def test_links_in_a_circle_are_an_error_and_stay(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="a"):
        MAP.save(tmp_path / "a")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    assert (tmp_path / "a").is_symlink()


@WRITERS
@pytest.mark.parametrize("kept", [0o600, 0o640, 0o664])
def test_the_mode_of_the_file_is_kept(folders, save, name, kept):
    path = folders[0] / name
    path.write_bytes(b"old")
    path.chmod(kept)
    save(path)
    assert mode(path) == kept
    assert path.read_bytes() != b"old"


@WRITERS
def test_the_mode_of_a_links_target_is_kept(folders, save, name):
    here, there = folders
    (there / "target").write_bytes(b"old")
    (there / "target").chmod(0o600)
    (here / name).symlink_to(there / "target")
    save(here / name)
    assert mode(there / "target") == 0o600


def test_a_new_file_has_the_mode_of_an_ordinary_one(tmp_path):
    before = os.umask(0o027)
    try:
        MAP.save(tmp_path / "map")
    finally:
        os.umask(before)
    assert mode(tmp_path / "map") == 0o640
