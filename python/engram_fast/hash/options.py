"""The options of `NgramHasher.hash_batch` and its relatives, as types that other calls pass on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray


class RowOptions(TypedDict, total=False):
    """The rows that a caller wants: the layers, the dtype, with or without offsets; and the number of threads."""

    layers: Sequence[int] | None
    dtype: DTypeLike | None
    add_offsets: bool | None
    num_threads: int | None


class Boundaries(TypedDict, total=False):
    """The places in a batch at which look-back stops; each array has the shape of the ids."""

    mask: ArrayLike | None
    segment_ids: ArrayLike | None


class StepOptions(RowOptions, Boundaries, total=False):
    """The options of `NgramHasher.step` and `NgramHasher.peek`."""

    out: NDArray[Any] | None
    layer_axis: int | None


class HashOptions(StepOptions, total=False):
    """The options of `NgramHasher.hash_batch`."""

    cu_seqlens: ArrayLike | None


class TraceOptions(Boundaries, total=False):
    """The options of `engram_fast.trace.trace`."""

    layers: Sequence[int] | None
    add_offsets: bool | None
    cu_seqlens: ArrayLike | None
