"""Which submodules may be read for their weights alone: those that are what the constructor made, with nothing hung on.

A hook, an adapter, a parametrization, a sharded or quantised layer in the place of one takes effect only if it is
called. Whatever would go around a submodule asks here first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn


def is_bare(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Exactly of its type, which parametrizations and wrappers change, and without hooks or a `forward` of its own.

    Libraries that move weights in and out of memory replace `forward` on the instance.
    """
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return type(module) is kind and not any(hooks) and "forward" not in vars(module)


def are_bare_norms(norms: Iterable[nn.Module], eps: float | None) -> bool:
    """RMSNorms with a gain and this epsilon."""
    return all(is_bare(norm, nn.RMSNorm) and norm.eps == eps and norm.weight is not None for norm in norms)


def call_norms(norms: Sequence[nn.Module], x_BTMD: Tensor) -> Tensor:
    """Each branch through its own norm, one call for each."""
    return torch.stack([norm(to_parameters(norm, x)) for norm, x in zip(norms, x_BTMD.unbind(2), strict=True)], 2)


def to_parameters(module: nn.Module, x: Tensor) -> Tensor:
    """In the dtype that the module computes in.

    That of its weight, or of another parameter where a quantised layer keeps the weight as bytes or behind a call.
    """
    weight = getattr(module, "weight", None)
    tensors = [weight] if isinstance(weight, Tensor) else []
    floating = (tensor.dtype for tensor in [*tensors, *module.parameters()] if tensor.dtype.is_floating_point)
    dtype = next(floating, None)
    if dtype is None:
        # Bytes alone say nothing: such layers take what they are given, or float32 where the table is narrower.
        dtype = torch.promote_types(x.dtype, torch.float32) if weight is not None else x.dtype
    return x.to(dtype)
