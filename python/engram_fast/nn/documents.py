"""The shapes of hidden states, which of their tokens take part, and how far each token may look back."""

from __future__ import annotations

from itertools import pairwise
from typing import overload

import torch
from torch import Tensor

NO_LIMIT = 2**31 - 1


def look_back_limit(
    batch: int,
    length: int,
    *,
    segment_ids: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    last_segment: Tensor | None = None,
    device: torch.device | None = None,
) -> Tensor | None:
    """Tokens of the position's document up to and with itself, int64 [B, T]; NO_LIMIT where it began before this row.

    ``last_segment`` [B] is the segment id before the first position. None when nothing limits.
    """
    if segment_ids is None and cu_seqlens is None:
        return None
    if segment_ids is not None and cu_seqlens is not None:
        raise ValueError("segment_ids and cu_seqlens are both given; one is enough")
    position = torch.arange(length, device=device).expand(batch, length)
    if cu_seqlens is not None:
        if batch != 1:
            raise ValueError(f"cu_seqlens needs one flat row of tokens; got a batch of {batch} rows")
        check_cu_seqlens(cu_seqlens, length)
        cu_seqlens = cu_seqlens.to(device=device, dtype=torch.int64)
        start = cu_seqlens[torch.searchsorted(cu_seqlens, position[0].contiguous(), right=True) - 1][None]
        first = torch.full((1, 1), 0, device=device)
    else:
        assert segment_ids is not None
        segment_ids = to_shape("segment_ids", segment_ids, torch.Size((batch, length)))
        before = segment_ids.roll(1, 1)
        first_before = segment_ids[:, :1] if last_segment is None else last_segment.to(segment_ids)[:, None]
        before = torch.where(position == 0, first_before, before)
        start = torch.where(segment_ids != before, position, -1).cummax(1).values if length > 0 else position
        first = torch.full((1, 1), -1, device=device)
    # A document that begins at the row's start has zeros before it: no limit is needed, and none is wanted for a state.
    return torch.where(start > first, position - start + 1, NO_LIMIT)


def with_branches(name: str, x: Tensor, branches: int, width: int) -> Tensor:
    """Return x [B, T, M, D], or x [B, T, D] of one branch as [B, T, 1, D]; another shape is a ValueError."""
    if x.ndim == 3 and branches == 1:
        x = x.unsqueeze(2)
    if x.ndim != 4 or x.shape[2:] != (branches, width):
        expected = f"[B, T, {branches}, {width}]" + (f" or [B, T, {width}]" if branches == 1 else "")
        raise ValueError(f"{name} has shape {tuple(x.shape)}, expected {expected}")
    return x


@overload
def to_shape(name: str, tensor: Tensor, shape: torch.Size) -> Tensor: ...
@overload
def to_shape(name: str, tensor: Tensor | None, shape: torch.Size) -> Tensor | None: ...
def to_shape(name: str, tensor: Tensor | None, shape: torch.Size) -> Tensor | None:
    """Return `tensor` in the tokens' shape, from which it may differ by leading axes of length 1; else ValueError."""
    if tensor is None or tensor.shape == shape:
        return tensor
    if _without_leading_ones(tensor.shape) != _without_leading_ones(shape):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, the tokens have {tuple(shape)}")
    return tensor.reshape(shape)


def as_mask(mask: Tensor | None, shape: torch.Size) -> Tensor | None:
    """Return a mask of the tokens' shape, bool or 0 and 1, as bool.

    Raises:
        TypeError: the mask holds floating-point numbers.
        ValueError: it has another shape (see `to_shape`).
    """
    mask = to_shape("mask", mask, shape)
    if mask is None:
        return None
    if mask.dtype.is_floating_point or mask.dtype.is_complex:
        raise TypeError(f"mask must be bool or 0 and 1, not {mask.dtype}")
    return mask.to(torch.bool)


def _without_leading_ones(shape: torch.Size) -> tuple[int, ...]:
    sizes = tuple(shape)
    while len(sizes) > 1 and sizes[0] == 1:
        sizes = sizes[1:]
    return sizes


def check_cu_seqlens(cu_seqlens: Tensor, length: int) -> None:
    """Begins with 0, never falls, ends with the number of tokens; else ValueError, and a device-side assertion on CUDA.

    Not looked at in a traced graph.
    """
    if cu_seqlens.dtype.is_floating_point or cu_seqlens.dtype == torch.bool:
        raise TypeError(f"cu_seqlens must be integers, not {cu_seqlens.dtype}")
    if cu_seqlens.ndim != 1 or not cu_seqlens.numel():
        raise ValueError(f"cu_seqlens must be one axis that begins with 0, its shape is {tuple(cu_seqlens.shape)}")
    if torch.compiler.is_compiling():
        return
    if cu_seqlens.is_cuda:
        ends_fit = (cu_seqlens[0] == 0) & (cu_seqlens[-1] == length)
        torch._assert_async(ends_fit & (cu_seqlens[1:] >= cu_seqlens[:-1]).all())
    if cu_seqlens.device.type != "cpu":
        return
    ends = cu_seqlens.tolist()
    if ends[0] != 0:
        raise ValueError(f"cu_seqlens begins with {ends[0]}, not with 0")
    for place, (left, right) in enumerate(pairwise(ends)):
        if right < left:
            raise ValueError(f"cu_seqlens falls from {left} to {right} at entry {place + 1}")
    if ends[-1] != length:
        raise ValueError(f"cu_seqlens ends with {ends[-1]}, there are {length} tokens")
