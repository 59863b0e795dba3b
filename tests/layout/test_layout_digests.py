"""The digest that results are cited by: pinned for every preset, equal to its definition, and of every number."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import layout_tools
import pytest
from engram_fast import HashLayout, presets

# With the presets' own parameters, or those of `layout_tools` if a preset has none.
PINNED = {
    "engram-demo-v1": "033f6eea6b960c76dcc9c15bd1e6de9e8278a3f7c7414b3edf5410a22995d8d8",
    "deepseek-v4.1": "fb6362c47918201cc7d5a785d6f1bc29b9fcc967ba46bb671ba016a0332d0ba4",
    "qwen-ple": "4824332e5c8ef8f3a38bbe51da231cc18e9d0b14e246701c66f0c4fb9f71dd90",
    "longcat": "4a4f9e6cb94fcf937ba2dc3c0c7e14dded3b2ca406c16a43be3d46f031c510aa",
    "nanbeige": "6356cf54ecef21084ebd4b0250aa6af830cf1a3dc9dc30206f0dc46e425036e2",
    "blt": "1870c5ff4e28a419af963e41f8b71e5702642811ea620c13bd5d8706a2d5b27e",
    "onnxruntime": "e9a36e0cc12f5a03e2255eabe8368d12662fc0779509b890f3af7b0dd57d22a9",
    "tilekernels": "0a846bb235a7463fa6efcd9c8c2918c2cca131faa253a7fd06fa43dce19050bb",
    "engram-peft": "dbca6cb65a8a7f0b3bedfc59adb3809f72936c186f3aa07621f09bc63a6fc7dd",
    "megatron": "272cb272e7410ab8e2e00307f135efed90499388d990cb6ca7c405f9addff748",
    "maxtext-int32": "1d8575c4320e99472044d0b6b310d266b776c4df15eb701323937597b5a508ce",
}


def definition(layout: dict[str, Any]) -> str:
    """The digest by its rule: little-endian int64 numbers, a list after its length."""

    def number(value: int) -> bytes:
        return value.to_bytes(8, "little", signed=True)

    def numbers(values: list[int]) -> bytes:
        return number(len(values)) + b"".join(map(number, values))

    ids, token_map = layout["ids"], layout["token_map"]
    parts = [
        b"engram-fast layout numbers, rule 1\n",
        numbers(layout["orders"]),
        number(layout["heads"]),
        number(layout["max_order"]),
        number(["order-major", "function-major"].index(layout["columns"])),
        number(["xor", "sum"].index(layout["mix"])),
        number(layout["word_bits"]),
        number(["newest", "oldest"].index(layout["align"])),
        number(layout["fill"]),
        numbers(sorted(set(layout["boundary_ids"]))),
        numbers([] if ids["limit"] is None else [ids["limit"]]),
        *(number(["error", "enter"].index(ids[key])) for key in ("negative", "too_large")),
        number(layout["adds_offsets"]),
        number(token_map is not None),
    ]
    if token_map is not None:
        parts += [token_map["digest"].encode(), number(token_map["length"]), number(token_map["size"])]
    parts.append(number(len(layout["layers"])))
    for layer in layout["layers"]:
        parts.append(number(layer["layer_id"]))
        shared = isinstance(layer["multipliers"][0], int)
        parts += map(numbers, [layer["multipliers"]] if shared else layer["multipliers"])
        parts += [numbers(layer["moduli"]), numbers(layer["offsets"]), number(layer["rows"])]
    return hashlib.sha256(b"".join(parts)).hexdigest()


@pytest.mark.parametrize("name", presets())
def test_the_digest_of_every_preset_is_pinned_and_that_of_the_rule(name: str) -> None:
    layout = layout_tools.preset(name)
    assert layout.digest == PINNED[name] == definition(json.loads(layout.to_json()))


def small() -> dict[str, Any]:
    """Numbers small enough for words of 32 bits, so that each of them can change alone."""
    return {
        **{"format": "engram-fast-layout", "version": 1, "name": "small", "parameters": {}, "orders": [2, 3]},
        **{"heads": 1, "max_order": 3, "columns": "order-major", "mix": "xor", "word_bits": 64, "align": "newest"},
        **{"fill": 2, "boundary_ids": [7], "adds_offsets": False},
        "ids": {"limit": 9, "negative": "error", "too_large": "error"},
        "token_map": {"digest": "0" * 64, "length": 10, "size": 8},
        "layers": [
            {"layer_id": 0, "multipliers": [3, 5, 7], "moduli": [97, 101], "offsets": [0, 97], "rows": 200},
            {"layer_id": 4, "multipliers": [9, 5, 7], "moduli": [97, 101], "offsets": [0, 97], "rows": 200},
        ],
    }


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "orders": lambda d: d.update(orders=[1, 3]),
    "word_bits": lambda d: d.update(word_bits=32),
    "align": lambda d: d.update(align="oldest"),
    "fill": lambda d: d.update(fill=3),
    "boundary_ids": lambda d: d.update(boundary_ids=[6]),
    "adds_offsets": lambda d: d.update(adds_offsets=True),
    "limit": lambda d: d["ids"].update(limit=8),
    "negative": lambda d: d["ids"].update(negative="enter"),
    "too_large": lambda d: d["ids"].update(too_large="enter"),
    "map": lambda d: d["token_map"].update(digest="1" * 64),
    "length": lambda d: d["token_map"].update(length=11),
    "size": lambda d: d["token_map"].update(size=9),
    "layer_id": lambda d: d["layers"][1].update(layer_id=5),
    "multipliers": lambda d: d["layers"][1].update(multipliers=[9, 5, 6]),
    "moduli": lambda d: d["layers"][1].update(moduli=[97, 100]),
    "offsets": lambda d: d["layers"][1].update(offsets=[0, 98]),
    "rows": lambda d: d["layers"][1].update(rows=201),
    "layers": lambda d: d["layers"].pop(),
    "order of layers": lambda d: d["layers"].reverse(),
}


def digest(document: dict[str, Any]) -> str:
    return HashLayout.from_json(json.dumps(document)).digest


@pytest.mark.parametrize("change", CHANGES)
def test_a_number_that_changes_changes_the_digest(change: str) -> None:
    document = small()
    CHANGES[change](document)
    assert digest(document) == definition(document) != digest(small())


def test_names_and_parameters_are_no_part_of_the_digest() -> None:
    assert digest({**small(), "name": "other", "parameters": {"seed": 1}}) == digest(small())
