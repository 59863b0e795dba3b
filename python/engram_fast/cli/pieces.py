"""Hashing in pieces: each takes a fraction of a second, so that a bar can move and Ctrl-C stops at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..hash import hash_slice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..hash import NgramHasher
    from .ids import Boundaries

# Bytes of rows in one piece: they stay in a core's cache until they are copied to the file.
_PIECE = 8 << 20


def shape_of_rows(hasher: NgramHasher, shape: tuple[int, ...], layer_axis: int) -> tuple[int, ...]:
    """Return the shape of the rows for ids of a shape."""
    full = [*shape, hasher.layout.columns]
    full.insert(_place(layer_axis, len(full)), len(hasher.layout.layer_ids))
    return tuple(full)


def hash_in_pieces(
    hasher: NgramHasher,
    ids: NDArray[Any],
    boundaries: Boundaries,
    *,
    layer_axis: int,
    dtype: np.dtype[Any],
    **options: Any,
) -> Iterator[tuple[tuple[slice, ...], NDArray[Any], int]]:
    """Yield the place in the result, the rows and the number of tokens of one piece after another.

    The rows are a buffer that the next piece overwrites. `options` are those of `hash_batch`.

    Raises:
        The errors of `hash_batch`. An IndexError gives the place in the piece, not in `ids`.
    """
    token_bytes = len(hasher.layout.layer_ids) * hasher.layout.columns * dtype.itemsize
    buffer = np.empty(0, dtype)
    for index in _places(ids.shape, max(1, _PIECE // token_bytes)):
        halo = min(index[-1].start, hasher.layout.max_order - 1)
        wide = (*index[:-1], slice(index[-1].start - halo, index[-1].stop))
        piece = ids[wide]
        where = boundaries.within(piece, wide)
        new = piece[..., halo:]
        shape = shape_of_rows(hasher, new.shape, layer_axis)
        size = int(np.prod(shape))
        buffer = np.empty(size, dtype) if len(buffer) < size else buffer
        out = buffer[:size].reshape(shape)
        inside = {name: array[..., halo:] for name, array in where.items()}
        if halo:
            before = {f"{name}_before": array[..., :halo] for name, array in where.items()}
            hash_slice(new, hasher, piece[..., :halo], **before, **inside, out=out, layer_axis=layer_axis, **options)
        else:
            hasher.hash_batch(new, out=out, layer_axis=layer_axis, **inside, **options)
        at = [*index, slice(None)]
        at.insert(_place(layer_axis, len(at)), slice(None))
        yield tuple(at), out, new.size


def _place(layer_axis: int, axes: int) -> int:
    """Where the axis of layers is inserted into `axes` others."""
    return layer_axis if layer_axis >= 0 else axes + 1 + layer_axis


def _places(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Cut ids of a shape into runs of whole rows, or into parts of one row, of at most `most` tokens."""
    if 0 in shape:
        return
    length = shape[-1]
    if len(shape) == 2 and length <= most:
        step = most // length
        for start in range(0, shape[0], step):
            yield slice(start, min(start + step, shape[0])), slice(0, length)
        return
    for row in range(shape[0]) if len(shape) == 2 else (None,):
        for start in range(0, length, most):
            columns = slice(start, min(start + most, length))
            yield (columns,) if row is None else (slice(row, row + 1), columns)
