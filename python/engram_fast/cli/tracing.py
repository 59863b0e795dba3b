"""The inverse of hashing: which n-gram each row belongs to, and which n-grams of a corpus read a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engram_fast.trace import find_row as library_find_row

if TYPE_CHECKING:
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
    return [
        Read(ngram.place[0], ngram.layer, ngram.order, ngram.ids, ngram.values, ngram.columns, ngram.rows)
        for ngram in hasher.trace(ids)
    ]


@dataclass(frozen=True)
class Reader:
    """An n-gram that reads a row: where, as what, and how often."""

    layer: int
    order: int
    column: int
    compressed: tuple[int, ...]
    ids: Ngram
    """Its raw ids; of several, the most frequent ones."""
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
    for reader in library_find_row(documents, hasher, row, wanted):
        key = reader.layer, reader.column, reader.values
        seen[key] += reader.count
        first.setdefault(key, reader.ids)
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
