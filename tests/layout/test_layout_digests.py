"""`HashLayout.digest`: pinned for every preset, computed once more from the oracle's numbers, and of every field."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import goldens
import numpy as np
import pytest
from engram_fast import HashLayout, presets, reference

IDENTITY = np.arange(1000, dtype=np.int32)
ONNXRUNTIME = {
    "multipliers": [3, -5, 2**62 + 1],
    "vocab_sizes": [97, 101, 103, 107],
    "max_ngram_size": 3,
    "n_head_per_ngram": 2,
    "pad_id": -7,
}
NANBEIGE = {
    "vocab_size": 5000,
    "ngram_vocab_size_ratio": 3.5,
    "emb_neighbor_num": 4,
    "emb_split_num": 2,
    "eos_token_id": 2,
    "ngram_mod_force_prime": True,
    "ngram_compressed_tokenizer": True,
}
PEFT = {"engram_vocab_size_per_ngram": [40000, 90000], "ngram_sizes": [2, 4], "layer_ids": [9, 3], "seed": 1}
PARAMETERS = {"onnxruntime": ONNXRUNTIME, "nanbeige": NANBEIGE, "engram-peft": PEFT}
"""Of the presets that have no defaults."""

PINNED = {
    "engram-demo-v1": "033f6eea6b960c76dcc9c15bd1e6de9e8278a3f7c7414b3edf5410a22995d8d8",
    "deepseek-v4.1": "fb6362c47918201cc7d5a785d6f1bc29b9fcc967ba46bb671ba016a0332d0ba4",
    "qwen-ple": "4824332e5c8ef8f3a38bbe51da231cc18e9d0b14e246701c66f0c4fb9f71dd90",
    "longcat": "4a4f9e6cb94fcf937ba2dc3c0c7e14dded3b2ca406c16a43be3d46f031c510aa",
    "nanbeige": "0a19ed6d4d195baa7c372ecea890bb06f0dd1dc00b576ac10ec2a995bf993c86",
    "blt": "1870c5ff4e28a419af963e41f8b71e5702642811ea620c13bd5d8706a2d5b27e",
    "onnxruntime": "e9a36e0cc12f5a03e2255eabe8368d12662fc0779509b890f3af7b0dd57d22a9",
    "tilekernels": "0a846bb235a7463fa6efcd9c8c2918c2cca131faa253a7fd06fa43dce19050bb",
    "engram-peft": "809c260d5d89bf614821bee3f516ebc7314e7c857259452f94aff48873f4be05",
    "megatron": "272cb272e7410ab8e2e00307f135efed90499388d990cb6ca7c405f9addff748",
    "maxtext-int32": "1d8575c4320e99472044d0b6b310d266b776c4df15eb701323937597b5a508ce",
}
"""Users cite these: a change is a breaking change."""


class Map:
    """What `HashLayout.preset` reads of a token map."""

    def __init__(self, lookup: np.ndarray) -> None:
        self.lookup, self.numbers = lookup, reference.token_map_id(lookup)
        self.digest, self.size = self.numbers["digest"], self.numbers["size"]

    def __len__(self) -> int:
        return len(self.lookup)


def lookup(name: str) -> np.ndarray | None:
    if name in ("qwen-ple", "longcat", "blt", "onnxruntime"):
        return None
    return goldens.lookup("v4") if name == "deepseek-v4.1" else IDENTITY


def preset(name: str) -> HashLayout:
    found = lookup(name)
    token_map = None if found is None else Map(found)
    return HashLayout.preset(name, token_map=token_map, **PARAMETERS.get(name, {}))


def digest(layout: dict[str, Any]) -> str:
    """The digest of a layout's document, by the rule that `rust/src/layout/digest.rs` states."""
    content = b"engram-fast layout numbers, rule 1\n"

    def number(value: int) -> None:
        nonlocal content
        content += struct.pack("<q", value)

    def numbers(values: list[int]) -> None:
        number(len(values))
        for value in values:
            number(value)

    numbers(layout["orders"])
    number(layout["heads"])
    number(layout["max_order"])
    number(["order-major", "function-major"].index(layout["columns"]))
    number(["xor", "sum"].index(layout["mix"]))
    number(layout["word_bits"])
    number(["newest", "oldest"].index(layout["align"]))
    number(layout["fill"])
    numbers(layout["boundary_ids"])
    limit = layout["ids"]["limit"]
    numbers([] if limit is None else [limit])
    number(["error", "enter"].index(layout["ids"]["negative"]))
    number(["error", "enter"].index(layout["ids"]["too_large"]))
    number(layout["adds_offsets"])
    number(layout["token_map"] is not None)
    if layout["token_map"] is not None:
        content += layout["token_map"]["digest"].encode()
        number(layout["token_map"]["length"])
        number(layout["token_map"]["size"])
    number(len(layout["layers"]))
    for layer in layout["layers"]:
        number(layer["layer_id"])
        rows = layer["multipliers"] if layout["mix"] == "sum" else [layer["multipliers"]]
        for row in rows:
            numbers(row)
        numbers(layer["moduli"])
        numbers(layer["offsets"])
        number(layer["rows"])
    return hashlib.sha256(content).hexdigest()


