"""Gate, value and short convolution of the demo's module as one autograd function over blocks that stay in the cache.

The convolution's input is never stored: the norm of gate*value is gate^2 times the norm of value, so the input is one
number per token and branch times ``value``, and both passes rebuild it block by block. Saved for the backward: the
inputs and six numbers per token and branch. Whole tensors instead of blocks took 1.2 times the processor time (D=1024,
M=4, 512 tokens, Zen 4); blocks a quarter of this size gain 4 % on an idle machine and lose on one where threads wait.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import arithmetic
from .arithmetic import GateBlock
from .formula import accumulate_dtype

BLOCK_ELEMENTS = 64 * 4 * 1024  # of a [n, M, D] block, for each thread: 1 MiB in float32, about L2


class EngramMix(torch.autograd.Function):
    """(hidden [B,T,M,D], projected [B,T,(M+1)D], ...) -> what the module adds [B,T,M,D], gate [B,T,M]."""

    @staticmethod
    def forward(ctx, hidden, projected, gate_weight, conv, limit, mask, eps, conv_eps, dilation):
        dtype = accumulate_dtype(hidden, projected, gate_weight, conv)
        gate_weight, conv = gate_weight.to(dtype), conv.to(dtype).permute(2, 0, 1).contiguous()  # [K, M, D]
        batch, length, branches, width = hidden.shape
        out = torch.empty_like(hidden, memory_format=torch.contiguous_format)
        numbers = hidden.new_empty((4, batch, length, branches), dtype=dtype)
        mean_square = hidden.new_empty((batch, length), dtype=dtype)
        for rows, span in _blocks(hidden):
            here = rows, span
            keys, value = _split(projected[here], branches, dtype)
            block_hidden = _masked(hidden[here], mask, here).to(dtype)
            block = arithmetic.forward(block_hidden, keys, gate_weight, eps, False)
            if mask is not None:
                block.gate.mul_(mask[here][..., None])
            for number, part in zip(numbers, block, strict=True):
                number[here] = part
            mean_square[here] = torch.linalg.vector_norm(value, dim=-1).square_().div_(width)
        gate = numbers[0]
        scale = gate * torch.rsqrt(gate.square() * mean_square[..., None] + conv_eps)
        for rows, span in _blocks(hidden):
            here = rows, span
            value, source = _conv_input(projected, scale, rows, span, conv.shape[0], dilation, dtype)
            mixed = _convolve(source, conv, dilation, limit, here)
            mixed = mixed.mul_(torch.sigmoid(mixed)).addcmul_(value[:, :, None], gate[here][..., None])
            if mask is not None:
                mixed.masked_fill_(~mask[here][..., None, None], 0)
            out[here] = mixed
        ctx.save_for_backward(hidden, projected, gate_weight, conv, limit, mask, numbers, mean_square, scale)
        ctx.conv_eps, ctx.dilation = conv_eps, dilation
        ctx.set_materialize_grads(False)  # most callers leave the gate alone
        return out, gate.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out, upstream):
        hidden, projected, gate_weight, conv, limit, mask, numbers, mean_square, scale = ctx.saved_tensors
        dilation, dtype = ctx.dilation, scale.dtype
        branches, width = hidden.shape[2:]
        taps = conv.shape[0]
        reach = (taps - 1) * dilation
        grad_hidden = torch.empty_like(hidden, memory_format=torch.contiguous_format)
        grad_projected = torch.empty_like(projected, memory_format=torch.contiguous_format)
        grad_weight, grad_conv = torch.zeros_like(gate_weight), torch.zeros_like(conv)
        grad_out = torch.zeros_like(hidden) if grad_out is None else grad_out
        gate = numbers[0]
        inverse = torch.rsqrt(gate.square() * mean_square[..., None] + ctx.conv_eps)
        carry = None
        for rows, span in _blocks(hidden, backwards=True):
            here = rows, span
            value, source = _conv_input(projected, scale, rows, span, taps, dilation, dtype)
            grad = grad_out[here].to(dtype)
            if mask is not None:
                grad = grad.masked_fill(~mask[here][..., None, None], 0)
            # silu'(y) = s + y*s*(1-s)
            mixed = _convolve(source, conv, dilation, limit, here)
            sigmoid = torch.sigmoid(mixed)
            grad_mixed = mixed.mul_(1 - sigmoid).add_(1).mul_(sigmoid).mul_(grad)
            grad_source = torch.zeros_like(source)
            if carry is not None and carry.shape[0] == source.shape[0] and span.stop < hidden.shape[1]:
                grad_source[:, source.shape[1] - reach :] += carry
            for tap in range(taps):
                back = (taps - 1 - tap) * dilation
                seen = slice(reach - back, reach - back + mixed.shape[1])
                part = grad_mixed if limit is None or back == 0 else grad_mixed * _within(limit, here, back, dtype)
                grad_source[:, seen].addcmul_(part, conv[tap])
                grad_conv[tap] += (part * source[:, seen]).sum((0, 1))
            carry, grad_input = grad_source[:, :reach], grad_source[:, reach:]
            wide_value = value[:, :, None]
            grad_scale = (grad_input * wide_value).sum(-1)
            grad_value = (grad * gate[here][..., None]).addcmul_(grad_input, scale[here][..., None]).sum(2)
            cube = inverse[here] ** 3
            grad_square = (grad_scale * gate[here] ** 3 * cube).sum(-1, keepdim=True)
            grad_value.addcmul_(value, grad_square, value=-1 / width)
            grad_gate = (grad * wide_value).sum(-1).addcmul_(grad_scale, cube, value=ctx.conv_eps)
            if upstream is not None:
                from_gate = upstream[here].to(dtype)
                grad_gate += from_gate if mask is None else from_gate.masked_fill(~mask[here][..., None], 0)
            block_hidden = _masked(hidden[here], mask, here).to(dtype)
            keys, _ = _split(projected[here], branches, dtype)
            block = GateBlock(*(number[here] for number in numbers))
            part_hidden, part_keys, part_weight = arithmetic.backward(grad_gate, block, block_hidden, keys, gate_weight)
            grad_hidden[here] = part_hidden
            grad_projected[here][..., : branches * width] = part_keys.flatten(2)
            grad_projected[here][..., branches * width :] = grad_value
            grad_weight += part_weight
        return grad_hidden, grad_projected, grad_weight, grad_conv.permute(1, 2, 0), *[None] * 5


def _blocks(hidden: Tensor, backwards: bool = False) -> list[tuple[slice, slice]]:
    """Pairs of batch and token slices; token slices of one batch slice follow each other."""
    batch, length, branches, width = hidden.shape
    tokens = max(16, torch.get_num_threads() * BLOCK_ELEMENTS // (branches * width))
    rows, span = max(1, tokens // max(length, 1)), max(1, min(length, tokens))
    spans = [slice(start, min(start + span, length)) for start in range(0, length, span)]
    if backwards:
        spans.reverse()
    return [(slice(start, min(start + rows, batch)), part) for start in range(0, batch, rows) for part in spans]


def _split(projected: Tensor, branches: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Keys [b, n, M, D] and value [b, n, D] of a block."""
    width = projected.shape[-1] // (branches + 1)
    projected = projected.to(dtype)
    return projected[..., : branches * width].unflatten(-1, (branches, width)), projected[..., branches * width :]


