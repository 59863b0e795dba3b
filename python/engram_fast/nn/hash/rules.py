"""The rules of a layout that are not tensors, read from its JSON once."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class HashRules:
    """What a hash does apart from its multipliers, moduli and offsets."""

    layer_ids: tuple[int, ...]
    orders: tuple[int, ...]
    heads: int
    order_major: bool
    xor: bool
    word_bits: int
    oldest_first: bool
    fill: int
    boundary_ids: tuple[int, ...]
    limit: int | None
    negative_is_error: bool
    too_large_is_error: bool
    adds_offsets: bool

    @property
    def columns(self) -> int:
        return len(self.orders) * self.heads

    @property
    def window(self) -> int:
        return max(self.orders)

    def order_of(self, column: int) -> int:
        """Which entry of ``orders`` a column belongs to."""
        return column // self.heads if self.order_major else column % len(self.orders)


@functools.lru_cache(maxsize=64)
def rules_of(layout_json: str) -> HashRules:
    """From ``HashLayout.to_json()``."""
    data = json.loads(layout_json)
    ids = data["ids"]
    return HashRules(
        layer_ids=tuple(layer["layer_id"] for layer in data["layers"]),
        orders=tuple(data["orders"]),
        heads=data["heads"],
        order_major=data["columns"] == "order-major",
        xor=data["mix"] == "xor",
        word_bits=data["word_bits"],
        oldest_first=data["align"] == "oldest",
        fill=data["fill"],
        boundary_ids=tuple(data["boundary_ids"]),
        limit=ids["limit"],
        negative_is_error=ids["negative"] == "error",
        too_large_is_error=ids["too_large"] == "error",
        adds_offsets=data["adds_offsets"],
    )


@functools.lru_cache(maxsize=64)
def numbers_of(layout_json: str) -> tuple[list, ...]:
    """Multipliers, moduli and offsets of all layers, as nested lists."""
    layers = json.loads(layout_json)["layers"]
    return tuple([layer[name] for layer in layers] for name in ("multipliers", "moduli", "offsets"))
