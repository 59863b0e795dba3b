"""engram-fast token-map: build, show, diff."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli_tools import WORDS, listing, refuse, run, run_json, small_tokenizer
from engram_fast import HashLayout, NgramHasher, TokenMap


@pytest.fixture
def tokenizer(tmp_path):
    return small_tokenizer(tmp_path / "model")


def test_build_writes_the_map_of_the_tokenizer(tokenizer, tmp_path):
    expected = TokenMap.from_file(tokenizer)
    output = tmp_path / "map.safetensors"
    report = run_json("token-map", "build", tokenizer, "-o", output)
    assert TokenMap.load(output) == expected
    assert report["output"] == str(output)
    assert (report["length"], report["size"], report["digest"]) == (len(WORDS), expected.size, expected.digest)
    assert set(listing(tmp_path)) == {"map.safetensors", "model/tokenizer.json", "model/tokenizer_config.json"}


def test_build_takes_a_folder_and_replaces_a_file(tokenizer, tmp_path):
    output = tmp_path / "map.safetensors"
    output.write_bytes(b"old")
    text = run("token-map", "build", tokenizer.parent, "-o", output, "--vocab-size", 32).stdout
    assert len(TokenMap.load(output)) == 32
    assert str(output) in text
    assert "32 ids" in text


def test_show_prints_what_the_map_is(tokenizer):
    token_map = TokenMap.from_file(tokenizer, 16)
    report = run_json("token-map", "show", tokenizer, "--vocab-size", 16, "--id", 4, "--id", 7)
    assert report["length"] == 16
    assert report["size"] == token_map.size
    assert report["digest"] == token_map.digest
    assert report["holes"] == [11, 12, 13, 14, 15]
    assert report["metadata"] == dict(token_map.metadata)
    same, alone = report["ids"]
    assert same == {"id": 4, "compressed": int(token_map.lookup[4]), "same_as": [3]}
    assert alone["same_as"] == []
    text = run("token-map", "show", tokenizer, "--vocab-size", 16, "--id", 4).stdout
    assert token_map.digest in text
    assert "5 (11, 12, 13, 14, 15)" in text
    assert f"id 4 → {token_map.lookup[4]}, like 3" in text


def test_show_reads_every_kind_of_map(tokenizer, tmp_path):
    token_map = TokenMap.from_file(tokenizer)
    token_map.save(tmp_path / "map.safetensors")
    layout = HashLayout.preset("engram-demo-v1", token_map=token_map)
    NgramHasher(layout, token_map).save(tmp_path / "hasher")
    token_map.to_megatron_json(tmp_path / "megatron.json", pad_token_id=2, layer_multipliers={1: [3, 5, 7]})
    sources = [
        tokenizer,
        tokenizer.parent,
        tmp_path / "map.safetensors",
        tmp_path / "hasher",
        tmp_path / "megatron.json",
    ]
    for source in sources:
        assert run_json("token-map", "show", source)["digest"] == token_map.digest, source


def test_diff_of_equal_maps(tokenizer, tmp_path):
    TokenMap.from_file(tokenizer).save(tmp_path / "map.safetensors")
    report = run_json("token-map", "diff", tokenizer, tmp_path / "map.safetensors")
    assert report["equal"] is True
    assert (report["differing"], report["first"]) == (0, [])
    assert "equal" in run("token-map", "diff", tokenizer, tmp_path / "map.safetensors").stdout


def test_diff_of_different_maps_exits_with_one(tmp_path):
    one, other = tmp_path / "one.safetensors", tmp_path / "other.safetensors"
    TokenMap.from_lookup(np.arange(50)).save(one)
    TokenMap.from_lookup(np.r_[np.arange(20), np.arange(20)]).save(other)
    report = run_json("token-map", "diff", one, other, code=1)
    assert report["equal"] is False
    assert report["differing"] == 20
    assert report["first"] == [[i, i, i - 20] for i in range(20, 40)]
    assert [side["length"] for side in report["maps"]] == [50, 40]
    # Where the lines break depends on how long the paths are.
    text = " ".join(run("token-map", "diff", one, other, code=1).stdout.split())
    assert "20 of 40 shared ids" in text
    assert "10 ids are in one map only" in text


def damaged(tmp_path):
    """Files that are no maps, each with a word that must be in the sentence."""
    token_map = TokenMap.identity(100)
    token_map.save(tmp_path / "map.safetensors")
    content = (tmp_path / "map.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(content[:-3])
    (tmp_path / "flipped.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (tmp_path / "empty.safetensors").write_bytes(b"")
    token_map.to_megatron_json(tmp_path / "megatron.json", pad_token_id=2, layer_multipliers={1: [3, 5, 7]})
    megatron = json.loads((tmp_path / "megatron.json").read_text())
    (tmp_path / "version.json").write_text(json.dumps({**megatron, "version": 2}))
    (tmp_path / "text.json").write_text("not json")
    (tmp_path / "object.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    return [
        ("cut.safetensors", "cut.safetensors"),
        ("flipped.safetensors", "flipped.safetensors"),
        ("empty.safetensors", "empty.safetensors"),
        ("version.json", "version"),
        ("text.json", "text.json"),
        ("object.json", "object.json"),
        ("missing.json", "no such file"),
        ("missing.safetensors", "no such file"),
        ("empty", "no such file"),
    ]


def test_damaged_and_missing_files_are_refused_and_nothing_is_written(tmp_path):
    cases = damaged(tmp_path)
    before = listing(tmp_path)
    for name, says in cases:
        assert says in refuse("token-map", "show", tmp_path / name)
        assert says in refuse("token-map", "diff", tmp_path / "map.safetensors", tmp_path / name)
        assert says in refuse("token-map", "build", tmp_path / name, "-o", tmp_path / "new.safetensors")
    assert listing(tmp_path) == before


def test_wrong_arguments_are_refused_and_nothing_is_written(tokenizer, tmp_path):
    TokenMap.from_file(tokenizer).save(tmp_path / "map.safetensors")
    (tmp_path / "taken.safetensors").mkdir()
    before = listing(tmp_path)
    build = ("token-map", "build", tokenizer, "-o")
    assert "loses token id 10" in refuse(*build, tmp_path / "new.safetensors", "--vocab-size", 5)
    assert "does not exist" in refuse(*build, tmp_path / "no" / "new.safetensors")
    assert "not a regular file" in refuse(*build, tmp_path / "taken.safetensors")
    assert ".safetensors" in refuse(*build, tmp_path / "new.bin")
    saved = tmp_path / "map.safetensors"
    assert "replace the input" in refuse("token-map", "build", saved, "-o", saved)
    assert "--vocab-size" in refuse("token-map", "show", saved, "--vocab-size", 20)
    assert "outside the token map" in refuse("token-map", "show", saved, "--id", 11)
    assert "outside the token map" in refuse("token-map", "show", saved, "--id", -1)
    assert listing(tmp_path) == before
