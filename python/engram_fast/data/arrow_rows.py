"""Rows as a nested Arrow column: a list of tokens, layers and columns for each example."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

# What the offsets of an Arrow list count to.
MOST = np.iinfo(np.int32).max


def rows_column(starts: np.ndarray, rows: np.ndarray, layer_axis: int, fixed_size: bool) -> Any:
    """Return rows [N, L, C], or [L, N, C] for layer_axis 1, as an Arrow array with a nested list for each example.

    For layer_axis -2 its values are the memory of `rows`.

    Args:
        starts: where each example begins, int64 [examples + 1].
        rows: the rows of all examples, one after another.
        layer_axis: -2: lists [T, L, C]; 1: lists [L, T, C].
        fixed_size: lists of one size for the axes that have one.

    Raises:
        ValueError: an inner list would count more than 2^31 - 1 numbers.
    """
    import pyarrow as pa

    width = rows.shape[-1]
    if layer_axis == -2:
        layers = rows.shape[1]
        inner = _lists(_lists(pa.array(rows.reshape(-1)), width, fixed_size), layers, fixed_size)
        if starts[-1] > MOST:
            return pa.LargeListArray.from_arrays(pa.array(starts), inner)
        return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), inner)
    layers = rows.shape[0]
    ends = np.concatenate([[0], np.cumsum(np.repeat(np.diff(starts), layers))])
    _check_count(int(ends[-1]))
    pieces = [rows[:, start:stop].reshape(-1) for start, stop in itertools.pairwise(starts)]
    values = np.concatenate(pieces) if pieces else rows.reshape(-1)
    tokens = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), _lists(pa.array(values), width, fixed_size))
    return _lists(tokens, layers, fixed_size)


def rows_type(probe: np.ndarray, layer_axis: int, fixed_size: bool) -> Any:
    """Return the Arrow type of `rows_column` for rows [L, …, C]."""
    import pyarrow as pa

    layers, width = (probe.shape[0], probe.shape[-1]) if fixed_size else (-1, -1)
    value = pa.from_numpy_dtype(probe.dtype)
    if layer_axis == -2:
        return pa.list_(pa.list_(pa.list_(value, width), layers))
    return pa.list_(pa.list_(pa.list_(value, width)), layers)


def _lists(values: Any, size: int, fixed_size: bool) -> Any:
    import pyarrow as pa

    if fixed_size:
        return pa.FixedSizeListArray.from_arrays(values, size)
    _check_count(len(values))
    return pa.ListArray.from_arrays(pa.array(np.arange(0, len(values) + 1, size, dtype=np.int32)), values)


def _check_count(count: int) -> None:
    if count > MOST:
        raise ValueError(
            f"the rows of this batch are {count} numbers in one Arrow list, which counts to {MOST}: map smaller "
            "batches (batch_size=), or keep fixed_size=True and layer_axis=-2"
        )
