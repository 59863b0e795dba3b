"""engram-fast layout: show and check."""

from __future__ import annotations

import json

import goldens
import pytest
from cli_tools import refuse, run, run_json, small_tokenizer
from engram_fast import HashLayout, TokenMap, presets

V41 = {
    "model_type": "deepseek_v41",
    "vocab_size": 129280,
    "num_hidden_layers": 40,
    "engram_layer_ids": [1, 14],
    "engram_num_embeddings": [384006168, 384016682],
    "engram_max_ngram_size": 4,
    "engram_vocab_size": 16000000,
    "engram_n_heads": 8,
    "engram_head_dim": 256,
    "engram_pad_token_id": 2,
    "engram_compressed_vocab_size": 99092,
}


@pytest.fixture
def v4(tmp_path):
    path = tmp_path / "v4.safetensors"
    TokenMap.from_lookup(goldens.lookup("v4")).save(path)
    return path


def write(path, value):
    path.write_text(json.dumps(value))
    return path


def test_show_lists_the_presets():
    assert run("layout", "show").stdout.split() == presets()
    assert run_json("layout", "show") == presets()


def test_show_prints_a_layout(v4):
    layout = HashLayout.preset("engram-demo-v1", token_map=TokenMap.load(v4))
    text = run("layout", "show", "engram-demo-v1", "--token-map", v4).stdout
    assert layout.digest in text
    assert "76632096046245, 4839876093313, 35959672319349" in text
    assert "646403, 646411, 646421" in text
    text = run("layout", "show", "longcat").stdout
    assert "sum" in text
    assert "boundary ids" in text


@pytest.mark.parametrize("name", ["qwen-ple", "longcat", "blt"])
def test_json_is_the_complete_layout(name, tmp_path):
    printed = run("layout", "show", name, "--json").stdout
    assert HashLayout.from_json(printed) == HashLayout.preset(name)
    (tmp_path / "layout.json").write_text(printed)
    assert run("layout", "show", tmp_path / "layout.json", "--json").stdout == printed


def test_parameters_are_set_by_their_published_names():
    shown = run("layout", "show", "qwen-ple", "--set", "seed=7", "--set", "heads_per_ngram=2", "--json").stdout
    assert HashLayout.from_json(shown) == HashLayout.preset("qwen-ple", seed=7, heads_per_ngram=2)


def test_show_takes_a_configuration(tmp_path, v4):
    config = write(tmp_path / "config.json", V41)
    shown = HashLayout.from_json(run("layout", "show", "--config", config, "--token-map", v4, "--json").stdout)
    assert shown == HashLayout.preset("deepseek-v4.1", token_map=TokenMap.load(v4))
    sections = write(tmp_path / "engram.json", {"engram": {"layer_ids": [3]}, "backbone": {}})
    shown = HashLayout.from_json(run("layout", "show", "--config", sections, "--token-map", v4, "--json").stdout)
    assert shown == HashLayout.preset("engram-demo-v1", token_map=TokenMap.load(v4), layer_ids=[3])


def test_wrong_layouts_are_refused(tmp_path, v4, no_deepseek):
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe")
    show = ("layout", "show")
    for arguments, says in [
        (["nope"], "there are engram-demo-v1"),
        (["engram-demo-v1"], "--tokenizer FILE"),
        (["deepseek-v4.1"], "--tokenizer FILE"),
        (["qwen-ple", "--token-map", v4], "takes no token map"),
        (["nanbeige"], "no default"),
        (["qwen-ple", "--set", "seed"], "NAME=VALUE"),
        (["qwen-ple", "--set", "seed=x"], "not JSON"),
        (["qwen-ple", "--set", "seed=1", "--set", "seed=2"], "twice"),
        (["qwen-ple", "--set", "seed=-1"], "seed"),
        (["qwen-ple", "--set", "nope=1"], "no such parameter"),
        (["qwen-ple", "--set", "token_map=1"], "option of its own"),
        (["qwen-ple", "--config", broken], "not both"),
        (["qwen-ple", "--vocab-size", 5], "--tokenizer"),
        (["--config", tmp_path], "config.json"),
        (["--config", broken], "not JSON"),
        ([broken], "broken.json"),
        ([binary], "binary.json"),
        ([tmp_path / "missing.json"], "no such file"),
        (["engram-demo-v1", "--token-map", v4, "--tokenizer", v4], "not both"),
        (["engram-demo-v1", "--tokenizer", tmp_path / "missing.json"], "no such file"),
        ([write(tmp_path / "l.json", json.loads(HashLayout.preset("blt").to_json())), "--set", "a=1"], "--set"),
    ]:
        assert says in refuse(*show, *arguments), arguments


def test_check_finds_nothing_in_the_released_model(tmp_path, v4):
    config = write(tmp_path / "config.json", V41)
    report = run_json("layout", "check", config, "--token-map", v4)
    assert report["findings"] == []
    assert "deepseek_v41" in report["recognised"]
    text = run("layout", "check", tmp_path, "--token-map", v4).stdout
    assert "No findings." in text


def test_check_says_each_finding_in_a_sentence(tmp_path, v4):
    wrong = {**V41, "engram_layer_ids": [1, 40], "vocab_size": 129281, "engram_compressed_vocab_size": 99091}
    config = write(tmp_path / "config.json", {"text_config": wrong})
    report = run_json("layout", "check", config, "--token-map", v4, code=1)
    for name in ("vocab_size is 129281", "engram_layer_ids", "engram_compressed_vocab_size"):
        assert any(name in finding for finding in report["findings"]), name
    lines = run("layout", "check", config, "--token-map", v4, code=1).stdout.splitlines()
    assert len(lines) == 1 + len(report["findings"])
    assert all(line.endswith(".") for line in lines[1:])


def test_check_with_a_tokenizer(tmp_path):
    tokenizer = small_tokenizer(tmp_path)
    config = write(tmp_path / "engram.json", {"engram": {}, "backbone": {"vocab_size": 12, "num_layers": 15}})
    findings = run_json("layout", "check", config, "--tokenizer", tokenizer, code=1)["findings"]
    assert any("the tokenizer has 11 ids, but vocab_size is 12" in finding for finding in findings)
    assert any("count from 1?" in finding for finding in findings)


def test_check_refuses_what_is_no_configuration(tmp_path, no_deepseek):
    broken = tmp_path / "broken.json"
    broken.write_text("[1]")
    other = write(tmp_path / "other.json", {"model_type": "bert"})
    config = write(tmp_path / "config.json", V41)
    assert "no such configuration" in refuse("layout", "check", tmp_path / "missing.json")
    assert "expected a JSON object" in refuse("layout", "check", broken)
    assert "bert" in refuse("layout", "check", other)
    assert "--tokenizer FILE" in refuse("layout", "check", config)
    assert "no such file" in refuse("layout", "check", config, "--tokenizer", tmp_path / "missing.json")
