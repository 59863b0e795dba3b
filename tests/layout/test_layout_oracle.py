"""Every preset holds the oracle's numbers, and so has their digest."""

from __future__ import annotations

import json

import numpy as np
import pytest
from engram_fast import HashLayout, presets, reference
from layout_tools import NANBEIGE, ONNX, PEFT, Map, preset, token_map

PARAMETERS = {"onnxruntime": ONNX, "nanbeige": NANBEIGE, "engram-peft": PEFT | {"n_head_per_ngram": 4}}
RAW = ("qwen-ple", "longcat", "nanbeige", "blt", "onnxruntime")
COMPRESSED = {**NANBEIGE, "ngram_compressed_tokenizer": True}


def check(layout: HashLayout, oracle: dict) -> None:
    found = json.loads(layout.to_json())
    assert {key: found[key] for key in oracle} == oracle
    rest = {key: found[key] for key in ("format", "version", "name", "parameters")}
    assert HashLayout.from_json(json.dumps({**rest, **oracle})).digest == layout.digest


@pytest.mark.parametrize("name", presets())
def test_a_preset_is_the_oracles(name: str) -> None:
    lookup = np.arange(1000) if name != "deepseek-v4.1" else token_map("v4").lookup
    oracle = reference.preset(name, lookup=None if name in RAW else lookup, **PARAMETERS.get(name, {}))
    check(preset(name), oracle)


def test_nanbeige_with_compressed_ids_is_the_oracles() -> None:
    lookup = np.arange(1000) // 2
    found = HashLayout.preset("nanbeige", token_map=Map(lookup), **COMPRESSED)
    check(found, reference.preset("nanbeige", lookup=lookup, **COMPRESSED))
