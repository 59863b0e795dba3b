"""`NgramHasher.save` and `load`: the same hasher again, one refused file at a time, and never a mixture of two."""

from __future__ import annotations

import itertools
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from engram_fast import HashLayout, NgramHasher, TokenMap, _core
from engram_fast.cli.sources import read_token_map

LAYOUT, TOKEN_MAP = "engram_layout.json", "engram_token_map.safetensors"
IDS = np.arange(24).reshape(2, 12) % 20


def compressed(size: int) -> NgramHasher:
    token_map = TokenMap.identity(size)
    numbers = {"engram_vocab_size": [97, 97], "n_head_per_ngram": 2, "pad_id": 0}
    return NgramHasher(HashLayout.preset("engram-demo-v1", token_map=token_map, **numbers), token_map)


def raw() -> NgramHasher:
    return NgramHasher(HashLayout.preset("qwen-ple", vocab_size=100, ngram_vocab_size_base=97, eos_token_id=99))


@pytest.mark.parametrize("hasher", [compressed(1000), raw()], ids=["compressed", "raw"])
def test_loading_what_was_saved_is_the_same_hasher(hasher: NgramHasher, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    hasher.save(str(folder))
    assert sorted(os.listdir(folder)) == [LAYOUT, TOKEN_MAP][: 1 if hasher.token_map is None else 2]
    again = NgramHasher.load(folder)
    assert type(again) is NgramHasher
    assert (again.layout, again.token_map) == (hasher.layout, hasher.token_map)
    np.testing.assert_array_equal(again.hash_batch(IDS), hasher.hash_batch(IDS))
    assert again == hasher
    assert hash(again) == hash(hasher)


def test_saving_over_another_hasher_leaves_nothing_of_it(tmp_path: Path) -> None:
    for hasher in (compressed(1000), compressed(20), raw(), compressed(20)):
        hasher.save(tmp_path)
        again = NgramHasher.load(tmp_path)
        assert (again.layout, again.token_map) == (hasher.layout, hasher.token_map)


def test_files_of_others_stay(tmp_path: Path) -> None:
    others = ["engram_token_map.backup.safetensors", "engram_token_map.v2.safetensors", "model.safetensors"]
    for name in others:
        (tmp_path / name).write_bytes(b"another's")
    (tmp_path / f"engram_token_map.{'0' * 64}.safetensors").mkdir()
    raw().save(tmp_path)
    compressed(20).save(tmp_path)
    assert {*others, LAYOUT, TOKEN_MAP} < set(os.listdir(tmp_path))
    assert NgramHasher.load(tmp_path).token_map == compressed(20).token_map


def test_the_command_reads_the_token_map_of_a_save_that_did_not_finish(tmp_path: Path) -> None:
    compressed(1000).save(tmp_path)
    assert interrupted(compressed(20), tmp_path, 2)
    assert NgramHasher.load(tmp_path).token_map == read_token_map(tmp_path) == compressed(20).token_map


class Crash(BaseException):
    pass


def interrupted(hasher: NgramHasher, folder: Path, steps: int) -> bool:
    """Save, and stop before the next change to the folder once there were `steps`; False: it was through before."""
    done = 0

    def counted(change):
        def change_or_stop(*arguments, **options):
            nonlocal done
            if done == steps:
                raise Crash
            done += 1
            return change(*arguments, **options)

        return change_or_stop

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((Path, "replace"), (Path, "unlink"), (TokenMap, "save"), (_core, "write_atomically")):
            patch.setattr(owner, name, counted(getattr(owner, name)))
        try:
            hasher.save(folder)
        except Crash:
            return True
    return False


@pytest.mark.parametrize("names", list(itertools.permutations(["large", "small", "raw"])), ids="-".join)
def test_an_interrupted_save_loads_as_the_old_hasher_or_the_new(names: tuple[str, ...], tmp_path: Path) -> None:
    hashers = {"large": compressed(1000), "small": compressed(20), "raw": raw()}
    old, new, third = (hashers[name] for name in names)
    for first, second in itertools.product(range(10), range(6)):
        old.save(tmp_path)
        if not interrupted(new, tmp_path, first):
            break
        before = NgramHasher.load(tmp_path)
        assert before.layout in (old.layout, new.layout)
        if interrupted(third, tmp_path, second):
            assert NgramHasher.load(tmp_path).layout in (before.layout, third.layout)
    assert first >= 3
    third.save(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [LAYOUT, TOKEN_MAP][: 1 if third.token_map is None else 2]


def test_saving_the_same_token_map_again_keeps_it_loadable(tmp_path: Path) -> None:
    one, other = compressed(20), compressed(20)
    other = NgramHasher(other.layout.with_boundary([3]), other.token_map)
    for steps in range(20):
        one.save(tmp_path)
        through = not interrupted(other, tmp_path, steps)
        assert NgramHasher.load(tmp_path).layout in (one.layout, other.layout)
        if through:
            break
    assert NgramHasher.load(tmp_path).layout == other.layout


def test_ranks_may_all_save_and_load_the_same_hasher(tmp_path: Path) -> None:
    for hasher in (compressed(20), raw()):
        hasher.save(tmp_path)

        def save_and_load(_: int, hasher: NgramHasher = hasher) -> NgramHasher:
            hasher.save(tmp_path)
            return NgramHasher.load(tmp_path)

        with ThreadPoolExecutor(4) as pool:
            assert {loaded.layout for loaded in pool.map(save_and_load, range(40))} == {hasher.layout}


def test_a_save_over_a_damaged_token_map_replaces_it(tmp_path: Path) -> None:
    for hasher in (compressed(20), raw()):
        compressed(1000).save(tmp_path)
        (tmp_path / TOKEN_MAP).write_bytes(b"damaged")
        hasher.save(tmp_path)
        assert NgramHasher.load(tmp_path).layout == hasher.layout


def test_a_mixture_of_two_hashers_is_refused(tmp_path: Path) -> None:
    hashers = {"large": compressed(1000), "small": compressed(20), "raw": raw()}
    for name, hasher in hashers.items():
        hasher.save(tmp_path / name)
    for of_layout, of_map in itertools.permutations(hashers, 2):
        mixture = tmp_path / f"{of_layout}-{of_map}"
        mixture.mkdir()
        for folder, file in ((of_layout, LAYOUT), (of_map, TOKEN_MAP)):
            if (source := tmp_path / folder / file).exists():
                (mixture / file).write_bytes(source.read_bytes())
        with pytest.raises(ValueError, match=r"^token_map: "):
            NgramHasher.load(mixture)


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff\xfe", b"[" * 100_000, b"\x00" * 9], ids=repr)
@pytest.mark.parametrize("file", [LAYOUT, TOKEN_MAP])
def test_a_damaged_file_is_named(file: str, damage: bytes, tmp_path: Path) -> None:
    compressed(20).save(tmp_path)
    (tmp_path / file).write_bytes(damage)
    with pytest.raises(ValueError, match=file) as raised:
        NgramHasher.load(tmp_path)
    assert type(raised.value) is ValueError


def test_a_missing_layout_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=LAYOUT):
        NgramHasher.load(tmp_path)


def test_a_folder_that_cannot_be_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(FileExistsError, match="taken"):
        compressed(20).save(tmp_path / "taken")
    for wrong in (None, 5):
        with pytest.raises(TypeError):
            compressed(20).save(wrong)
        with pytest.raises(TypeError):
            NgramHasher.load(wrong)


@pytest.mark.parametrize("hasher", [compressed(20), raw()], ids=["compressed", "raw"])
def test_a_tampered_layout_is_refused(hasher: NgramHasher, tmp_path: Path) -> None:
    hasher.save(tmp_path)
    file = tmp_path / LAYOUT
    saved = file.read_text()
    document = json.loads(saved)
    assert document["digest"] == hasher.layout.digest
    multiplier = str(document["layers"][0]["multipliers"][0])
    changes = [
        saved.replace(multiplier, str(int(multiplier) + 2)),
        json.dumps(document | {"fill": document["fill"] + 1}),
        json.dumps(document | {"adds_offsets": not document["adds_offsets"]}, indent=2) + "\n",
        json.dumps(document | {"digest": "0" * 64}),
        json.dumps(document | {"digest": ""}),
    ]
    for text in changes:
        assert text != saved
        file.write_text(text)
        with pytest.raises(ValueError, match=rf"{LAYOUT}: digest: .*changed"):
            NgramHasher.load(tmp_path)
    file.write_text(json.dumps(document, indent=2))
    assert NgramHasher.load(tmp_path) == hasher, "only the white space differs"
    file.write_text(json.dumps(document | {"name": "mine"}))
    assert NgramHasher.load(tmp_path) == hasher, "the name is no number"


def test_a_layout_that_an_older_release_saved_still_loads(tmp_path: Path) -> None:
    for hasher in (compressed(20), raw()):
        hasher.save(tmp_path)
        (tmp_path / LAYOUT).write_text(hasher.layout.to_json())
        assert NgramHasher.load(tmp_path) == hasher


def test_the_saved_layout_is_a_layouts_json_too(tmp_path: Path) -> None:
    raw().save(tmp_path)
    assert HashLayout.from_json((tmp_path / LAYOUT).read_text()) == raw().layout
