"""Where look-backs stop in a batch: read from the keys that collate functions write.

Explicit segment numbers come before sequence lengths, those before positions; a mask is used in every case. Nothing is
guessed from a pad id: a real token may be equal to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..context import segments_from_position_ids
from .files.tokens import check_bounds

SEGMENTS = ("segment_ids", "seq_idx")
LENGTHS = ("cu_seqlens", "cu_seqlens_q", "cu_seq_lens", "cu_seq_lens_q")
POSITIONS = ("position_ids",)
MASK = "attention_mask"
KEYS = (*SEGMENTS, *LENGTHS, *POSITIONS, MASK)


def as_array(value: Any) -> np.ndarray:
    """Return a NumPy view of a tensor (a copy, if it lies on a device), or the array of anything else."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value)


def boundaries_of(batch: Mapping[str, Any], shape: tuple[int, ...], ignore: Sequence[str] = ()) -> dict[str, Any]:
    """`mask` and `segment_ids` for `hash_batch`, each in the shape of the ids and only where the batch tells it."""
    batch = {key: batch[key] for key in KEYS if key in batch and key not in ignore}
    where: dict[str, Any] = {}
    segments = _segments(batch, shape)
    mask = batch.get(MASK)
    if mask is not None:
        mask = _of_shape(as_array(mask), shape, MASK)
        if mask.dtype != bool:
            _check_mask(mask)
            if segments is None and mask.size and mask.max() > 1:
                segments = mask.astype(np.int64)  # some packing collators number the samples in the mask itself
            mask = mask != 0
        where["mask"] = mask
    if segments is not None:
        where["segment_ids"] = segments
    return where


def _segments(batch: Mapping[str, Any], shape: tuple[int, ...]) -> np.ndarray | None:
    for key in SEGMENTS:
        if batch.get(key) is not None:
            return _of_shape(as_array(batch[key]), shape, key)
    for key in LENGTHS:
        if batch.get(key) is not None:
            return segments_of_lengths(as_array(batch[key]), shape, key)
    for key in POSITIONS:
        if batch.get(key) is not None:
            return segments_from_position_ids(_of_shape(as_array(batch[key]), shape, key))
    return None


def segments_of_lengths(cumulative: np.ndarray, shape: tuple[int, ...], key: str = "cu_seqlens") -> np.ndarray:
    """Segment numbers from cumulative lengths over all rows, one after another."""
    bounds = cumulative.reshape(-1)
    check_bounds(bounds, int(np.prod(shape)), key)
    lengths: np.ndarray = np.diff(bounds.astype(np.int64))
    return np.repeat(np.arange(len(bounds) - 1, dtype=np.int32), lengths).reshape(shape)


def _of_shape(array: np.ndarray, shape: tuple[int, ...], key: str) -> np.ndarray:
    if array.shape == shape:
        return array
    # One row shared by all (position ids), or a flat batch whose ids got a leading 1 (or the reverse).
    if array.shape[-1:] == shape[-1:] and (array.ndim < len(shape) or array.shape[0] == 1) and array.ndim <= len(shape):
        return np.ascontiguousarray(np.broadcast_to(array, shape))
    if array.size == int(np.prod(shape)) and max(array.shape, default=0) == max(shape, default=0):
        return array.reshape(shape)
    raise ValueError(
        f"{key} has shape {list(array.shape)}, and the ids {list(shape)}: boundaries are read per token; "
        f"add segment_ids of the shape of the ids, or ignore=({key!r},)"
    )


def _check_mask(mask: np.ndarray) -> None:
    if mask.dtype.kind not in "iuf":
        raise TypeError(f"{MASK} holds {mask.dtype}; it must be bool or 0 and 1")
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
        raise ValueError(f"{MASK} holds {mask[at]} at {[int(i) for i in at]}; {rule}")
