"""The digest of every preset, which papers and checkpoints may cite: pinned, and changed by every number."""

from __future__ import annotations

import json
from typing import Any

import pytest
from engram_fast import HashLayout, presets
from layout_tools import preset

DIGESTS = {
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


@pytest.mark.parametrize("name", presets())
def test_the_digest_of_a_preset_is_pinned(name: str) -> None:
    assert preset(name).digest == DIGESTS[name]


XOR = {"multipliers": [3, 5, 7], "moduli": [101, 103], "orders": [2, 3], "id_limit": 100, "fill": 4}
SUM = {"multipliers": [[3, 5], [7, 9]], "moduli": [101, 103], "orders": [2], "heads": 2, "mix": "sum"}
CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (XOR, {"word_bits": 32}),
    (XOR, {"align": "oldest"}),
    (XOR, {"fill": 5}),
    (XOR, {"boundary_ids": [1]}),
    (XOR, {"id_limit": 99}),
    (XOR, {"id_limit": None}),
    (XOR, {"negative_ids": "enter"}),
    (XOR, {"too_large_ids": "enter"}),
    (XOR, {"adds_offsets": True}),
    (XOR, {"rows": 205}),
    (XOR, {"layer_ids": [1]}),
    (XOR, {"multipliers": [3, 5, 9]}),
    (XOR, {"moduli": [101, 107]}),
    (XOR, {"offsets": [103, 0], "adds_offsets": False}),
    (XOR, {"orders": [1, 3]}),
    (XOR, {"orders": [3], "heads": 2}),
    (SUM, {"multipliers": [[3, 5], [7, 11]]}),
    (SUM, {"column_numbering": "function-major"}),
]


@pytest.mark.parametrize(("numbers", "change"), CHANGES, ids=[next(iter(change)) for _, change in CHANGES])
def test_every_number_and_choice_changes_the_digest(numbers: dict[str, Any], change: dict[str, Any]) -> None:
    one, other = HashLayout.from_numbers(**numbers), HashLayout.from_numbers(**numbers | change)
    assert one.digest != other.digest
    assert one != other


def test_the_name_and_the_parameters_do_not_change_the_digest() -> None:
    layout = HashLayout.from_numbers(**XOR)
    assert HashLayout.from_numbers(**XOR, name="mine").digest == layout.digest
    document = json.loads(layout.to_json()) | {"parameters": {"seed": 1}}
    assert HashLayout.from_json(json.dumps(document)).digest == layout.digest
