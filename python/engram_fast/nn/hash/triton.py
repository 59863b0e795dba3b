"""The hash as a Triton kernel for CUDA: bit for bit ``hash.formula``, its oracle; imported only where wanted."""

# No `from __future__ import annotations`: Triton 3.0's interpreter reads constexpr from real annotations.
import torch
import triton
import triton.language as tl
from torch import Tensor

from .formula import check_ids, run_lengths
from .rules import HashRules

BLOCK = 128  # tokens of one program


@triton.jit
def _look_back(ids, lookup, token, reach, back, fill, lookup_size, HAS_LOOKUP: tl.constexpr):
    """The compressed id ``back`` positions before each token; the fill where it cannot be reached."""
    inside = reach > back
    value = tl.load(ids + token - back, mask=inside, other=0)
    if HAS_LOOKUP:
        known = inside & (value >= 0) & (value < lookup_size)
        value = tl.where(known, tl.load(lookup + value, mask=known, other=0).to(tl.int64), value)
    return tl.where(inside, value, fill)


@triton.jit
def _wrap(value, WRAP: tl.constexpr):
    """The low 32 bits, sign-extended, where the layout's words have 32."""
    if WRAP:
        value = (value << 32) >> 32
    return value


@triton.jit
def _store_row(rows, moduli, offsets, place, layer, column, columns, mix, valid, HAS_OFFSETS: tl.constexpr):
    modulus = tl.load(moduli + layer * columns + column)
    row = mix % modulus  # of the sign of mix
    row = tl.where(row < 0, row + modulus, row)
    if HAS_OFFSETS:
        row += tl.load(offsets + layer * columns + column)
    tl.store(rows + place * columns + column, row, mask=valid)


@triton.jit
def _xor_kernel(
    ids,
    run,
    lookup,
    multipliers,
    moduli,
    offsets,
    column_orders,
    rows,
    count,
    columns,
    fill,
    lookup_size,
    WINDOW: tl.constexpr,
    OLDEST: tl.constexpr,
    WRAP: tl.constexpr,
    HAS_LOOKUP: tl.constexpr,
    HAS_OFFSETS: tl.constexpr,
    TOKENS: tl.constexpr,
):
    layer = tl.program_id(1).to(tl.int64)
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    valid = token < count
    reach = tl.load(run + token, mask=valid, other=0)
    mix = tl.zeros([TOKENS], tl.int64)
    for index in tl.static_range(WINDOW):
        back = WINDOW - 1 - index if OLDEST else index
        value = _look_back(ids, lookup, token, reach, back, fill, lookup_size, HAS_LOOKUP)
        mix = mix ^ _wrap(value * tl.load(multipliers + layer * WINDOW + index), WRAP)
        for column in range(columns):
            if tl.load(column_orders + column) == index + 1:
                _store_row(
                    rows, moduli, offsets, layer * count + token, layer, column, columns, mix, valid, HAS_OFFSETS
                )


@triton.jit
def _sum_kernel(
    ids,
    run,
    lookup,
    multipliers,
    moduli,
    offsets,
    rows,
    count,
    columns,
    fill,
    lookup_size,
    WINDOW: tl.constexpr,
    WRAP: tl.constexpr,
    HAS_LOOKUP: tl.constexpr,
    HAS_OFFSETS: tl.constexpr,
    TOKENS: tl.constexpr,
):
    layer = tl.program_id(1).to(tl.int64)
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    valid = token < count
    reach = tl.load(run + token, mask=valid, other=0)
    for column in range(columns):
        total = tl.zeros([TOKENS], tl.int64)
        for back in tl.static_range(WINDOW):
            value = _look_back(ids, lookup, token, reach, back, fill, lookup_size, HAS_LOOKUP)
            factor = tl.load(multipliers + (layer * columns + column) * WINDOW + back)
            total = _wrap(total + _wrap(value * factor, WRAP), WRAP)
        _store_row(rows, moduli, offsets, layer * count + token, layer, column, columns, total, valid, HAS_OFFSETS)


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
    """As ``hash.formula.hash_rows``: ids [B, T] to rows [L, B, T, C] int64."""
    layers, columns = moduli.shape
    rows = torch.empty((layers, *ids.shape, columns), dtype=torch.int64, device=ids.device)
    count = ids.numel()
    if count == 0:
        return rows
    ids = ids.to(torch.int64).contiguous()
    alive = None if mask is None else mask != 0
    check_ids(ids, alive, rules)
    run = run_lengths(ids, rules, alive, segment_ids, cu_seqlens).contiguous()
    known = 0 if lookup is None else lookup.shape[0]
    tensors = [multipliers.contiguous(), moduli.contiguous(), moduli if offsets is None else offsets.contiguous()]
    options = {
        "WINDOW": rules.window,
        "WRAP": rules.word_bits == 32,
        "HAS_LOOKUP": lookup is not None,
        "HAS_OFFSETS": offsets is not None,
        "TOKENS": BLOCK,
    }
    grid = (triton.cdiv(count, BLOCK), layers)
    inputs = (ids, run, ids if lookup is None else lookup, *tensors)
    if rules.xor:
        orders = [rules.orders[rules.order_of(column)] for column in range(columns)]
        column_orders = torch.tensor(orders, dtype=torch.int32, device=ids.device)
        sizes = (count, columns, rules.fill, known)
        _xor_kernel[grid](*inputs, column_orders, rows, *sizes, OLDEST=rules.oldest_first, **options)
    else:
        _sum_kernel[grid](*inputs, rows, count, columns, rules.fill, known, **options)
    return rows
