"""Gate and addition of the V4.1 module as one autograd function over blocks that stay in the cache."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import arithmetic
from .arithmetic import GateBlock
from .formula import accumulate_dtype
from .fused_mix import BLOCK_ELEMENTS


class GatedAdd(torch.autograd.Function):
    """(hidden [N,M,D], keys [N,M,D], value [N,D], ...) -> hidden + gate*value [N,M,D], gate [N,M]."""

    @staticmethod
    def forward(ctx, hidden, keys, value, weight, mask, eps, zero_is_positive):
        dtype = accumulate_dtype(hidden, keys, value, weight)
        weight = weight.to(dtype)
        out = torch.empty_like(hidden, memory_format=torch.contiguous_format)
        numbers = hidden.new_empty((4, *hidden.shape[:2]), dtype=dtype)
        for part in _blocks(hidden):
            wide = hidden[part].to(dtype)
            block = arithmetic.forward(_masked(wide, mask, part), keys[part].to(dtype), weight, eps, zero_is_positive)
            if mask is not None:
                block.gate.mul_(mask[part][:, None])
            for number, piece in zip(numbers, block, strict=True):
                number[part] = piece
            out[part] = torch.addcmul(wide, value[part].to(dtype)[:, None], block.gate[..., None])
        ctx.save_for_backward(hidden, keys, value, weight, mask, numbers)
        ctx.set_materialize_grads(False)  # most callers leave the gate alone
        return out, numbers[0].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out, upstream):
        hidden, keys, value, weight, mask, numbers = ctx.saved_tensors
        dtype = numbers.dtype
        grad_hidden = torch.empty_like(hidden, memory_format=torch.contiguous_format)
        grad_keys = torch.empty_like(keys, memory_format=torch.contiguous_format)
        grad_value = torch.empty_like(value, memory_format=torch.contiguous_format)
        grad_weight = torch.zeros_like(weight)
        grad_out = torch.zeros_like(hidden) if grad_out is None else grad_out
        for part in _blocks(hidden):
            grad = grad_out[part].to(dtype)
            block = GateBlock(*(number[part] for number in numbers))
            grad_value[part] = (grad * block.gate[..., None]).sum(1)
            grad_gate = (grad * value[part].to(dtype)[:, None]).sum(-1)
            if upstream is not None:
                from_gate = upstream[part].to(dtype)
                grad_gate += from_gate if mask is None else from_gate.masked_fill(~mask[part][:, None], 0)
            wide = _masked(hidden[part].to(dtype), mask, part)
            from_hidden, from_keys, from_weight = arithmetic.backward(
                grad_gate, block, wide, keys[part].to(dtype), weight
            )
            grad_hidden[part] = from_hidden.add_(grad)
            grad_keys[part] = from_keys
            grad_weight += from_weight
        return grad_hidden, grad_keys, grad_value, grad_weight, None, None, None


class Gate(torch.autograd.Function):
    """(hidden [N,M,D], keys [N,M,D], weight [M,D]) -> gate [N,M] in the accumulation dtype."""

    @staticmethod
    def forward(ctx, hidden, keys, weight, eps, zero_is_positive):
        dtype = accumulate_dtype(hidden, keys, weight)
        weight = weight.to(dtype)
        numbers = hidden.new_empty((4, *hidden.shape[:2]), dtype=dtype)
        for part in _blocks(hidden):
            block = arithmetic.forward(hidden[part].to(dtype), keys[part].to(dtype), weight, eps, zero_is_positive)
            for number, piece in zip(numbers, block, strict=True):
                number[part] = piece
        ctx.save_for_backward(hidden, keys, weight, numbers)
        return numbers[0].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_gate):
        hidden, keys, weight, numbers = ctx.saved_tensors
        dtype = numbers.dtype
        grad_hidden = torch.empty_like(hidden, memory_format=torch.contiguous_format)
        grad_keys = torch.empty_like(keys, memory_format=torch.contiguous_format)
        grad_weight = torch.zeros_like(weight)
        for part in _blocks(hidden):
            block = GateBlock(*(number[part] for number in numbers))
            grads = arithmetic.backward(
                grad_gate[part].to(dtype), block, hidden[part].to(dtype), keys[part].to(dtype), weight
            )
            grad_hidden[part], grad_keys[part] = grads[:2]
            grad_weight += grads[2]
        return grad_hidden, grad_keys, grad_weight, None, None


def _blocks(hidden: Tensor) -> list[slice]:
    count, branches, width = hidden.shape
    size = max(16, torch.get_num_threads() * BLOCK_ELEMENTS // (branches * width))
    size = size if hidden.device.type == "cpu" else max(1, count)
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _masked(hidden: Tensor, mask: Tensor | None, part: slice) -> Tensor:
    return hidden if mask is None else hidden.masked_fill(~mask[part][:, None, None], 0)
