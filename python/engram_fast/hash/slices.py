"""Hash a slice of a sequence by the few tokens before it: context parallelism."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _checks
from ..ids import as_integers

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from .hasher import NgramHasher

__all__ = ["hash_slice"]


def hash_slice(
    ids: ArrayLike,
    hasher: NgramHasher,
    before: ArrayLike | None = None,
    *,
    mask_before: ArrayLike | None = None,
    segment_ids_before: ArrayLike | None = None,
    **options: Any,
) -> NDArray[np.int32] | NDArray[np.int64]:
    """Return the rows of `ids`, a slice of longer sequences, equal to those of hashing the whole sequences.

    For context parallelism: a rank hashes its own tokens, and needs only the last N - 1 tokens of its left neighbour
    (N is ``hasher.layout.max_order``; more do no harm), or fewer if the sequence has fewer.

    Args:
        ids: raw ids `[B, T]` (or `[T]`).
        hasher: the hasher.
        before: the raw ids in front of them, `[B, H]` (or `[H]`), oldest first; None or no columns at the very start.
        mask_before: the mask of `before`, in its shape.
        segment_ids_before: the segment ids of `before`, in its shape; they go with `segment_ids`.
        **options: the options of `NgramHasher.hash_batch` for `ids`, without `cu_seqlens`: segment ids tell the
            documents of a packed sequence apart, on every rank.

    Returns:
        int32 or int64 rows `[L, B, T, C]` (or `[L, T, C]`), as `NgramHasher.hash_batch`.

    Raises:
        ValueError: shapes do not match; there is a mask or there are segment ids without `before`; `cu_seqlens`.
        TypeError: `hasher` is no `NgramHasher`; an array holds no integers.
        IndexError: an id of `ids` or `before` is outside its range.

    >>> import engram_fast as ef
    >>> hasher = ef.NgramHasher(ef.HashLayout.preset("qwen-ple"))
    >>> ids = np.arange(100, 120)
    >>> whole = hasher.hash_batch(ids)
    >>> bool((ef.hash_slice(ids[7:], hasher, ids[5:7]) == whole[:, 7:]).all())
    True
    """
    _checks.hasher(hasher)
    if "cu_seqlens" in options:
        raise ValueError(
            "cu_seqlens: a slice cannot see where the documents of its neighbours end; pass segment_ids instead"
        )
    array = as_integers(ids, "ids", False)
    if array.ndim not in (1, 2):
        raise ValueError(f"ids: expected [T] or [B, T], got the shape {list(array.shape)}")
    if (options.get("segment_ids") is None) != (segment_ids_before is None) and np.size(
        before if before is not None else []
    ):
        raise ValueError("segment_ids_before: goes with segment_ids; pass both or neither")
    if before is None:
        for name, given in (("mask_before", mask_before), ("segment_ids_before", segment_ids_before)):
            if given is not None:
                raise ValueError(f"{name}: goes with before, which is None")
        state = hasher.new_state(1 if array.ndim == 1 else len(array))
    else:
        halo = as_integers(before, "before", False)
        if halo.ndim != array.ndim or halo.shape[:-1] != array.shape[:-1]:
            raise ValueError(
                f"before: expected the dimensions of the ids, {list(array.shape)}, but for the last; "
                f"got the shape {list(halo.shape)}"
            )
        where = {}
        for name, given, bools in (("mask", mask_before, True), ("segment_ids", segment_ids_before, False)):
            if given is None:
                continue
            where[name] = as_integers(given, f"{name}_before", bools)
            if where[name].shape != halo.shape:
                raise ValueError(
                    f"{name}_before: expected the shape of before, {list(halo.shape)}, got {list(where[name].shape)}"
                )
        try:
            state = hasher.seed(halo, **where)
        except IndexError as error:
            raise IndexError(f"before: {error}") from None
    return hasher.peek(array, state, **options)
