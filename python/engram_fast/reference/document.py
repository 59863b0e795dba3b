"""The parts that every layout's dictionary is put together from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

REFUSE = {"negative": "error", "too_large": "error"}
"""The policy of a layout that takes no id outside its vocabulary."""

Layout = dict[str, Any]
"""A layout's JSON document, parsed: plain Python integers, strings, lists and dictionaries."""


def token_map_id(lookup: np.ndarray) -> dict[str, Any]:
    """Return digest, length and compressed size of the token map whose lookup is int [n].

    The digest is the SHA-256 of the length and the entries, all as little-endian int32. The size is the largest
    compressed id plus one.
    """
    lookup = np.asarray(lookup)
    content = np.concatenate([[len(lookup)], lookup]).astype("<i4").tobytes()
    return {"digest": hashlib.sha256(content).hexdigest(), "length": len(lookup), "size": int(lookup.max()) + 1}


def layer_numbers(
    layer: int, multipliers: Sequence[Any], moduli: Sequence[int], offsets: Sequence[int] | None = None
) -> dict[str, Any]:
    """Return one entry of "layers"; without `offsets`, each column starts at the sum of the moduli before it."""
    if offsets is None:
        offsets = [sum(moduli[:c]) for c in range(len(moduli))]
    rows = max(offset + modulus for offset, modulus in zip(offsets, moduli, strict=True))
    return {"layer_id": layer, "multipliers": multipliers, "moduli": moduli, "offsets": offsets, "rows": rows}


def assemble(
    orders: Sequence[int],
    heads: int,
    layers: Sequence[dict[str, Any]],
    ids: dict[str, Any],
    adds_offsets: bool,
    **rest: Any,
) -> Layout:
    """Return the layout's dictionary; a key that `rest` lacks gets the value that most layouts use.

    Raises:
        ValueError: the orders do not ascend.
    """
    if list(orders) != sorted(set(orders)):
        raise ValueError(f"n-gram orders {list(orders)} do not ascend")
    common = {"columns": "order-major", "mix": "xor", "word_bits": 64, "align": "newest", "fill": 0, "boundary_ids": []}
    return {
        "orders": list(orders),
        "heads": heads,
        "max_order": max(orders),
        **common,
        "ids": ids,
        "token_map": None,
        "adds_offsets": adds_offsets,
        "layers": layers,
        **rest,
    }


def compressed_pad(name: str, pad: int, lookup: np.ndarray) -> int:
    """Return the compressed id of the raw id `pad`, which goes through the token map once.

    Raises:
        ValueError: `pad` is outside the token map; the message begins with `name`.
    """
    if not 0 <= pad < len(lookup):
        raise ValueError(f"{name}: {pad} is outside the token map of {len(lookup)} ids")
    return int(lookup[pad])


def need_lookup(lookup: np.ndarray | None) -> np.ndarray:
    """Return the token map's lookup as an array.

    Raises:
        ValueError: there is none, and the layout hashes compressed ids.
    """
    if lookup is None:
        raise ValueError("token_map: this layout hashes compressed ids and needs one")
    return np.asarray(lookup)
