"""Lengths of documents, added up or not: their one check, and the segment numbers that they stand for."""

from __future__ import annotations

import numpy as np


def check_bounds(bounds: np.ndarray, length: int, name: str) -> None:
    """Refuse cumulative lengths that do not divide exactly `length` tokens; messages call them `name`.

    Raises:
        TypeError: they are no integers.
        ValueError: they are not [documents + 1], do not run from 0 to `length`, or fall.
    """
    if bounds.dtype.kind not in "iu":
        raise TypeError(f"{name} holds {bounds.dtype}; it must hold integers")
    if bounds.ndim != 1 or len(bounds) == 0:
        raise ValueError(f"{name} has shape {list(bounds.shape)}; it must be [documents + 1]")
    if bounds[0] != 0 or bounds[-1] != length:
        raise ValueError(f"{name} runs from {bounds[0]} to {bounds[-1]}; it must run from 0 to {length}")
    falls = bounds[1:] < bounds[:-1]
    if falls.any():
        at = int(np.argmax(falls))
        raise ValueError(f"{name} falls from {bounds[at]} to {bounds[at + 1]} after entry {at}")


def without_padding(bounds: np.ndarray) -> np.ndarray:
    """Return cumulative lengths without the -1 at their end: NeMo pads them so."""
    if bounds.dtype.kind != "i" or len(bounds) == 0 or bounds[-1] != -1:
        return bounds
    return bounds[: len(bounds) - int(np.argmax(bounds[::-1] != -1))]


def segments_of_bounds(bounds: np.ndarray, length: int, name: str) -> np.ndarray:
    """Return segment numbers (int32 [length], from 0) from cumulative lengths."""
    check_bounds(bounds, length, name)
    signed = bounds.astype(np.int64)
    return np.repeat(np.arange(len(bounds) - 1, dtype=np.int32), signed[1:] - signed[:-1])


def segments_of_lengths(lengths: np.ndarray, length: int, name: str) -> np.ndarray:
    """Return segment numbers (int32 [length], from 0) from the lengths of documents; zeros are padding of theirs.

    Raises:
        TypeError: they are no integers.
        ValueError: one is negative, or their sum is not `length`.
    """
    if lengths.dtype.kind not in "iu":
        raise TypeError(f"{name} holds {lengths.dtype}; it must hold integers")
    if lengths.dtype.kind == "i" and (lengths < 0).any():
        at = int(np.argmax(lengths < 0))
        raise ValueError(f"{name} holds the length {lengths[at]} at entry {at}")
    total = sum(lengths.tolist())
    if total != length:
        raise ValueError(f"{name} adds up to {total}; it must add up to {length}, the number of tokens")
    return np.repeat(np.arange(len(lengths), dtype=np.int32), lengths.astype(np.int64))
