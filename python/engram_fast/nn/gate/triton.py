"""The gate's forward and backward as Triton kernels for CUDA; ``formula.gate`` is their oracle."""

# No `from __future__ import annotations`: Triton 3.0's interpreter reads constexpr from real annotations.
import math

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from .formula import GATE_FLOOR

ROWS = 16  # tokens of one program of the backward, which sums the weight's gradient over them


@triton.jit
def _forward_kernel(
    hidden,
    keys,
    weight,
    gates,
    products,
    hidden_scales,
    key_scales,
    hidden_stride,
    key_stride,
    width,
    root_width,
    eps,
    floor,
    BRANCHES: tl.constexpr,
    ZERO_IS_POSITIVE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One token and branch: gate, product and the two scales [N, M]."""
    token, branch = tl.program_id(0).to(tl.int64), tl.program_id(1)
    channel = tl.arange(0, BLOCK)
    inside = channel < width
    h = tl.load(hidden + token * hidden_stride + branch * width + channel, mask=inside, other=0.0).to(tl.float32)
    k = tl.load(keys + token * key_stride + branch * width + channel, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(weight + branch * width + channel, mask=inside, other=0.0)
    hidden_scale = 1.0 / tl.sqrt(tl.sum(h * h, 0) / width + eps)
    key_scale = 1.0 / tl.sqrt(tl.sum(k * k, 0) / width + eps)
    product = tl.sum(h * w * k, 0)
    score = product * hidden_scale * key_scale / root_width
    root = tl.sqrt(tl.maximum(tl.abs(score), floor))
    if ZERO_IS_POSITIVE:
        signed = tl.where(score < 0, -root, root)
    else:
        signed = tl.where(score < 0, -root, tl.where(score > 0, root, 0.0))
    place = token * BRANCHES + branch
    tl.store(gates + place, 1.0 / (1.0 + tl.exp(-signed)))
    tl.store(products + place, product)
    tl.store(hidden_scales + place, hidden_scale)
    tl.store(key_scales + place, key_scale)


@triton.jit
def _backward_kernel(
    grad_gate,
    hidden,
    keys,
    weight,
    gates,
    products,
    hidden_scales,
    key_scales,
    grad_hidden,
    grad_keys,
    grad_weight,
    count,
    hidden_stride,
    key_stride,
    width,
    root_width,
    floor,
    BRANCHES: tl.constexpr,
    TOKENS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """TOKENS tokens of one branch: their gradients, and their share of the weight's in grad_weight [.., M, D]."""
    program, branch = tl.program_id(0).to(tl.int64), tl.program_id(1)
    channel = tl.arange(0, BLOCK)
    inside = channel < width
    w = tl.load(weight + branch * width + channel, mask=inside, other=0.0)
    share = tl.zeros([BLOCK], tl.float32)
    for row in range(tl.minimum(TOKENS, count - program * TOKENS)):
        token = program * TOKENS + row
        place = token * BRANCHES + branch
        gate = tl.load(gates + place)
        product = tl.load(products + place)
        hidden_scale = tl.load(hidden_scales + place)
        key_scale = tl.load(key_scales + place)
        upstream = tl.load(grad_gate + place)
        h = tl.load(hidden + token * hidden_stride + branch * width + channel, mask=inside, other=0.0).to(tl.float32)
        k = tl.load(keys + token * key_stride + branch * width + channel, mask=inside, other=0.0).to(tl.float32)
        scale = hidden_scale * key_scale / root_width
        size = tl.abs(product * scale)
        slope = tl.where(size >= floor, 0.5 / tl.sqrt(tl.maximum(size, floor)), 0.0)
        outer = upstream * gate * (1.0 - gate) * slope * scale
        inner = outer * product / width
        out = place * width + channel
        tl.store(grad_hidden + out, k * w * outer - h * (inner * hidden_scale * hidden_scale), mask=inside)
        tl.store(grad_keys + out, h * w * outer - k * (inner * key_scale * key_scale), mask=inside)
        share += h * k * outer
    tl.store(grad_weight + (program * BRANCHES + branch) * width + channel, share, mask=inside)


class TritonGate(torch.autograd.Function):
    """(hidden [N,M,D], keys [N,M,D], weight [M,D]) -> gate [N,M] float32; as ``fused.Gate``, not for float64."""

    @staticmethod
    def forward(ctx, hidden, keys, weight, eps, zero_is_positive):
        hidden, keys, weight = _rows(hidden), _rows(keys), weight.float().contiguous()
        count, branches, width = hidden.shape
        numbers = torch.empty((4, count, branches), dtype=torch.float32, device=hidden.device)
        if count:
            _forward_kernel[(count, branches)](
                hidden,
                keys,
                weight,
                *numbers,
                hidden.stride(0),
                keys.stride(0),
                width,
                math.sqrt(width),
                eps,
                GATE_FLOOR,
                BRANCHES=branches,
                ZERO_IS_POSITIVE=zero_is_positive,
                BLOCK=triton.next_power_of_2(width),
            )
        ctx.save_for_backward(hidden, keys, weight, numbers)
        return numbers[0].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_gate):
        hidden, keys, weight, numbers = ctx.saved_tensors
        count, branches, width = hidden.shape
        grad_hidden = torch.empty((count, branches, width), dtype=hidden.dtype, device=hidden.device)
        grad_keys = torch.empty((count, branches, width), dtype=keys.dtype, device=hidden.device)
        programs = triton.cdiv(count, ROWS)
        shares = torch.zeros((programs, branches, width), dtype=torch.float32, device=hidden.device)
        if count:
            _backward_kernel[(programs, branches)](
                grad_gate.float().contiguous(),
                hidden,
                keys,
                weight,
                *numbers,
                grad_hidden,
                grad_keys,
                shares,
                count,
                hidden.stride(0),
                keys.stride(0),
                width,
                math.sqrt(width),
                GATE_FLOOR,
                BRANCHES=branches,
                TOKENS=ROWS,
                BLOCK=triton.next_power_of_2(width),
            )
        return grad_hidden, grad_keys, shares.sum(0), None, None


def _rows(tensor: Tensor) -> Tensor:
    """The last two axes dense; tokens may lie apart (keys are a part of a wider product)."""
    return tensor if tensor.stride()[1:] == (tensor.shape[2], 1) else tensor.contiguous()
