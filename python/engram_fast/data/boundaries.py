"""`Boundaries`: where look-backs stop in a batch, read from the keys that loaders, packers and collate functions write.

Nothing is guessed from a pad id: a real token may be equal to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ids import segments_from_position_ids
from .boundary_names import WITHOUT_END, Kind, Sorted, check_boundary_keys, not_understood, sort_names
from .lengths import segments_of_bounds, segments_of_lengths, without_padding

_KEPT = 64  # a stream whose keys never repeat must not fill the memory


class Ragged(NamedTuple):
    """A column of lists: `values` one after another, and where each list begins, `starts` [lists + 1]."""

    values: np.ndarray
    starts: np.ndarray


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
            self.check(names, batch.__getitem__, where, lambda value: _may_bound(value, shape))
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
            if may_bound(value) and not ("segment_ids" in where and _is_square(value)):
                raise ValueError(not_understood(name))
        if not where:
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
                mask, numbers = read_mask(_aligned(column, ids, name, self.ids_key), name)
                where["mask"] = mask
                break
        for name, kind in found.ends:
            if kind == "lengths" and not may_bound(name):
                continue  # one number for each example: its length
            if (column := read(name)) is not None:
                if kind in ("lengths", "cumulative lengths"):
                    where["segment_ids"] = _ragged_segments(column, ids.starts, kind, name, mask)
                else:
                    values = _integers(_aligned(column, ids, name, self.ids_key), name)
                    where["segment_ids"] = values if kind == "segment ids" else segments_from_position_ids(values)
                break
        else:
            if numbers is not None:
                where["segment_ids"] = numbers
        self.check(found, lambda name: name, where, may_bound)
        return where


def as_array(value: Any) -> np.ndarray:
    """Return a NumPy view of a tensor (a copy, if it lies on a device), or the array of anything else."""
    if hasattr(value, "detach"):
        return np.asarray(value.detach().cpu().numpy())
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("a masked array is ambiguous here: give its data, and ~mask as attention_mask")
    return np.asarray(value)


def of_shape(array: np.ndarray, shape: tuple[int, ...], key: str) -> np.ndarray:
    """Return the array in the shape of the ids; it may differ from it by axes of length 1, and by nothing else."""
    if array.shape == shape:
        return array
    if [size for size in array.shape if size != 1] == [size for size in shape if size != 1]:
        return array.reshape(shape)
    raise ValueError(
        f"{key} has shape {list(array.shape)}, and the ids {list(shape)}: boundaries are read per token; "
        f"add segment_ids of the shape of the ids, or ignore=({key!r},)"
    )


def read_mask(mask: np.ndarray, key: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the mask as bool, and its numbers as segment ids if it numbers its samples (1, 2, 3 and so on)."""
    if mask.dtype == bool:
        return mask, None
    _check_mask(mask, key)
    # Some packing collators number the samples in the mask itself.
    numbers = mask.astype(np.int64) if mask.size and mask.max() > 1 else None
    return mask != 0, numbers


def _segments(value: Any, kind: Kind, key: str, shape: tuple[int, ...], mask: np.ndarray | None) -> np.ndarray | None:
    if kind == "segment ids":
        return _integers(of_shape(as_array(value), shape, key), key)
    if kind == "position ids":
        return segments_from_position_ids(_integers(of_shape(as_array(value), shape, key), key))
    rows = shape[0] if len(shape) == 2 else 1
    column = ragged_of(value, key)
    alive = None if mask is None else mask.reshape(-1)
    starts = np.arange(rows + 1, dtype=np.int64) * shape[-1]
    if _is_flat(value) or len(column.starts) == 2:
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


def _is_flat(value: Any) -> bool:
    """Tell whether the value is one list of numbers."""
    ndim = getattr(value, "ndim", None)
    if ndim is None:
        return all(getattr(item, "ndim", 1 if hasattr(item, "__len__") else 0) == 0 for item in value)
    return int(ndim) == 1 and not _of_objects(value)


