"""Several linear layers over the same input as one matrix product, without giving up their own names.

The parameters stay those of the separate ``nn.Linear`` modules (so the state, optimizers, wrappers and adapters see the
published names), but their storage is one block, which a single product reads without a copy. Where something has
given them other storage (sharding, ``functional_call``), the block is concatenated for the call. Where a layer is no
longer a bare ``nn.Linear`` (an adapter, a hook, a quantised layer in its place), each layer is called by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .bare import is_bare


def pack(linears: Sequence[nn.Linear]) -> None:
    """Move the weights, and the biases, of the layers into one storage each. Values and Parameter objects stay."""
    for group in _groups(linears):
        if all(_is_plain(p) for p in group) and len({(p.dtype, p.device) for p in group}) == 1 and not _adjacent(group):
            block = torch.cat([p.detach() for p in group])
            for parameter, piece in zip(group, block.split([p.shape[0] for p in group]), strict=True):
                parameter.data = piece


def joint_linear(x: Tensor, linears: Sequence[nn.Linear]) -> Tensor:
    """The outputs of all layers, side by side in the last axis."""
    if not all(is_bare(linear, nn.Linear) for linear in linears):
        return torch.cat([linear(x) for linear in linears], -1)
    joined = [_join(group) for group in _groups(linears)]
    return F.linear(x, *joined)


def _groups(linears: Sequence[nn.Linear]) -> list[list[Tensor]]:
    groups = [[linear.weight for linear in linears]]
    if linears[0].bias is not None:
        groups.append([linear.bias for linear in linears])
    return groups


def _join(group: list[Tensor]) -> Tensor:
    if torch.compiler.is_compiling() or not all(_is_plain(p) for p in group) or not _adjacent(group):
        return torch.cat(group)
    return _Joined.apply(*group)


def _is_plain(parameter: Tensor) -> bool:
    return type(parameter) is nn.Parameter and parameter.device.type != "meta"


def _adjacent(group: list[Tensor]) -> bool:
    first = group[0]
    base, offset = first.untyped_storage().data_ptr(), first.storage_offset()
    for parameter in group:
        if (
            parameter.untyped_storage().data_ptr() != base
            or parameter.storage_offset() != offset
            or parameter.dtype != first.dtype
            or not parameter.is_contiguous()
        ):
            return False
        offset += parameter.numel()
    return True


class _Joined(torch.autograd.Function):
    """Adjacent parameters as the one tensor they are; the gradient is cut at the same places."""

    @staticmethod
    def forward(ctx, *group):
        ctx.heights = [parameter.shape[0] for parameter in group]
        first = group[0].detach()
        shape = (sum(ctx.heights), *first.shape[1:])
        return first.as_strided(shape, first.stride())

    @staticmethod
    def backward(ctx, grad):
        return grad.split(ctx.heights)
