"""For the layout tests: a stand-in token map, the golden arrays, every preset once, and a slow hash of one row."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from engram_fast import HashLayout

DATA = Path(__file__).parent.parent / "data"


class Map:
    """What a layout reads of a token map."""

    def __init__(self, lookup: Any) -> None:
        self.lookup = np.ascontiguousarray(lookup, dtype=np.int32)
        self.lookup.setflags(write=False)
        self.size = int(self.lookup.max()) + 1
        content = len(self.lookup).to_bytes(4, "little") + self.lookup.astype("<i4").tobytes()
        self.digest = hashlib.sha256(content).hexdigest()

    def __len__(self) -> int:
        return len(self.lookup)


def identity(n: int) -> Map:
    return Map(np.arange(n))


@cache
def golden(name: str) -> dict[str, np.ndarray]:
    with np.load(DATA / f"{name}.npz") as arrays:
        return {key: arrays[key] for key in arrays.files}


@cache
def token_map(version: str) -> Map:
    return Map(golden(f"token_map_deepseek_{version}")["lookup"])


ONNX = {
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
    "ngram_compressed_tokenizer": False,
}
PEFT = {"engram_vocab_size_per_ngram": [40000, 90000], "ngram_sizes": [2, 4], "layer_ids": [9, 3], "seed": 1}


def preset(name: str, **overrides: Any) -> HashLayout:
    """The preset with its own defaults where it has them, else with small ones."""
    if name == "deepseek-v4.1":
        overrides.setdefault("token_map", token_map("v4"))
    elif name in ("engram-demo-v1", "megatron", "tilekernels", "maxtext-int32", "engram-peft"):
        overrides.setdefault("token_map", identity(1000))
    required = {"onnxruntime": ONNX, "nanbeige": NANBEIGE, "engram-peft": PEFT | {"n_head_per_ngram": 4}}.get(name, {})
    return HashLayout.preset(name, **{**required, **overrides})


def hash_row(layout: HashLayout, layer: int, raw: Any, lookup: Any = None, *, past: Any = ()) -> np.ndarray:
    """[T, C] rows of one sequence, without offsets, by the definition and one number at a time."""
    wrap = 2**layout.word_bits
    multipliers, moduli = layout.multipliers[layer].tolist(), layout.moduli[layer].tolist()
    raw = [*map(int, past), *map(int, raw)]

    def enter(token: int) -> int:
        inside = 0 <= token < (layout.id_limit if layout.id_limit is not None else 2**63)
        if not inside:
            assert (layout.negative_ids if token < 0 else layout.too_large_ids) == "enter", token
        return int(lookup[token]) if lookup is not None and inside else token

    def signed(value: int) -> int:
        return (value + wrap // 2) % wrap - wrap // 2

    run, rows = 0, []
    for t in range(len(raw)):
        run = 1 if t and raw[t - 1] in layout.boundary_ids else run + 1
        window = [enter(raw[t - k]) if k < run else layout.fill for k in range(layout.max_order)]
        row = []
        for column, order in enumerate(layout.column_orders):
            if layout.mix == "sum":
                mixed = sum(w * m for w, m in zip(window, multipliers[column], strict=True))
            else:
                aligned = window[::-1] if layout.align == "oldest" else window
                mixed = 0
                for w, m in list(zip(aligned, multipliers, strict=True))[:order]:
                    mixed ^= signed(w * m)
            row.append(signed(mixed) % moduli[column])
        rows.append(row)
    return np.array(rows[len(past) :], dtype=np.int64)