def _of_objects(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "O"


def ragged_of(value: Any, key: str) -> Ragged:
    """Return a column as `Ragged`: a table, a list of lists of any length, or one list as a single row."""
    if not hasattr(value, "__len__"):
        raise TypeError(f"{key} is a {type(value).__name__}; it must be a list of numbers, or one for each row")
    if _is_flat(value):
        array = as_array(value)
        return Ragged(array, np.array([0, len(array)]))
    if hasattr(value, "detach") or (isinstance(value, np.ndarray) and not _of_objects(value)):
        array = as_array(value)
        if array.ndim != 2:
            raise ValueError(f"{key} has shape {list(array.shape)}; it must be [rows, numbers] or [numbers]")
        return Ragged(array.reshape(-1), np.arange(array.shape[0] + 1, dtype=np.int64) * array.shape[1])
    rows = [as_array(row) for row in value]
    for index, row in enumerate(rows):
        if row.ndim != 1:
            raise ValueError(f"row {index} of {key} has shape {list(row.shape)}; it must be a list of numbers")
    starts = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)
    filled = [row for row in rows if len(row)]
    return Ragged(np.concatenate(filled) if filled else np.empty(0, np.int64), starts)


def _ragged_segments(column: Ragged, starts: np.ndarray, kind: Kind, key: str, mask: np.ndarray | None) -> np.ndarray:
    """Return segment numbers [N] from the lengths of each row; `starts` says where the rows of tokens begin.

    The lengths of a row add up to its tokens, or to those that the mask keeps: the others get -1.
    """
    values = _integers(column.values, key)
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


def _integers(array: np.ndarray, key: str) -> np.ndarray:
    if array.dtype.kind in "iu":
        return array
    if array.size == 0:
        return array.astype(np.int64)  # NumPy calls an empty list float64
    raise TypeError(f"{key} holds {array.dtype}; it must hold integers")


def _aligned(column: Ragged, ids: Ragged, key: str, ids_key: str) -> np.ndarray:
    """Return the values of a column that has one value for each id."""
    if len(column.starts) != len(ids.starts):
        raise ValueError(f"column {key!r} has {len(column.starts) - 1} examples, and {ids_key!r} {len(ids.starts) - 1}")
    lengths, wanted = np.diff(column.starts), np.diff(ids.starts)
    if not np.array_equal(lengths, wanted):
        at = int(np.argmax(lengths != wanted))
        raise ValueError(f"example {at} has {lengths[at]} values in column {key!r}, and {wanted[at]} in {ids_key!r}")
    return column.values


def _check_mask(mask: np.ndarray, key: str) -> None:
    if mask.dtype.kind not in "iuf":
        raise TypeError(f"{key} holds {mask.dtype}; it must be bool or 0 and 1")
    if mask.dtype.kind == "f":
        wrong, rule = (
            (mask != 0) & (mask != 1),
            "floats may be 0 or 1: an additive mask does not say which tokens are padding",
        )
    elif mask.dtype.kind == "i" and mask.size and mask.min() < 0:
        wrong, rule = mask < 0, "0 is padding, 1 or a sample number is a token"
    else:
        return
    if wrong.any():
        at = np.unravel_index(int(np.argmax(wrong)), mask.shape)
        raise ValueError(f"{key} holds {mask[at]} at {[int(i) for i in at]}; {rule}")


def _may_bound(value: Any, shape: tuple[int, ...]) -> bool:
    """Tell whether a value may divide rows of ids of this shape: it holds numbers, and more than one for each row."""
    if value is None or isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__len__"):
        return False
    try:
        array = as_array(value)
    except (ValueError, TypeError):
        return not any(isinstance(item, str) for row in value for item in row)  # lists of different lengths
    if array.dtype.kind not in "iufbO" or array.ndim == 0 or array.size == 0:
        return False
    if array.dtype.kind == "O" and not all(hasattr(row, "__len__") and not isinstance(row, str) for row in array.flat):
        return False
    tokens = int(np.prod(shape))
    if len(shape) == 2 and array.shape == shape[:1]:
        # One number for each row says nothing about places in it, unless they are lengths over all rows.
        return array.dtype.kind in "iu" and int(array.sum()) == tokens and not bool((array == shape[-1]).all())
    return array.ndim <= 2 or list(array.shape)[-1] == shape[-1]


def _is_square(value: Any) -> bool:
    shape: tuple[int, ...] = getattr(value, "shape", ())
    return len(shape) > 2 and shape[-1] == shape[-2]
