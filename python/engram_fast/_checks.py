"""Argument checks: a wrong type is a TypeError, a wrong value a ValueError, under the name that the caller used."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from . import _core

INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1


def shown(value: Any) -> str:
    """The value for a message, short whatever it is."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, (int, float, str, type(None), np.generic)):
        text = repr(value.item() if isinstance(value, np.generic) else value)
        return text if len(text) <= 80 else text[:77] + "..."
    return f"a {type(value).__name__}"


def integer(field: str, value: Any, low: int, high: int = INT64_MAX) -> int:
    """`value` as int; NumPy integers are integers, bool and float are not."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{field}: expected an integer, got {shown(value)} ({type(value).__name__})")
    number = int(value)
    if number < low:
        raise ValueError(f"{field}: {shown(number)} is below {low}")
    if number > high:
        raise ValueError(f"{field}: {shown(number)} is above {high}")
    return number


def integers(field: str, value: Any, low: int, high: int = INT64_MAX, most: int = 4096) -> list[int]:
    """`value` (list, tuple, range or 1-d integer array) as a new list of int."""
    if isinstance(value, np.ndarray):
        if value.ndim != 1 or value.dtype.kind not in "iu":
            kind = f"an array of {value.ndim} dimensions and dtype {value.dtype}"
            raise TypeError(f"{field}: expected a list of integers, got {kind}")
    elif not isinstance(value, (list, tuple, range)):
        raise TypeError(f"{field}: expected a list of integers, got {shown(value)} ({type(value).__name__})")
    if len(value) > most:
        raise ValueError(f"{field}: {len(value)} numbers are more than {most}")
    return [integer(f"{field}[{index}]", item, low, high) for index, item in enumerate(value)]


def boolean(field: str, value: Any) -> bool:
    """`value` as bool; 0 and 1 are not."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{field}: expected True or False, got {shown(value)} ({type(value).__name__})")
    return bool(value)


def positive_number(field: str, value: Any) -> int | float:
    """`value` as int or float, finite and above 0."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{field}: expected a number, got {shown(value)} ({type(value).__name__})")
    number = int(value) if isinstance(value, numbers.Integral) else float(value)
    if not (number > 0 and (isinstance(number, int) or math.isfinite(number))):
        raise ValueError(f"{field}: {shown(number)} is not above 0 and finite")
    return number


def hasher(value: Any) -> Any:
    """`value` itself, an `NgramHasher`."""
    if not isinstance(value, _core.Hasher):
        raise TypeError(f"hasher: expected an NgramHasher, got {type(value).__name__}")
    return value


def text(field: str, value: Any) -> str:
    """`value` as a non-empty str."""
    if not isinstance(value, str):
        raise TypeError(f"{field}: expected a string, got {shown(value)} ({type(value).__name__})")
    if not value:
        raise ValueError(f"{field}: empty")
    return value


def distinct_layers(field: str, value: Any) -> list[int]:
    """Layer ids: at least one, none negative, none twice; the order is kept."""
    layers = integers(field, value, 0)
    if not layers:
        raise ValueError(f"{field}: no layers")
    seen: set[int] = set()
    for layer in layers:
        if layer in seen:
            raise ValueError(f"{field}: layer {layer} occurs twice")
        seen.add(layer)
    return layers
