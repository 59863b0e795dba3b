"""Hypothesis strategies: layouts of every kind, token ids that they take, and boundaries around them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import layout_tools
import numpy as np
from engram_fast import HashLayout, NgramHasher, TokenMap, reference
from hypothesis import strategies as st

INT64 = st.integers(-(2**63), 2**63 - 1)
EDGES = st.sampled_from([0, 1, 2, -1, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53 + 1, 2**63 - 1, -(2**63), -(2**62)])
WIDE = st.one_of(INT64, EDGES, st.integers(-100, 100))
PRESETS = (
    "engram-demo-v1",
    "deepseek-v4.1",
    "qwen-ple",
    "longcat",
    "nanbeige",
    "blt",
    "onnxruntime",
    "tilekernels",
    "engram-peft",
    "megatron",
    "maxtext-int32",
)


@dataclass(frozen=True)
class Model:
    """A hasher and the same layout for the reference."""

    hasher: NgramHasher
    document: dict[str, Any] = field(repr=False)

    @property
    def lookup(self) -> np.ndarray | None:
        token_map = self.hasher.token_map
        return None if token_map is None else token_map.lookup

    def reference(self, ids: Any, **where: Any) -> np.ndarray:
        """int64 [L,B,T,C], or [L,N,C], by the reference."""
        return reference.hash_rows(self.document, ids, lookup=self.lookup, **where)

    def stream(self, chunks: Any, **where: Any) -> list[np.ndarray]:
        return reference.stream(self.document, chunks, lookup=self.lookup, **where)

    def __repr__(self) -> str:
        return f"Model({json.dumps(self.document)[:2000]}, kernel={self.hasher.kernel})"


@cache
def preset(name: str) -> Model:
    """The preset with small parameters where it has none of its own."""
    token_map = None
    if name in ("engram-demo-v1", "tilekernels", "engram-peft", "megatron", "maxtext-int32"):
        token_map = TokenMap.from_lookup(np.arange(1000) % 701)
    elif name == "deepseek-v4.1":
        token_map = TokenMap.from_lookup(layout_tools.golden("token_map_deepseek_v4")["lookup"])
    layout = layout_tools.preset(name, **({} if token_map is None else {"token_map": token_map}))
    return Model(NgramHasher(layout, token_map), json.loads(layout.to_json()))


def moduli(bits: int) -> st.SearchStrategy[int]:
    """Tiny ones, those about the limits of each way to take a remainder, and large ones."""
    top = 2**31 - 1 if bits == 32 else 2**40
    near = [1, 2, 3, 2**12, 2**13 - 1, 2**13, 2**13 + 1, 2**31 - 2, 2**31 - 1, 2**31, 2**31 + 11, 2**33 + 17]
    return st.one_of(
        st.integers(1, 50),
        st.integers(2**13 + 1, 2**20),
        st.sampled_from([modulus for modulus in near if modulus <= top]),
        st.integers(1, top),
    )


@st.composite
def documents(draw: st.DrawFn) -> tuple[dict[str, Any], TokenMap | None]:
    """Layouts that no model has, by their JSON, and their token maps."""
    bits = draw(st.sampled_from([64, 64, 64, 32]))
    word = WIDE if bits == 64 else st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(-9, 9))
    orders = sorted(draw(st.sets(st.integers(1, draw(st.sampled_from([3, 5, 8, 16]))), min_size=1, max_size=4)))
    heads = draw(st.integers(1, 17))
    mix = draw(st.sampled_from(["xor", "xor", "sum"]))
    by_order = mix == "xor" or draw(st.booleans())
    column_orders = [o for o in orders for _ in range(heads)] if by_order else orders * heads
    layers = []
    # All moduli alike now and then: the fast ways to take a remainder need that.
    size = draw(
        st.sampled_from([moduli(bits), moduli(bits), st.integers(2**13 + 1, 2**31 - 1), st.integers(1, 2**31 - 1)])
    )
    for layer_id in draw(st.lists(st.integers(0, 50), min_size=1, max_size=3, unique=True)):
        if mix == "xor":
            multipliers: list = draw(st.lists(word, min_size=orders[-1], max_size=orders[-1]))
        else:
            some = draw(st.lists(word, min_size=1, max_size=40))
            picks = iter(range(10**6))
            multipliers = [
                [some[next(picks) % len(some)] if k < order else 0 for k in range(orders[-1])]
                for order in column_orders
            ]
        some = draw(st.lists(size, min_size=1, max_size=len(column_orders)))
        sizes = [some[c % len(some)] for c in range(len(column_orders))]
        offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]]).tolist()
        if draw(st.booleans()):
            offsets = draw(st.permutations(offsets)) if len(offsets) < 20 else offsets[::-1]
        rows = max(offset + modulus for offset, modulus in zip(offsets, sizes, strict=True)) + draw(st.integers(0, 7))
        layers.append(
            {"layer_id": layer_id, "multipliers": multipliers, "moduli": sizes, "offsets": offsets, "rows": rows}
        )
    token_map = None
    if draw(st.booleans()):
        some = draw(st.lists(st.integers(0, 59), min_size=2, max_size=60))
        token_map = TokenMap.from_lookup([value % len(some) for value in some])
    policies = st.sampled_from(["error", "enter"])
    ids = {"limit": None, "negative": draw(policies), "too_large": draw(policies)}
    if token_map is not None:
        ids["limit"] = draw(st.integers(1, len(token_map)))
    elif ids["too_large"] == "error" or draw(st.booleans()):
        ids["limit"] = draw(st.integers(1, 2**40))
    boundaries = []
    if draw(st.booleans()):
        low = -5 if ids["limit"] is None and ids["negative"] == "enter" else 0
        high = 8 if ids["limit"] is None else min(8, ids["limit"] - 1)
        boundaries = sorted(draw(st.sets(st.integers(low, high), max_size=3)))
    document = {
        "format": "engram-fast-layout",
        "version": 1,
        "name": "random",
        "parameters": {},
        "orders": orders,
        "heads": heads,
        "max_order": orders[-1],
        "columns": "order-major" if by_order else "function-major",
        "mix": mix,
        "word_bits": bits,
        "align": "newest" if mix == "sum" else draw(st.sampled_from(["newest", "newest", "oldest"])),
        "fill": draw(word),
        "boundary_ids": boundaries,
        "ids": ids,
        "token_map": None
        if token_map is None
        else {"digest": token_map.digest, "length": len(token_map), "size": token_map.size},
        "adds_offsets": draw(st.booleans()),
        "layers": layers,
    }
    return document, token_map


def kernels() -> st.SearchStrategy[str]:
    from engram_fast import _core

    return st.sampled_from(_core.kernels())


@st.composite
def models(draw: st.DrawFn) -> Model:
    """A preset, one with a boundary added, or a random layout; with any kernel of this machine."""
    if draw(st.booleans()):
        model = preset(draw(st.sampled_from(PRESETS)))
        layout, token_map, document = model.hasher.layout, model.hasher.token_map, model.document
        if draw(st.booleans()):
            layout = layout.with_boundary(draw(st.lists(st.integers(0, 5), min_size=1, max_size=2)))
            document = json.loads(layout.to_json())
    else:
        document, token_map = draw(documents())
        layout = HashLayout.from_json(json.dumps(document))
    return Model(NgramHasher(layout, token_map, kernel=draw(kernels())), document)


def token_id_range(model: Model) -> st.SearchStrategy[int]:
    """Ids that the layout accepts: often few different ones, boundaries among them, sometimes the extremes."""
    rule = model.document["ids"]
    limit = rule["limit"] if rule["limit"] is not None else 2**63
    choices = [st.integers(0, min(7, limit - 1)), st.integers(0, limit - 1), st.just(limit - 1)]
    if rule["negative"] == "enter":
        choices += [st.integers(-(2**63), -1), st.just(-(2**63)), st.just(-1)]
    if rule["too_large"] == "enter" and limit < 2**63:
        choices += [st.integers(limit, 2**63 - 1), st.just(2**63 - 1)]
    return st.one_of(choices)


def spread(seed: int, some: list[int], shape: tuple[int, ...]) -> np.ndarray:
    """int64 of `shape`, each one of `some`: Hypothesis chooses few numbers, a generator where they go."""
    return np.random.default_rng(seed).choice(np.array(some, dtype=np.int64), shape)


SEEDS = st.integers(0, 2**32 - 1)
# Rows about the lengths where blocks and packed rows end, and short ones.
LENGTHS = st.one_of(
    st.integers(0, 9),
    st.sampled_from([31, 32, 33, 63, 64, 65, 126, 127, 128, 129, 130, 191, 192, 193, 255, 256, 257, 300]),
)


@st.composite
def token_ids(draw: st.DrawFn, model: Model, shape: tuple[int, ...]) -> np.ndarray:
    """int64 of `shape`, all accepted by the layout."""
    some = draw(st.lists(token_id_range(model), min_size=1, max_size=12))
    return spread(draw(SEEDS), some, shape)


@st.composite
def shapes(draw: st.DrawFn, most: int = 700) -> tuple[int, int]:
    """[B, T] of at most about `most` tokens: the reference is slow."""
    length = draw(LENGTHS)
    return draw(st.integers(0, max(1, min(300, most // max(1, length))))), length


@st.composite
def masks(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray:
    """bool of `shape`: none, some, most or all take part."""
    part = draw(st.sampled_from([0.0, 0.3, 0.9, 0.99, 1.0]))
    return np.random.default_rng(draw(SEEDS)).random(shape) < part


@st.composite
def segments(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray:
    """int64 of `shape`: numbers that stay for a while, and may come again."""
    change = draw(st.sampled_from([0.0, 0.02, 0.2, 0.9]))
    rng = np.random.default_rng(draw(SEEDS))
    numbers = draw(st.lists(WIDE, min_size=1, max_size=4))
    changes = np.cumsum(rng.random(shape) < change, axis=-1)
    return np.array(numbers, dtype=np.int64)[(changes + rng.integers(0, 3)) % len(numbers)]


@st.composite
def boundaries(draw: st.DrawFn, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """`mask` and `segment_ids`, either, or neither."""
    where = {}
    if draw(st.booleans()):
        where["mask"] = draw(masks(shape))
    if draw(st.booleans()):
        where["segment_ids"] = draw(segments(shape))
    return where


def cuts(length: int) -> st.SearchStrategy[list[int]]:
    """`cu_seqlens` of `length` tokens, empty segments anywhere."""
    inner = st.lists(st.integers(0, length), max_size=8).map(sorted)
    return st.tuples(inner, st.integers(0, 2), st.integers(0, 2)).map(
        lambda parts: [0] * (1 + parts[1]) + parts[0] + [length] * (1 + parts[2])
    )
