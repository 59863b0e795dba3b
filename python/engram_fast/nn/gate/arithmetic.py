"""The gate's forward and backward on a block of tokens, by hand: float32 (or float64) whatever the inputs' dtype."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .formula import GATE_FLOOR


class GateBlock(NamedTuple):
    """A block's gate and the three numbers per token and branch that its backward needs; all [..., M]."""

    gate: Tensor
    product: Tensor  # sum of hidden * weight * key
    hidden_scale: Tensor  # 1 / root mean square
    key_scale: Tensor


def forward(hidden: Tensor, keys: Tensor, weight: Tensor, eps: float, zero_is_positive: bool) -> GateBlock:
    """hidden, keys [..., M, D] and weight [M, D] in the accumulation dtype."""
    width = hidden.shape[-1]
    hidden_scale = torch.rsqrt(torch.linalg.vector_norm(hidden, dim=-1).square_().div_(width).add_(eps))
    key_scale = torch.rsqrt(torch.linalg.vector_norm(keys, dim=-1).square_().div_(width).add_(eps))
    # In the published order: where the terms cancel, another rounding of them is off by more than the goldens' bound.
    product = (hidden * weight).mul_(keys).sum(-1)
    score = product * hidden_scale * key_scale / math.sqrt(width)
    root = score.abs().clamp_min_(GATE_FLOOR).sqrt_()
    signed = torch.copysign(root, score) if zero_is_positive else root * score.sign()
    return GateBlock(signed.sigmoid_(), product, hidden_scale, key_scale)


def backward(
    grad_gate: Tensor, block: GateBlock, hidden: Tensor, keys: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of hidden, keys [..., M, D] and of weight [M, D]."""
    gate, product, hidden_scale, key_scale = block
    width = hidden.shape[-1]
    scale = hidden_scale * key_scale / math.sqrt(width)
    magnitude = (product * scale).abs()
    # Below the floor the root is constant: gradient 0, never 0 * inf.
    slope = torch.where(magnitude >= GATE_FLOOR, 0.5 / magnitude.clamp_min(GATE_FLOOR).sqrt(), 0)
    outer = grad_gate * gate * (1 - gate) * slope * scale
    inner = outer * product / width
    crossed = hidden * keys
    grad_weight = crossed.mul_(outer[..., None]).flatten(0, -3).sum(0)
    from_norms = [(inner * part.square())[..., None] for part in (hidden_scale, key_scale)]
    grad_hidden = (keys * weight).mul_(outer[..., None]).addcmul_(hidden, from_norms[0], value=-1)
    grad_keys = (hidden * weight).mul_(outer[..., None]).addcmul_(keys, from_norms[1], value=-1)
    return grad_hidden, grad_keys, grad_weight
