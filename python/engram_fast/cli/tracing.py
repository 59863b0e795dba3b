"""The n-grams of a corpus that read a row, those that are the same after compression counted as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..analysis.tracing import RowReader
from ..analysis.tracing import find_row as readers_of_row

if TYPE_CHECKING:
    from engram_fast import NgramHasher


def find_row(
    hasher: NgramHasher, row: int, documents: Iterable[Any], *, layers: list[int] | None = None
) -> list[RowReader]:
    """Which n-grams of `documents` (each flat raw ids) read row number `row`, as the layout numbers rows; most first.

    The raw ids of each are its most frequent ones. Without offsets, each column has a row of that number.
    """
    wanted = hasher.layout.layer_ids if layers is None else layers
    found: dict[tuple[int, int, tuple[int, ...]], RowReader] = {}
    for reader in readers_of_row(documents, hasher, row, wanted):
        key = reader.layer, reader.column, reader.values
        if (first := found.get(key)) is not None:
            reader = replace(first, count=first.count + reader.count)
        found[key] = reader
    return sorted(found.values(), key=lambda reader: -reader.count)
