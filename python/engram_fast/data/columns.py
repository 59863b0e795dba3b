"""`Columns`: the ids of a batch of examples as one flat array, out of Arrow or out of lists and arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .boundaries import KEYS, LENGTHS, as_array, boundaries_of
from .files.arrow import flatten

PER_TOKEN = tuple(key for key in KEYS if key not in LENGTHS)


@dataclass(frozen=True)
class Columns:
    """Flat ids [N], the start of each example [examples + 1], and `mask` and `segment_ids` [N] where known.

    `shape` is [examples, tokens] where the ids came as one array of it.
    """

    ids: np.ndarray
    starts: np.ndarray
    where: dict[str, Any]
    shape: tuple[int, int] | None = None
    torch: bool = False


def columns_of_arrow(batch: Any, column: str, ignore: Sequence[str]) -> Columns:
    """Flatten the columns of an Arrow table or record batch; nothing is copied where a column has one chunk."""
    names = batch.schema.names
    _check_names(column, names, ignore)
    ids, starts = _flat_arrow(batch, column)
    others = {}
    for key in PER_TOKEN:
        if key in names and key not in ignore:
            others[key], other_starts = _flat_arrow(batch, key)
            _check_aligned(key, other_starts, starts, column)
    return Columns(ids, starts, boundaries_of(others, ids.shape))


def _flat_arrow(batch: Any, column: str) -> tuple[np.ndarray, np.ndarray]:
    chunks, starts = flatten(batch.column(column), f"column {column!r}")
    if starts is None:
        raise TypeError(f"column {column!r} holds single integers; it must hold a list of token ids per example")
    return chunks[0] if len(chunks) == 1 else np.concatenate(chunks), starts


def columns_of_mapping(batch: Mapping[str, Any], column: str, ignore: Sequence[str]) -> Columns:
    """Flatten the columns of a mapping: 2-D arrays and tensors in place, lists of examples by one concatenation."""
    _check_names(column, [name for name in batch if batch[name] is not None], ignore)
    value = batch[column]
    ids, starts, shape = _flat_values(value, column)
    others = {}
    for key in PER_TOKEN:
        if key in batch and batch[key] is not None and key not in ignore:
            others[key], other_starts, _ = _flat_values(batch[key], key)
            _check_aligned(key, other_starts, starts, column)
    return Columns(ids, starts, boundaries_of(others, ids.shape), shape, hasattr(value, "detach"))


def _flat_values(value: Any, column: str) -> tuple[np.ndarray, np.ndarray, tuple[int, int] | None]:
    if hasattr(value, "detach") or (isinstance(value, np.ndarray) and value.dtype != object):
        array = as_array(value)
        if array.ndim != 2:
            raise ValueError(f"column {column!r} has shape {list(array.shape)}; it must be [examples, tokens]")
        return array.reshape(-1), np.arange(array.shape[0] + 1, dtype=np.int64) * array.shape[1], array.shape
    examples = [as_array(example) for example in value]
    for index, example in enumerate(examples):
        if example.ndim != 1:
            raise ValueError(
                f"example {index} of column {column!r} has shape {list(example.shape)}; it must be [tokens]"
            )
    starts = np.cumsum([0, *(len(example) for example in examples)], dtype=np.int64)
    filled = [example for example in examples if len(example)]
    return np.concatenate(filled) if filled else np.empty(0, np.int64), starts, None


def _check_names(column: str, names: Sequence[str], ignore: Sequence[str]) -> None:
    if column not in names:
        raise ValueError(f"the batch has no column {column!r}; it has {list(names)}")
    for key in LENGTHS:
        if key in names and key not in ignore:
            raise ValueError(
                f"column {key!r} says where documents end, and lengths of single examples are not read here: add "
                f"segment_ids or position_ids, or ignore=({key!r},)"
            )


def _check_aligned(key: str, starts: np.ndarray, expected: np.ndarray, column: str) -> None:
    if len(starts) != len(expected):
        raise ValueError(f"column {key!r} has {len(starts) - 1} examples, and {column!r} {len(expected) - 1}")
    lengths, wanted = np.diff(starts), np.diff(expected)
    if not np.array_equal(lengths, wanted):
        at = int(np.argmax(lengths != wanted))
        raise ValueError(f"example {at} has {lengths[at]} values in column {key!r}, and {wanted[at]} in {column!r}")
