"""Row numbers become table rows: per-head range check and offsets, as one torch operator that graphs keep."""

# No `from __future__ import annotations`: torch 2.4 reads an operator's schema from real annotations.
from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("engram_fast::table_rows", mutates_args=())
def table_rows(rows: Tensor, sizes: Tensor, offsets: Tensor, have_offsets: bool) -> Tensor:
    """Rows [..., C] of C heads, int32 or int64, to int64 rows of the one table that holds all heads.

    ``have_offsets``: the rows count from the start of the table already. A row outside its own head's part is an
    IndexError on the CPU, and a device-side assertion elsewhere (a message would wait for the device).
    """
    first, past = (offsets, offsets + sizes) if have_offsets else (torch.zeros_like(sizes), sizes)
    if rows.device.type != "cpu":
        torch._assert_async(((rows >= first) & (rows < past)).all())
    elif rows.numel():
        low, high = torch.aminmax(rows.reshape(-1, rows.shape[-1]), dim=0)
        if bool(((low < first) | (high >= past)).any()):
            _raise_first_bad(rows, first, past)
    # A copy in any case: an operator's result may not share memory with its arguments.
    return rows.to(torch.int64, copy=True) if have_offsets else rows.to(torch.int64) + offsets


@table_rows.register_fake
def _(rows: Tensor, sizes: Tensor, offsets: Tensor, have_offsets: bool) -> Tensor:
    return torch.empty_like(rows, dtype=torch.int64, memory_format=torch.contiguous_format)


def check_rows(rows: Any, heads: int) -> Tensor:
    """A tensor of row numbers with ``heads`` columns, or the error that says what came instead."""
    if rows is None:
        raise TypeError("rows is None: pass the row numbers of this layer, or input_ids with a hasher")
    if not isinstance(rows, Tensor):
        rows = torch.as_tensor(rows)
    if rows.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"row numbers must be int32 or int64, not {rows.dtype}")
    if rows.ndim < 1 or rows.shape[-1] != heads:
        raise ValueError(f"rows has shape {tuple(rows.shape)}, the last axis must be the {heads} heads")
    return rows


def _raise_first_bad(rows: Tensor, first: Tensor, past: Tensor) -> None:
    place = ((rows < first) | (rows >= past)).nonzero()[0].tolist()
    head, value = place[-1], int(rows[tuple(place)])
    raise IndexError(
        f"row {value} at position {tuple(place[:-1])} of head {head} is outside the head's "
        f"{int(past[head] - first[head])} rows [{int(first[head])}, {int(past[head])})"
    )
