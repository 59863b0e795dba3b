"""Several linear layers over the same input as one result, without giving up their names or their storage.

The layers' parameters stay separate tensors, so every way of saving, sharding or wrapping them works. Each product
writes its part of the joint result directly. A layer that is no longer a bare ``nn.Linear`` (an adapter, a hook, a
quantised layer in its place) is called by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .bare import is_bare


def joint_linear(x: Tensor, linears: Sequence[nn.Linear]) -> Tensor:
    """Return the outputs of all layers for x [..., E], side by side in the last axis."""
    if not all(is_bare(linear, nn.Linear) for linear in linears):
        return torch.cat([linear(x) for linear in linears], -1)
    weights: list[Tensor] = [linear.weight for linear in linears]
    biases: list[Tensor] = [] if linears[0].bias is None else [linear.bias for linear in linears]
    are_plain = all(type(part) is nn.Parameter for part in (*weights, *biases))
    if torch.compiler.is_compiling() or x.is_meta or not are_plain:
        return F.linear(x, torch.cat(weights), torch.cat(biases) if biases else None)
    if torch.amp.is_autocast_available(x.device.type) and torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, weights, biases = x.to(dtype), [w.to(dtype) for w in weights], [b.to(dtype) for b in biases]
    return _Joint.apply(x.reshape(-1, x.shape[-1]), *weights, *biases).unflatten(0, x.shape[:-1])


class _Joint(torch.autograd.Function):
    """x [N, E], weights [D, E], then no bias or as many [D] -> [N, layers * D].

    Concatenating the weights for one product takes as long for many tokens, and twice as long for one token.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, *parameters: Tensor) -> Tensor:
        weights, biases = _parts(parameters)
        heights = [weight.shape[0] for weight in weights]
        out = x.new_empty((x.shape[0], sum(heights)))
        for index, (weight, piece) in enumerate(zip(weights, out.split(heights, 1), strict=True)):
            if biases:
                torch.addmm(biases[index], x, weight.t(), out=piece)
            else:
                torch.mm(x, weight.t(), out=piece)
        ctx.save_for_backward(x, *weights)
        ctx.with_bias = bool(biases)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights = ctx.saved_tensors
        pieces = grad.split([weight.shape[0] for weight in weights], 1)
        wanted = ctx.needs_input_grad
        # One product for the input's gradient: a sum of products would round half precision once for each of them.
        grads = [grad @ torch.cat(weights) if wanted[0] else None]
        grads += [piece.t() @ x if wanted[1 + index] else None for index, piece in enumerate(pieces)]
        if ctx.with_bias:
            first = 1 + len(weights)
            grads += [piece.sum(0) if wanted[first + index] else None for index, piece in enumerate(pieces)]
        return tuple(grads)


def _parts(parameters: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    weights = [part for part in parameters if part.ndim == 2]
    return weights, parameters[len(weights) :]
