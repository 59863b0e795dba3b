"""Arrays of ids: integers of any kind as a NumPy array, and segment ids from position ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["as_integers", "segments_from_position_ids"]

_TOKEN_IDS = ("ids", "ids_so_far", "history")


def as_integers(values: Any, name: str, bools: bool) -> np.ndarray:
    """Return `values` as an ndarray of the base class, without a copy if possible.

    Args:
        values: integers of any width and shape: nested lists of ints, memory maps and other subclasses of ndarray, CPU
            torch tensors, and every object with the buffer, array-interface or DLPack protocol.
        name: the caller's name for them, with which errors begin.
        bools: accept booleans too.

    Returns:
        An array in the shape and dtype of `values`; int64 for lists.

    Raises:
        TypeError: the elements are no integers, a tensor is not in host memory, or the array is masked.
        ValueError: the rows of a list differ in length, or a Python int does not fit 64 bits.
        IndexError: a Python int does not fit 64 bits and `name` stands for token ids.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name}: a masked array has two meanings here; pass its data, and mask=~{name}.mask")
    if isinstance(values, np.ndarray):
        array = values.view(np.ndarray)
    elif isinstance(values, (str, bytes, bytearray, dict, set)) or values is None:
        raise TypeError(f"{name}: expected integers, got {type(values).__name__}")
    elif hasattr(values, "__dlpack_device__") and not hasattr(values, "__array__"):
        array = _imported(values, name)
    else:
        array = _converted(values, name)
    if array.dtype.kind in "iu" or (bools and array.dtype.kind == "b"):
        return array
    if not hasattr(values, "dtype"):
        if array.size == 0:
            return array.astype(np.int64)  # NumPy calls an empty list float64, though it holds no float
        if array.dtype.kind in "Of":
            _refuse_past_64_bits(values, name)
    wanted = "integers or booleans" if bools else "integers"
    raise TypeError(f"{name}: expected {wanted}, got {array.dtype}")


def segments_from_position_ids(
    position_ids: ArrayLike, *, dtype: type[np.int32 | np.int64] = np.int64
) -> NDArray[np.int32] | NDArray[np.int64]:
    """Return the segment ids of packed rows by their position ids, which count up from 0 in each document.

    A segment begins where the position id is 0, or is not one more than the id before it. The segments of a row are
    numbered from 0; pass them as `segment_ids`.

    Args:
        position_ids: any integers, `[N]` or `[B, T]`.
        dtype: int64 or int32; int64 takes several times as long from 100000 positions on.

    Returns:
        Segment ids of this dtype, in the shape of `position_ids`.

    Raises:
        TypeError: `position_ids` are no integers.
        ValueError: they have another number of dimensions.

    >>> segments_from_position_ids([0, 1, 2, 0, 1, 0]).tolist()
    [0, 0, 0, 1, 1, 2]
    """
    positions = as_integers(position_ids, "position_ids", False)
    if positions.ndim not in (1, 2):
        raise ValueError(f"position_ids: expected [N] or [B, T], got the shape {list(positions.shape)}")
    # One flat row: NumPy takes twice as long over the strided views of a table with short rows.
    flat = np.ascontiguousarray(positions).reshape(-1)
    begins = np.zeros(flat.shape, dtype=bool)
    new, old = flat[1:], flat[:-1]
    np.not_equal(new - old, 1, out=begins[1:])
    # The difference wraps: the smallest number seems to follow the largest. It is 0, or its double wraps to 0.
    begins[1:] |= (new if flat.dtype.kind == "u" else new << 1) == 0
    table: np.ndarray = begins.reshape(positions.shape)
    table[..., :1] = False
    return table.cumsum(axis=-1, dtype=dtype)


def _converted(values: Any, name: str) -> np.ndarray:
    device = getattr(values, "device", None)
    if device is not None and getattr(device, "type", "cpu") != "cpu":
        raise TypeError(f"{name}: the tensor is on {device}; move it to the CPU first")
    if getattr(values, "requires_grad", False):
        raise TypeError(f"{name}: a tensor that requires a gradient does not hold integers to read")
    try:
        return np.asarray(values)
    except ValueError as error:
        if "inhomogeneous" in str(error):
            raise ValueError(f"{name}: the rows of a nested list differ in length") from None
        raise ValueError(f"{name}: {error}") from error
    except OverflowError as error:
        raise ValueError(f"{name}: {error}") from error


def _imported(values: Any, name: str) -> np.ndarray:
    try:
        return np.from_dlpack(values)
    except (BufferError, RuntimeError, AttributeError) as error:
        raise TypeError(f"{name}: {error}") from error


def _refuse_past_64_bits(values: Any, name: str) -> None:
    """Raise for the first int past 64 bits, if `values` are ints alone: NumPy makes floats or objects of such lists."""
    array = np.asarray(values, dtype=object)
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in array.flat):
        return
    for index, value in np.ndenumerate(array):
        if not -(2**63) <= value < 2**63:
            error = IndexError if name in _TOKEN_IDS else ValueError
            what = "token id " if name in _TOKEN_IDS else f"{name}: "
            raise error(f"{what}{_shown(value)} at {place(index)} is outside 64 bits")


def place(index: tuple[int, ...]) -> str:
    """Return an id's place in words, for messages: "row 3, column 17", or "position 5" in flat ids."""
    if len(index) == 2:
        return f"row {index[0]}, column {index[1]}"
    return f"position {index[0] if index else 0}" if len(index) < 2 else f"index {list(index)}"


def _shown(value: int) -> str:
    return str(value) if value.bit_length() <= 1024 else f"of {value.bit_length()} bits"
