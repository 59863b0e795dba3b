"""`Columns`: the ids of a batch of examples as one flat array, out of Arrow or out of lists and arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrow_lists import flatten, is_list_type
from .boundaries import Boundaries
from .boundary_names import OF_WHOLE_BATCH
from .boundary_values import Ragged, as_array, may_be_numbers

ReadColumn = Callable[[str], Any]


@dataclass(frozen=True)
class Columns:
    """Flat ids [N], the start of each example [examples + 1], and `mask` and `segment_ids` [N] if known.

    `shape` is [examples, tokens] if the ids came as one array; `torch` tells whether that was a tensor.
    """

    ids: np.ndarray
    starts: np.ndarray
    where: dict[str, Any]
    shape: tuple[int, int] | None = None
    torch: bool = False


def read_columns(names: Iterable[str], column_of: ReadColumn, rules: Boundaries) -> Columns:
    """Flatten the columns that are needed; an array or tensor [examples, tokens] and a chunk of Arrow are not copied.

    Args:
        names: the columns that the batch has.
        column_of: gives a column by its name: an Arrow array, a table, or a list with one item for each example.
        rules: the key of the ids, and how boundaries are read.
    """
    names = list(names)
    ids_key = rules.ids_key
    if ids_key not in names:
        raise ValueError(f"the batch has no column {ids_key!r}; it has {names}")
    for key in OF_WHOLE_BATCH:
        if key in names and key not in rules.ignore and key not in rules.boundary_keys and column_of(key) is not None:
            raise ValueError(
                f"column {key!r} says where documents end, by lengths over a whole batch, and here each example is "
                f"hashed alone: add segment_ids or position_ids, leave it out with ignore=({key!r},), or, if every "
                f"example has its own, give boundary_keys={{{key!r}: 'cumulative lengths'}}"
            )
    value = column_of(ids_key)
    ids, shape = _flat(value, ids_key, "iu")

    def read(name: str) -> Ragged | None:
        column = column_of(name)
        return None if column is None else _flat(column, name, "iufb")[0]

    where = rules.of_columns(names, ids, read, lambda name: _holds_lists(column_of(name)))
    return Columns(ids.values, ids.starts, where, shape, hasattr(value, "detach"))


def _flat(column: Any, name: str, kinds: str) -> tuple[Ragged, tuple[int, int] | None]:
    if _is_arrow(column):
        return _flat_arrow(column, name, kinds), None
    if hasattr(column, "detach") or (isinstance(column, np.ndarray) and column.dtype != object):
        array = as_array(column)
        if array.ndim != 2:
            raise ValueError(f"column {name!r} has shape {list(array.shape)}; it must be [examples, tokens]{_HINT}")
        starts = np.arange(array.shape[0] + 1, dtype=np.int64) * array.shape[1]
        return Ragged(array.reshape(-1), starts), (array.shape[0], array.shape[1])
    examples = [as_array(example) for example in column]
    for index, example in enumerate(examples):
        if example.ndim != 1:
            hint = _HINT if example.ndim == 0 else ""
            raise ValueError(
                f"example {index} of column {name!r} has shape {list(example.shape)}; it must be [tokens]{hint}"
            )
    starts = np.cumsum([0, *(len(example) for example in examples)], dtype=np.int64)
    filled = [example for example in examples if len(example)]
    return Ragged(np.concatenate(filled) if filled else np.empty(0, np.int64), starts), None


_HINT = " (for a single example: map with batched=True, or add an axis in front)"


def _flat_arrow(column: Any, name: str, kinds: str) -> Ragged:
    chunks, starts = flatten(column, f"column {name!r}", kinds)
    if starts is None:
        raise TypeError(f"column {name!r} holds single numbers; it must hold a list of token ids per example")
    return Ragged(chunks[0] if len(chunks) == 1 else np.concatenate(chunks), starts)


def _is_arrow(column: Any) -> bool:
    return type(column).__module__.startswith("pyarrow") and hasattr(column, "null_count")


def _holds_lists(column: Any) -> bool:
    """Tell whether a column has several numbers for an example, so that it may divide it."""
    if column is None:
        return False
    if _is_arrow(column):
        return is_list_type(column.type, of_numbers=True)
    if hasattr(column, "detach") or (isinstance(column, np.ndarray) and column.dtype.kind != "O"):
        return int(column.ndim) > 1
    first = next((example for example in column if example is not None), None)
    if first is None or isinstance(first, (str, bytes, Mapping)) or not hasattr(first, "__len__"):
        return False
    try:
        array = as_array(first)
    except (TypeError, ValueError):  # a list of lists of several lengths
        return False
    if array.dtype.kind == "O":
        return array.ndim > 0 and may_be_numbers(array)
    return array.ndim > 0 and array.dtype.kind in "iufb"
