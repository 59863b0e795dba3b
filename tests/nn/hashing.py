"""Layouts of every kind and a hasher for them that needs no compiled core: the oracle behind NgramHasher's face."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
from engram_fast import reference


class OracleHasher:
    """What the modules use of an NgramHasher, computed by the NumPy oracle; counts its calls."""

    def __init__(self, layout: dict, lookup: np.ndarray | None = None) -> None:
        self.numbers, self.calls = layout, 0
        layers = layout["layers"]
        arrays = {
            name: {layer["layer_id"]: np.array(layer[name], dtype=np.int64) for layer in layers}
            for name in ("multipliers", "moduli", "offsets")
        }
        self.layout = SimpleNamespace(
            to_json=lambda: json.dumps(layout),
            layer_ids=tuple(layer["layer_id"] for layer in layers),
            adds_offsets=layout["adds_offsets"],
            **arrays,
        )
        self.token_map = None if lookup is None else SimpleNamespace(lookup=lookup)

    def hash_batch(self, ids, *, dtype=np.int64, layers=None, **where) -> np.ndarray:
        self.calls += 1
        if dtype is None:
            dtype = np.int32 if all(layer["rows"] <= 2**31 for layer in self.numbers["layers"]) else np.int64
        lookup = None if self.token_map is None else self.token_map.lookup
        rows = reference.hash_rows(self.numbers, ids, lookup=lookup, **where)
        known = [layer["layer_id"] for layer in self.numbers["layers"]]
        return np.ascontiguousarray(rows[[known.index(layer) for layer in layers or known]]).astype(dtype)


def small_lookup(length: int = 500, size: int = 311) -> np.ndarray:
    """A token map that sends several tokens to one id, ids in order of first appearance."""
    return np.concatenate([np.arange(size), np.arange(length - size)]).astype(np.int32)


def demo_hasher(layers=(1, 15), sizes=(97, 103), heads: int = 2, pad: int = 7, **changes) -> OracleHasher:
    """A small layout of the demo's kind."""
    lookup = small_lookup()
    layout = reference.preset(
        "engram-demo-v1",
        lookup=lookup,
        engram_vocab_size=list(sizes),
        max_ngram_size=len(sizes) + 1,
        n_head_per_ngram=heads,
        layer_ids=list(layers),
        pad_id=pad,
    )
    return OracleHasher(layout | changes, lookup)


def hashers() -> dict[str, OracleHasher]:
    """One hasher for each way of windowing, mixing and laying out columns."""
    lookup = small_lookup()
    plain = demo_hasher()
    return {
        "demo": plain,
        "demo with boundaries": demo_hasher(boundary_ids=[3, 311]),
        "demo with offsets": demo_hasher(adds_offsets=True),
        "four orders, three layers": demo_hasher(layers=(9, 0, 4), sizes=(31, 53, 71), heads=3),
        "a column for each function": OracleHasher(
            reference.preset(
                "blt",
                encoder_hash_byte_group_nb_functions=2,
                encoder_hash_byte_group_size=[3, 5],
                encoder_hash_byte_group_vocab=5003,
            )
        ),
        "polynomial": OracleHasher(
            reference.preset(
                "longcat", vocab_size=500, ngram_vocab_size_ratio=7, emb_neighbor_num=4, emb_split_num=2, eos_token_id=3
            )
        ),
        "oldest first": OracleHasher(
            reference.preset(
                "engram-peft",
                lookup=lookup,
                engram_vocab_size_per_ngram=[400, 900],
                ngram_sizes=[2, 4],
                n_head_per_ngram=4,
                layer_ids=[9, 3],
                pad_id=2,
                seed=1,
            ),
            lookup,
        ),
        "32 bits that wrap": OracleHasher(
            reference.preset(
                "onnxruntime",
                multipliers=[2**31 - 19, -(2**30) + 5, 77777777],
                vocab_sizes=[97, 101, 103, 107],
                max_ngram_size=3,
                n_head_per_ngram=2,
                pad_id=1,
                eos_token_id=3,
                reset_on_eos=True,
                int32=True,
            )
        ),
        "raw ids": OracleHasher(
            reference.preset("qwen-ple", vocab_size=500, ngram_vocab_size_base=5000, eos_token_id=3, seed=5)
        ),
    }
