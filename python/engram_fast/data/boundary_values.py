"""The values of boundaries as arrays: shapes, dtypes, masks, columns of lists, and values that look like boundaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np


class Ragged(NamedTuple):
    """A column of lists: `values` one after another, and where each list begins, `starts` [lists + 1]."""

    values: np.ndarray
    starts: np.ndarray


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


def ragged_of(value: Any, key: str) -> Ragged:
    """Return a column as `Ragged`: a table, a list of lists of any length, or one list as a single row."""
    if not hasattr(value, "__len__"):
        raise TypeError(f"{key} is a {type(value).__name__}; it must be a list of numbers, or one for each row")
    if is_flat(value):
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


def is_flat(value: Any) -> bool:
    """Tell whether the value is one list of numbers."""
    ndim = getattr(value, "ndim", None)
    if ndim is None:
        return all(getattr(item, "ndim", 1 if hasattr(item, "__len__") else 0) == 0 for item in value)
    return int(ndim) == 1 and not _of_objects(value)


def _of_objects(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "O"


def aligned(column: Ragged, ids: Ragged, key: str, ids_key: str) -> np.ndarray:
    """Return the values of a column that has one value for each id."""
    if len(column.starts) != len(ids.starts):
        raise ValueError(f"column {key!r} has {len(column.starts) - 1} examples, and {ids_key!r} {len(ids.starts) - 1}")
    lengths, wanted = np.diff(column.starts), np.diff(ids.starts)
    if not np.array_equal(lengths, wanted):
        at = int(np.argmax(lengths != wanted))
        raise ValueError(f"example {at} has {lengths[at]} values in column {key!r}, and {wanted[at]} in {ids_key!r}")
    return column.values


def integers(array: np.ndarray, key: str) -> np.ndarray:
    """Return the array if it holds integers; anything else is a TypeError that names the key."""
    if array.dtype.kind in "iu":
        return array
    if array.size == 0:
        return array.astype(np.int64)  # NumPy calls an empty list float64
    raise TypeError(f"{key} holds {array.dtype}; it must hold integers")


def may_bound(value: Any, shape: tuple[int, ...]) -> bool:
    """Tell whether a value may divide rows of ids of this shape: it holds numbers, and more than one for each row."""
    if value is None or isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__len__"):
        return False
    try:
        array = as_array(value)
    except (ValueError, TypeError):
        # Lists of different lengths.
        return not any(isinstance(item, str) for row in value if isinstance(row, (list, tuple)) for item in row)
    if array.dtype.kind not in "iufbO" or array.ndim == 0 or array.size == 0:
        return False
    if array.dtype.kind == "O" and not may_be_numbers(array):
        return False
    tokens = int(np.prod(shape))
    if len(shape) == 2 and array.shape == shape[:1]:
        # One number for each row says nothing about places in it, unless they are lengths over all rows.
        return array.dtype.kind in "iu" and int(array.sum()) == tokens and not bool((array == shape[-1]).all())
    return array.ndim <= 2 or list(array.shape)[-1] == shape[-1]


def may_be_numbers(objects: np.ndarray) -> bool:
    """Tell whether an array of objects holds numbers, or lists of them, and nothing else."""
    kinds = (int, float, np.generic, list, tuple, np.ndarray)
    return all(isinstance(item, kinds) or hasattr(item, "detach") for item in objects.flat)


def is_square(value: Any) -> bool:
    """Tell whether a value has a number for each pair of tokens, as attention masks of [B, T, T] have."""
    shape: tuple[int, ...] = getattr(value, "shape", ())
    return len(shape) > 2 and shape[-1] == shape[-2]