def _masked(hidden: Tensor, mask: Tensor | None, here: tuple[slice, slice]) -> Tensor:
    return hidden if mask is None else hidden.masked_fill(~mask[here][..., None, None], 0)


def _within(limit: Tensor, here: tuple[slice, slice], back: int, dtype: torch.dtype) -> Tensor:
    return (limit[here] > back)[..., None, None].to(dtype)


def _conv_input(projected, scale, rows, span, taps, dilation, dtype) -> tuple[Tensor, Tensor]:
    """Value [b, n, D] of the block, and the convolution's input with (K-1)*dilation positions before it."""
    reach = (taps - 1) * dilation
    begin = max(0, span.start - reach)
    missing = reach - (span.start - begin)
    branches = scale.shape[-1]
    width = projected.shape[-1] // (branches + 1)
    value = projected[rows, begin : span.stop, branches * width :].to(dtype)
    source = value.new_empty((value.shape[0], missing + value.shape[1], branches, width))
    source[:, :missing] = 0
    torch.mul(value[:, :, None], scale[rows, begin : span.stop, :, None], out=source[:, missing:])
    return value[:, span.start - begin :], source


def _convolve(source: Tensor, conv: Tensor, dilation: int, limit: Tensor | None, here: tuple[slice, slice]) -> Tensor:
    taps = conv.shape[0]
    reach = (taps - 1) * dilation
    length = source.shape[1] - reach
    total = source[:, reach:] * conv[-1]
    for tap in range(taps - 1):
        back = (taps - 1 - tap) * dilation
        seen = source[:, reach - back : reach - back + length]
        if limit is not None:
            seen = seen * _within(limit, here, back, source.dtype)
        total.addcmul_(seen, conv[tap])
    return total
