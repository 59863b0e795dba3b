"""The inverse of hashing: which n-gram each row belongs to, and which n-grams of a corpus read a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engram_fast import HashLayout, NgramHasher

Ngram = tuple["int | None", ...]


@dataclass(frozen=True)
class Read:
    """One n-gram at one position of one layer: what it consists of, and the rows that it reads."""

    position: int
    layer: int
    order: int
    ids: Ngram
    """Raw ids, oldest first; None where the look-back reaches nothing."""
    compressed: tuple[int, ...]
    """What is multiplied in their place: compressed ids, or the layout's fill."""
    columns: tuple[int, ...]
    rows: tuple[int, ...]


def trace(hasher: NgramHasher, ids: Any) -> list[Read]:
    """Every n-gram of one sequence, flat ids [N]: by position, then layer, then order. Errors as in `hash_batch`."""
    layout = hasher.layout
    rows = hasher.hash_batch(ids, dtype=np.int64)
    raw = np.asarray(ids, dtype=np.int64)
    run = _reach(layout, raw)
    by_order = [(order, _columns(layout, order)) for order in layout.orders]
    return [
        Read(t, layer, order, ngram, _compressed(hasher, ngram), columns, tuple(rows[n, t, list(columns)].tolist()))
        for t in range(len(raw))
        for n, layer in enumerate(layout.layer_ids)
        for order, columns in by_order
        for ngram in [_ngram(layout, raw, run, t, order)]
    ]


@dataclass(frozen=True)
class Reader:
    """An n-gram that reads a row: where, as what, and how often."""

    layer: int
    order: int
    column: int
    compressed: tuple[int, ...]
    ids: Ngram
    """The raw ids of its first occurrence."""
    count: int


def find_row(
    hasher: NgramHasher, row: int, documents: Iterable[Any], *, layers: list[int] | None = None
) -> list[Reader]:
    """Which n-grams of `documents` (each flat raw ids) read row number `row`, as the layout numbers rows; most first.

    N-grams that are the same after compression are one. Without offsets, each column has a row of that number.
    """
    layout = hasher.layout
    wanted = list(layout.layer_ids) if layers is None else layers
    _check_row(layout, row, wanted)
    seen: Counter[tuple[int, int, tuple[int, ...]]] = Counter()
    first: dict[tuple[int, int, tuple[int, ...]], Ngram] = {}
    for ids in documents:
        rows = hasher.hash_batch(ids, layers=wanted)
        hits = np.argwhere(rows == row)
        if not len(hits):
            continue
        raw = np.asarray(ids, dtype=np.int64)
        run = _reach(layout, raw)
        for n, t, column in hits.tolist():
            ngram = _ngram(layout, raw, run, t, layout.column_orders[column])
            key = wanted[n], column, _compressed(hasher, ngram)
            seen[key] += 1
            first.setdefault(key, ngram)
    return [
        Reader(layer, layout.column_orders[column], column, compressed, first[layer, column, compressed], times)
        for (layer, column, compressed), times in seen.most_common()
    ]


def _check_row(layout: HashLayout, row: int, layers: list[int]) -> None:
    for layer in layers:
        if layer not in layout.layer_ids:
            raise ValueError(f"layers: {layer} is not a layer of {layout.name}; there are {list(layout.layer_ids)}")
    limit = max(layout.rows[layer] if layout.adds_offsets else int(layout.moduli[layer].max()) for layer in layers)
    if not 0 <= row < limit:
        raise IndexError(f"row {row} is outside the {limit} rows of {layout.name}")


def _reach(layout: HashLayout, raw: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many tokens each position may read, itself included; a boundary id cuts off what follows it."""
    places = np.arange(len(raw))
    starts = np.zeros(len(raw), dtype=np.int64)
    after = 1 + np.flatnonzero(np.isin(raw[:-1], layout.boundary_ids))
    starts[after] = after
    return places - np.maximum.accumulate(starts) + 1


def _columns(layout: HashLayout, order: int) -> tuple[int, ...]:
    return tuple(column for column, of in enumerate(layout.column_orders) if of == order)


def _ngram(layout: HashLayout, raw: NDArray[np.int64], run: NDArray[np.int64], t: int, order: int) -> Ngram:
    # A layout that aligns to the oldest token leaves out the newest ones in its lower orders.
    newest = layout.max_order - order if layout.align == "oldest" else 0
    look_backs = range(newest + order - 1, newest - 1, -1)
    return tuple(int(raw[t - k]) if k < run[t] else None for k in look_backs)


def _compressed(hasher: NgramHasher, ngram: Ngram) -> tuple[int, ...]:
    layout, token_map = hasher.layout, hasher.token_map
    if token_map is None:
        return tuple(layout.fill if token is None else token for token in ngram)
    lookup = token_map.lookup
    return tuple(
        layout.fill if token is None else int(lookup[token]) if 0 <= token < len(lookup) else token for token in ngram
    )
