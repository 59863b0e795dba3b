"""A NumPy hasher with the signature of `NgramHasher.hash_batch`: slow, plain, enough to test what surrounds hashing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import ClassVar

import numpy as np


class StandInHasher:
    """Two orders, two heads, layers 1 and 15, vocabulary 1000; the numbers are arbitrary."""

    vocab = 1000
    layout = SimpleNamespace(layer_ids=(1, 15), digest="stand-in")
    multipliers: ClassVar = {
        1: (7593627661414631, 479593001838623, 35633),
        15: (2865651367968763, 5551170510236881, 17),
    }
    moduli: ClassVar = {1: (97, 101, 103, 107), 15: (109, 113, 127, 131)}

    def hash_batch(
        self,
        ids,
        *,
        out=None,
        dtype=None,
        layer_axis=0,
        layers=None,
        add_offsets=None,
        mask=None,
        segment_ids=None,
        cu_seqlens=None,
        num_threads=None,
    ):
        ids = np.asarray(ids)
        if ids.dtype.kind not in "iu":
            raise TypeError(f"ids are {ids.dtype}")
        shape = ids.shape
        ids = ids.astype(np.int64).reshape(1 if len(shape) == 1 else shape[0], shape[-1])
        alive = np.ones(ids.shape, bool) if mask is None else np.asarray(mask, bool).reshape(ids.shape)
        bad = alive & ((ids < 0) | (ids >= self.vocab))
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise IndexError(f"token id {ids[row, column]} at row {row}, column {column} is outside {self.vocab}")
        fresh = np.zeros(ids.shape, bool)
        fresh[:, :1] = True
        if segment_ids is not None:
            numbers = np.asarray(segment_ids).reshape(ids.shape)
            fresh[:, 1:] |= numbers[:, 1:] != numbers[:, :-1]
        if cu_seqlens is not None:
            starts = np.asarray(cu_seqlens)
            if starts[0] != 0 or starts[-1] != ids.shape[1] or (np.diff(starts) < 0).any():
                raise ValueError("cu_seqlens")
            fresh[0, starts[:-1][starts[:-1] < ids.shape[1]]] = True
        run = np.zeros(ids.shape, np.int64)
        for t in range(ids.shape[1]):
            before = np.where(fresh[:, t], 0, run[:, t - 1] if t else 0)
            run[:, t] = np.where(alive[:, t], before + 1, 0)
        window = [np.where(run > k, _shifted(ids, k), 2) for k in range(3)]
        chosen = self.layout.layer_ids if layers is None else layers
        rows = np.stack([self._rows(window, layer) for layer in chosen])
        rows = rows.reshape(len(chosen), *shape, 4)
        if layer_axis == 1 and len(shape) == 1:
            layer_axis = -2
        rows = np.moveaxis(rows, 0, {0: 0, 1: 1, -2: len(shape)}[layer_axis])
        rows = np.ascontiguousarray(rows, dtype or (np.int32 if out is None else out.dtype))
        if out is None:
            return rows
        if out.shape != rows.shape:
            raise ValueError(f"out has shape {out.shape}, the rows {rows.shape}")
        out[...] = rows
        return out

    def _rows(self, window, layer):
        mix, columns = np.zeros_like(window[0]), []
        for order in range(3):
            mix = mix ^ (window[order] * np.int64(self.multipliers[layer][order]))
            if order:
                columns += [mix % p for p in self.moduli[layer][2 * order - 2 : 2 * order]]
        return np.stack(columns, axis=-1)


def _shifted(ids, k):
    shifted = np.zeros_like(ids)
    shifted[:, k:] = ids[:, : ids.shape[1] - k]
    return shifted
