"""The hash in torch operations, for any device: int64 that wraps, floor modulo; bit for bit what the core computes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ..documents import check_cu_seqlens
from .rules import HashRules


def hash_rows(
    ids: Tensor,
    lookup: Tensor | None,
    multipliers: Tensor,
    moduli: Tensor,
    offsets: Tensor | None,
    rules: HashRules,
    *,
    mask: Tensor | None = None,
    segment_ids: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
) -> Tensor:
    """Ids [B, T] to rows [L, B, T, C] int64; multipliers [L, N] (or [L, C, N] of a sum), moduli and offsets [L, C]."""
    if ids.numel() == 0:
        return moduli.new_empty((moduli.shape[0], *ids.shape, rules.columns))
    ids = ids.to(torch.int64)
    alive = None if mask is None else mask != 0
    run = run_lengths(ids, rules, alive, segment_ids, cu_seqlens)
    window = _window(_map_ids(ids, lookup, alive, rules), run, rules)
    mixed = _xor_columns(window, multipliers, rules) if rules.xor else _sum_columns(window, multipliers, rules)
    rows = torch.remainder(mixed, moduli[:, None, None, :])
    return rows if offsets is None else rows + offsets[:, None, None, :]


def run_lengths(
    ids: Tensor,
    rules: HashRules,
    alive: Tensor | None,
    segment_ids: Tensor | None,
    cu_seqlens: Tensor | None,
) -> Tensor:
    """Consecutive reachable tokens that end at each position, itself included; 0 where it is masked. int64 [B, T]."""
    position = torch.arange(ids.shape[1], device=ids.device)
    begins = (position == 0).expand(ids.shape).clone()
    if segment_ids is not None:
        begins[:, 1:] |= segment_ids[:, 1:] != segment_ids[:, :-1]
    if cu_seqlens is not None:
        check_cu_seqlens(cu_seqlens, ids.shape[1])
        begins |= torch.isin(position, cu_seqlens.to(ids.device, torch.int64))
    if rules.boundary_ids:
        begins[:, 1:] |= torch.isin(ids[:, :-1], torch.tensor(rules.boundary_ids, device=ids.device))
    if alive is not None:
        begins[:, 1:] |= ~alive[:, :-1]
    run = position - torch.where(begins, position, 0).cummax(1).values + 1
    return run if alive is None else run * alive


def check_ids(ids: Tensor, alive: Tensor | None, rules: HashRules) -> None:
    """IndexError on the CPU, a device-side assertion elsewhere, for an id outside the range that the layout knows."""
    bad = torch.zeros_like(ids, dtype=torch.bool)
    if rules.negative_is_error:
        bad |= ids < 0
    if rules.too_large_is_error and rules.limit is not None:
        bad |= ids >= rules.limit
    if alive is not None:
        bad &= alive
    if ids.device.type != "cpu":
        torch._assert_async(~bad.any())
    elif bool(bad.any()):
        row, column = bad.nonzero()[0].tolist()
        limit = "no limit" if rules.limit is None else f"{rules.limit} ids"
        raise IndexError(
            f"token id {int(ids[row, column])} at row {row}, column {column} is outside the range of {limit}"
        )


def _map_ids(ids: Tensor, lookup: Tensor | None, alive: Tensor | None, rules: HashRules) -> Tensor:
    check_ids(ids, alive, rules)
    if lookup is None:
        return ids
    known = (ids >= 0) & (ids < lookup.shape[0])
    return torch.where(known, lookup[torch.where(known, ids, 0)].to(torch.int64), ids)


def _window(ids: Tensor, run: Tensor, rules: HashRules) -> list[Tensor]:
    """The value at each look-back, [B, T] each; what cannot be reached reads the fill."""
    window = []
    for back in range(rules.window):
        shifted = F.pad(ids, (back, 0))[:, : ids.shape[1]]
        window.append(torch.where(run > back, shifted, rules.fill))
    return window


def _wrap(value: Tensor, rules: HashRules) -> Tensor:
    """To a word of the layout's width; int64 wraps by itself."""
    return value if rules.word_bits == 64 else ((value + 2**31) & (2**32 - 1)) - 2**31


def _xor_columns(window: list[Tensor], multipliers: Tensor, rules: HashRules) -> Tensor:
    """Products joined by XOR, one value per order, spread over the columns: [L, B, T, C]."""
    ordered = window[::-1] if rules.oldest_first else window
    mixed, mix = {}, None
    for index, value in enumerate(ordered):
        product = _wrap(value * multipliers[:, index, None, None], rules)
        mix = product if mix is None else mix ^ product
        mixed[index + 1] = mix
    return torch.stack([mixed[rules.orders[rules.order_of(column)]] for column in range(rules.columns)], -1)


def _sum_columns(window: list[Tensor], multipliers: Tensor, rules: HashRules) -> Tensor:
    """Products added up, with coefficients of each column: [L, B, T, C]."""
    total: Tensor | None = None
    for back, value in enumerate(window):
        product = _wrap(value[..., None] * multipliers[:, None, None, :, back], rules)
        total = product if total is None else _wrap(total + product, rules)
    assert total is not None  # a window holds one token at least
    return total
