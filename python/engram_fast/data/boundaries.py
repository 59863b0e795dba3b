"""`Boundaries`: where look-backs stop in a batch, read from the keys that loaders, packers and collate functions write.

Nothing is guessed from a pad id: a real token may be equal to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ids import segments_from_position_ids
from .boundary_names import WITHOUT_END, Kind, Sorted, check_boundary_keys, not_understood, sort_names
from .boundary_values import (
    Ragged,
    aligned,
    as_array,
    integers,
    is_flat,
    is_square,
    may_bound,
    of_shape,
    ragged_of,
    read_mask,
)
from .lengths import segments_of_bounds, segments_of_lengths, without_padding

_KEPT = 64  # a stream whose keys never repeat must not fill the memory


class Boundaries:
    """Reads `mask` and `segment_ids` for `hash_batch` from a batch, by the table in `boundary_names`.

    Args:
        ids_key: the key of the ids.
        ignore: keys that are left out.
        boundary_keys: more names with their kinds; they come before the known ones.
        boundaries: "auto" takes a batch as it is; "required" refuses one that does not say where documents end.
    """

    def __init__(
        self,
        ids_key: str = "input_ids",
        *,
        ignore: Sequence[str] = (),
        boundary_keys: Mapping[str, Kind] | None = None,
        boundaries: str = "auto",
    ) -> None:
        if boundaries not in ("auto", "required"):
            raise ValueError(f"boundaries is {boundaries!r}; it may be 'auto' or 'required'")
        self.ids_key = ids_key
        self.ignore = (ignore,) if isinstance(ignore, str) else tuple(ignore)
        self.boundary_keys = check_boundary_keys(boundary_keys, self.ignore)
        self.required = boundaries == "required"
        self._sorted: dict[tuple[Any, ...], Sorted] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Libraries tell by the pickle whether a function has changed.
        return {**self.__dict__, "_sorted": {}}

    def sort(self, names: Iterable[Any]) -> Sorted:
        """Sort the keys of a batch; the answer is kept, since the batches of a loader have the same keys."""
        names = tuple(names)
        found = self._sorted.get(names)
        if found is None:
            if len(self._sorted) >= _KEPT:
                self._sorted.clear()
            found = self._sorted[names] = sort_names(names, self.ids_key, self.boundary_keys, self.ignore)
        return found

    def of_batch(self, batch: Mapping[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
        """Return `mask` and `segment_ids` in the shape of the ids, [T] or [B, T]; only those that the batch tells.

        Raises:
            ValueError: a shape or a value does not fit the ids; a key looks like a boundary and is not understood; no
                boundary, though one is required.
            TypeError: positions, segment ids or lengths are no integers.
        """
        names = self.sort(batch)
        if names.silent and not self.required:
            return {}
        where: dict[str, Any] = {}
        mask = numbers = None
        for name in names.masks:
            if batch[name] is not None:
                mask, numbers = read_mask(of_shape(as_array(batch[name]), shape, name), name)
                where["mask"] = mask
                break
        for name, kind in names.ends:
            if batch[name] is not None:
                segments = _segments(batch[name], kind, name, shape, mask)
                if segments is not None:
                    where["segment_ids"] = segments
                    break
        else:
            if numbers is not None:
                where["segment_ids"] = numbers
        if names.side or names.unknown or self.required:
            self.check(names, batch.__getitem__, where, lambda value: may_bound(value, shape))
        return where

    def check(
        self,
        names: Sorted,
        value_of: Callable[[str], Any],
        where: Mapping[str, Any],
        may_bound: Callable[[Any], bool],
    ) -> None:
        """Refuse a key that may be a boundary and is not read, and a batch without the boundaries that are required."""
        for name in names.unknown:
            value = value_of(name)
            if may_bound(value) and not ("segment_ids" in where and is_square(value)):
                raise ValueError(not_understood(name))
        if "segment_ids" not in where:
            for name in names.side:
                if may_bound(value_of(name)):
                    raise ValueError(not_understood(name))
        if self.required and "segment_ids" not in where:
            raise ValueError(
                "boundaries='required', and the batch has no key that says where documents end, such as segment_ids, "
                "position_ids or cu_seqlens (a Trainer drops columns that its model does not take, unless "
                "remove_unused_columns=False); name one with boundary_keys="
            )

    def of_columns(
        self,
        names: Iterable[str],
        ids: Ragged,
        read: Callable[[str], Ragged | None],
        may_bound: Callable[[str], bool],
    ) -> dict[str, Any]:
        """Return `mask` and `segment_ids` [N] for flat ids; `read` gives a column that holds a list per example."""
        found = self.sort(names)
        where: dict[str, Any] = {}
        mask = numbers = None
        for name in found.masks:
            if (column := read(name)) is not None:
                mask, numbers = read_mask(aligned(column, ids, name, self.ids_key), name)
                where["mask"] = mask
                break
        for name, kind in found.ends:
            if kind == "lengths" and not may_bound(name):
                continue  # one number for each example: its length
            if (column := read(name)) is not None:
                if kind in ("lengths", "cumulative lengths"):
                    where["segment_ids"] = _ragged_segments(column, ids.starts, kind, name, mask)
                else:
                    values = integers(aligned(column, ids, name, self.ids_key), name)
                    if kind == "position ids":
                        values = segments_from_position_ids(values, dtype=np.int32)
                    where["segment_ids"] = values
                break
        else:
            if numbers is not None:
                where["segment_ids"] = numbers
        self.check(found, lambda name: name, where, may_bound)
        return where


def _segments(value: Any, kind: Kind, key: str, shape: tuple[int, ...], mask: np.ndarray | None) -> np.ndarray | None:
    if kind == "segment ids":
        return integers(of_shape(as_array(value), shape, key), key)
    if kind == "position ids":
        return segments_from_position_ids(integers(of_shape(as_array(value), shape, key), key), dtype=np.int32)
    rows = shape[0] if len(shape) == 2 else 1
    column = ragged_of(value, key)
    alive = None if mask is None else mask.reshape(-1)
    starts = np.arange(rows + 1, dtype=np.int64) * shape[-1]
    if is_flat(value) or len(column.starts) == 2:
        if kind == "lengths" and len(column.values) == rows > 1 and int(column.values.sum()) != starts[-1]:
            return None  # the length of each row without its padding: rows of one document
        # One list for the whole batch, over all rows one after another.
        column, starts = Ragged(column.values, np.array([0, len(column.values)])), starts[[0, -1]]
    elif len(column.starts) != len(starts):
        raise ValueError(
            f"{key} has {len(column.starts) - 1} rows, and the ids have shape {list(shape)}: it must be flat or have a "
            f"row for each of theirs; ignore=({key!r},) leaves it out"
        )
    return _ragged_segments(column, starts, kind, key, alive).reshape(shape)


def _ragged_segments(column: Ragged, starts: np.ndarray, kind: Kind, key: str, mask: np.ndarray | None) -> np.ndarray:
    """Return segment numbers [N] from the lengths of each row; `starts` says where the rows of tokens begin.

    The lengths of a row add up to its tokens, or to those that the mask keeps: the others get -1.
    """
    values = integers(column.values, key)
    if len(column.starts) != len(starts):
        raise ValueError(f"{key} has {len(column.starts) - 1} rows, and the ids {len(starts) - 1}")
    if len(starts) == 2:
        return _segments_of_row(values, int(starts[1]), kind, key, mask, key in WITHOUT_END)
    segments = np.empty(int(starts[-1]), np.int32)
    for row in range(len(starts) - 1):
        begin, end = int(starts[row]), int(starts[row + 1])
        numbers = values[column.starts[row] : column.starts[row + 1]]
        alive = None if mask is None else mask[begin:end]
        name = f"{key} of row {row}"
        segments[begin:end] = _segments_of_row(numbers, end - begin, kind, name, alive, key in WITHOUT_END)
    return segments


def _segments_of_row(
    numbers: np.ndarray, length: int, kind: Kind, name: str, mask: np.ndarray | None, without_end: bool
) -> np.ndarray:
    kept = None
    if mask is not None and not mask.all() and not _covers(numbers, kind, length):
        kept, whole = mask, length
        length = int(np.count_nonzero(kept))
    if kind == "lengths":
        found = segments_of_lengths(numbers, length, name)
    else:
        numbers = without_padding(numbers)
        if without_end and len(numbers) and numbers[-1] < length:
            numbers = np.append(numbers, length)
        found = segments_of_bounds(numbers, length, name)
    if kept is None:
        return found
    segments = np.full(whole, -1, np.int32)
    segments[kept] = found
    return segments


def _covers(numbers: np.ndarray, kind: Kind, length: int) -> bool:
    """Tell whether the lengths of a row count its masked tokens too."""
    return int(numbers.sum() if kind == "lengths" else numbers.max(initial=0)) == length
