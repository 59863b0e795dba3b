"""Whatever holds integers, as a NumPy array: the slow path that the core calls for anything but a plain ndarray."""

from __future__ import annotations

from typing import Any

import numpy as np


def as_integers(values: Any, name: str, bools: bool) -> np.ndarray:
    """Return `values` as a base-class ndarray of integers (or booleans, where `bools` says so), without a copy if possible.

    Takes nested lists of ints, memory maps and other ndarray subclasses, CPU torch tensors, and anything with the buffer,
    array-interface or DLPack protocol. Raises TypeError for other element types, for tensors that are not in host
    memory and for masked arrays; ValueError for ragged lists and integers past 64 bits.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name}: a masked array is ambiguous here; pass its data, and mask=~{name}.mask for its mask")
    if isinstance(values, np.ndarray):
        array = values.view(np.ndarray)
    elif isinstance(values, (str, bytes, bytearray, dict, set)) or values is None:
        raise TypeError(f"{name}: expected integers, got {type(values).__name__}")
    elif hasattr(values, "__dlpack_device__") and not hasattr(values, "__array__"):
        array = np.from_dlpack(values)
    else:
        array = _converted(values, name)
    if array.dtype.kind in "iu" or (bools and array.dtype.kind == "b"):
        return array
    if array.size == 0 and isinstance(values, (list, tuple)):
        return array.astype(np.int64)  # NumPy calls an empty list float64, though it holds no float
    if array.dtype.kind == "O" and _all_integers(array):
        raise ValueError(f"{name}: an integer does not fit 64 bits")
    wanted = "integers or booleans" if bools else "integers"
    raise TypeError(f"{name}: expected {wanted}, got {array.dtype}")


def _converted(values: Any, name: str) -> np.ndarray:
    device = getattr(values, "device", None)
    if device is not None and getattr(device, "type", "cpu") != "cpu":
        raise TypeError(f"{name}: the tensor is on {device}; move it to the CPU first")
    if getattr(values, "requires_grad", False):
        raise TypeError(f"{name}: a tensor that requires a gradient does not hold token ids")
    try:
        return np.asarray(values)
    except ValueError as error:
        if "inhomogeneous" in str(error):
            raise ValueError(f"{name}: the rows of a nested list differ in length") from None
        raise
    except OverflowError:
        raise ValueError(f"{name}: an integer does not fit 64 bits") from None


def _all_integers(array: np.ndarray) -> bool:
    return array.size > 0 and all(isinstance(value, int) and not isinstance(value, bool) for value in array.flat)
