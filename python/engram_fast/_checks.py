"""Argument checks: a wrong type is a TypeError, a wrong value a ValueError, under the name that the caller used."""

from __future__ import annotations

import math
import numbers
from typing import Any, TypeVar

import numpy as np

from . import _core

INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1

_Hasher = TypeVar("_Hasher")


def shown(value: Any) -> str:
    """Return the value as text for a message, at most 80 characters whatever it is."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, (int, float, str, type(None), np.generic)):
        text = repr(value.item() if isinstance(value, np.generic) else value)
        return text if len(text) <= 80 else text[:77] + "..."
    return f"a {type(value).__name__}"


def is_list(value: Any) -> bool:
    """Return whether `value` holds several numbers: a list, tuple or range, or an array or tensor with an axis."""
    return isinstance(value, (list, tuple, range)) or bool(getattr(value, "shape", ()))


def integer(field: str, value: Any, low: int, high: int = INT64_MAX) -> int:
    """Return `value` as int, at least `low` and at most `high`.

    NumPy's integers are integers, and so are arrays and tensors of integers without an axis; bool and float are not.

    Raises:
        TypeError: `value` is no integer.
        ValueError: it is below `low` or above `high`.
    """
    if not isinstance(value, numbers.Integral) and hasattr(value, "dtype") and getattr(value, "shape", None) == ():
        array = host_array(field, value)
        value = array[()] if array.dtype.kind in "iub" else value
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{field}: expected an integer, got {shown(value)} ({type(value).__name__})")
    number = int(value)
    if number < low:
        raise ValueError(f"{field}: {shown(number)} is below {low}")
    if number > high:
        raise ValueError(f"{field}: {shown(number)} is above {high}")
    return number


def integers(field: str, value: Any, low: int, high: int = INT64_MAX, most: int = 4096) -> list[int]:
    """Return `value` as a new list of int, at most `most` of them.

    Takes a list, tuple or range, and an integer array or CPU tensor of one axis.

    Raises:
        TypeError: `value` is no list of integers, or a tensor that is not in host memory.
        ValueError: an integer is below `low` or above `high` (the message has its index), or there are too many.
    """
    if not isinstance(value, (list, tuple, range)):
        if not (hasattr(value, "dtype") and hasattr(value, "shape")):
            raise TypeError(f"{field}: expected a list of integers, got {shown(value)} ({type(value).__name__})")
        value = host_array(field, value)
        if value.ndim != 1 or value.dtype.kind not in "iu":
            kind = f"an array of {value.ndim} dimensions and dtype {value.dtype}"
            raise TypeError(f"{field}: expected a list of integers, got {kind}")
    if len(value) > most:
        raise ValueError(f"{field}: {len(value)} numbers are more than {most}")
    return [integer(f"{field}[{index}]", item, low, high) for index, item in enumerate(value)]


def host_array(field: str, value: Any) -> np.ndarray:
    """Return an array or tensor as an ndarray of the base class; TypeError if it is not in host memory."""
    device = getattr(value, "device", "cpu")
    if getattr(device, "type", device) != "cpu":
        raise TypeError(f"{field}: the tensor is on {device}; move it to the CPU first")
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise TypeError(f"{field}: expected integers, got a {type(value).__name__}: {error}") from None


def boolean(field: str, value: Any) -> bool:
    """Return `value` as bool; 0 and 1 are a TypeError."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{field}: expected True or False, got {shown(value)} ({type(value).__name__})")
    return bool(value)


def positive_number(field: str, value: Any) -> int | float:
    """Return `value` as int or float; TypeError if it is no number, ValueError unless it is finite and above 0."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{field}: expected a number, got {shown(value)} ({type(value).__name__})")
    number = int(value) if isinstance(value, numbers.Integral) else float(value)
    if not (number > 0 and (isinstance(number, int) or math.isfinite(number))):
        raise ValueError(f"{field}: {shown(number)} is not above 0 and finite")
    return number


def hasher(value: _Hasher) -> _Hasher:
    """Return `value` itself; TypeError unless it is an `NgramHasher`."""
    if not isinstance(value, _core.Hasher):
        raise TypeError(f"hasher: expected an NgramHasher, got {type(value).__name__}")
    return value


def text(field: str, value: Any) -> str:
    """Return `value`, a string; TypeError for another type, ValueError if it is empty."""
    if not isinstance(value, str):
        raise TypeError(f"{field}: expected a string, got {shown(value)} ({type(value).__name__})")
    if not value:
        raise ValueError(f"{field}: the string is empty")
    return value


def choice(field: str, value: Any, accepted: tuple[str, ...]) -> str:
    """Return `value`, one of the `accepted` words; ValueError lists them."""
    if not isinstance(value, str):
        raise TypeError(f"{field}: expected a string, got {shown(value)} ({type(value).__name__})")
    if value not in accepted:
        raise ValueError(f"{field}: {shown(value)} is not one of {', '.join(accepted)}")
    return value


def distinct_layers(field: str, value: Any) -> list[int]:
    """Return layer ids in the caller's order; ValueError if there is none, one is negative or one occurs twice."""
    layers = integers(field, value, 0)
    if not layers:
        raise ValueError(f"{field}: no layers")
    seen: set[int] = set()
    for layer in layers:
        if layer in seen:
            raise ValueError(f"{field}: layer {layer} occurs twice")
        seen.add(layer)
    return layers