def test_every_preset_is_pinned() -> None:
    assert sorted(PINNED) == sorted(presets())


@pytest.mark.parametrize("name", presets())
def test_pinned_digest(name: str) -> None:
    assert preset(name).digest == PINNED[name]


@pytest.mark.parametrize("name", presets())
def test_digest_of_the_oracles_numbers(name: str) -> None:
    layout = reference.preset(name, lookup=lookup(name), **PARAMETERS.get(name, {}))
    assert digest(layout) == PINNED[name]


CHANGES = {
    "word_bits": ("word_bits", 32),
    "align": ("align", "oldest"),
    "fill": ("fill", 5),
    "boundary_ids": ("boundary_ids", [7]),
    "limit": ("ids", {"limit": 900, "negative": "enter", "too_large": "error"}),
    "negative": ("ids", {"limit": 1000, "negative": "error", "too_large": "error"}),
    "too_large": ("ids", {"limit": 1000, "negative": "enter", "too_large": "enter"}),
    "adds_offsets": ("adds_offsets", True),
}


def document(**changes: Any) -> dict[str, Any]:
    small = {"engram_vocab_size": [97, 97], "n_head_per_ngram": 2, "pad_id": 0}
    layout = HashLayout.preset("engram-demo-v1", token_map=Map(IDENTITY), **small)
    found = json.loads(layout.to_json())
    for layer in found["layers"]:
        layer["multipliers"] = [3, 5, 7]  # they fit words of 32 bits as well
    return {**found, **changes}


def of(layout: dict[str, Any]) -> str:
    return HashLayout.from_json(json.dumps(layout)).digest


@pytest.mark.parametrize("field", CHANGES)
def test_every_field_changes_the_digest(field: str) -> None:
    key, value = CHANGES[field]
    changed = document(**{key: value})
    assert of(changed) != of(document())
    assert of(changed) == digest(changed)


@pytest.mark.parametrize("key", ["multipliers", "moduli", "offsets", "rows", "layer_id"])
def test_every_number_of_a_layer_changes_the_digest(key: str) -> None:
    changed = document()
    layer = changed["layers"][0]
    layer[key] = [*layer[key][:-1], layer[key][-1] - 2] if isinstance(layer[key], list) else layer[key] + 1
    assert of(changed) != of(document())
    assert of(changed) == digest(changed)


@pytest.mark.parametrize("key", ["digest", "length", "size"])
def test_every_number_of_the_token_map_changes_the_digest(key: str) -> None:
    changed = document()
    changed["token_map"] = dict(changed["token_map"])
    changed["token_map"][key] = "0" * 64 if key == "digest" else {"length": 1001, "size": 999}[key]
    assert of(changed) != of(document())
    assert of(changed) == digest(changed)


def test_a_name_changes_no_digest() -> None:
    assert of(document(name="other", parameters={"of": "someone"})) == of(document())
