"""Which implementation runs: the formula in traced graphs, Triton on CUDA, the fused blocks on the CPU."""

from __future__ import annotations

import functools
import importlib.util
import os
from typing import Any

import torch
from torch import Tensor

from . import formula
from .fused import Gate, GatedAdd
from .fused_mix import EngramMix


def use_triton(tensor: Tensor) -> bool:
    """Triton is installed, the tensor is on a CUDA device, and ENGRAM_FAST_TRITON=0 does not forbid it."""
    return tensor.is_cuda and _triton_installed() and os.environ.get("ENGRAM_FAST_TRITON", "1") != "0"


@functools.cache
def _triton_installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def _plain(fused: bool) -> bool:
    # The compiler fuses the formula itself, better than it can the blocks' loop.
    return not fused or torch.compiler.is_compiling()


def gate(
    hidden: Tensor, keys: Tensor, weight: Tensor, eps: float, zero_is_positive: bool, *, fused: bool = True
) -> Tensor:
    """Gate [..., M] of hidden states and keys [..., M, D]; ``weight`` [M, D] is the product of both gains."""
    if _plain(fused):
        return formula.gate(hidden, keys, weight, eps=eps, zero_is_positive=zero_is_positive)
    lead = hidden.shape[:-2]
    hidden, keys = hidden.reshape(-1, *hidden.shape[-2:]), keys.reshape(-1, *keys.shape[-2:])
    if use_triton(hidden) and hidden.dtype != torch.float64:
        from .triton import TritonGate

        return TritonGate.apply(hidden, keys, weight, eps, zero_is_positive).unflatten(0, lead)
    return Gate.apply(hidden, keys, weight, eps, zero_is_positive).reshape(*lead, hidden.shape[-2])


def gated_add(
    hidden: Tensor,
    keys: Tensor,
    value: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    eps: float,
    zero_is_positive: bool,
    *,
    fused: bool = True,
) -> tuple[Tensor, Tensor]:
    """V4.1: hidden + gate*value [..., M, D] and the gate [..., M]; value [..., D], mask [...]."""
    lead, branch = hidden.shape[:-2], hidden.shape[-2:]
    hidden, keys, value = hidden.reshape(-1, *branch), keys.reshape(-1, *branch), value.reshape(-1, branch[-1])
    mask = None if mask is None else mask.reshape(-1)
    if _plain(fused):
        mask = None if mask is None else mask[None]
        out, gate_NM = formula.engram_v41(
            hidden[None], keys[None], value[None], weight, eps=eps, zero_is_positive=zero_is_positive, mask_BT=mask
        )
    elif use_triton(hidden) and hidden.dtype != torch.float64:
        from .triton import TritonGate

        read = hidden if mask is None else hidden.masked_fill(~mask[:, None, None], 0)
        gate_NM = TritonGate.apply(read, keys, weight, eps, zero_is_positive)
        gate_NM = gate_NM if mask is None else gate_NM.masked_fill(~mask[:, None], 0)
        out = torch.addcmul(hidden.float(), gate_NM[..., None], value.float()[:, None]).to(hidden.dtype)
    else:
        out, gate_NM = GatedAdd.apply(hidden, keys, value, weight, mask, eps, zero_is_positive)
    return out.reshape(*lead, *branch), gate_NM.reshape(*lead, branch[0])


def engram_mix(
    hidden: Tensor,
    projected: Tensor,
    weight: Tensor,
    conv: Tensor,
    limit: Tensor | None,
    mask: Tensor | None,
    *,
    eps: float,
    conv_eps: float,
    dilation: int,
    fused: bool = True,
) -> tuple[Tensor, Tensor]:
    """The demo's module after its projections: what it adds [B, T, M, D], and the gate [B, T, M]."""
    if not _plain(fused) and hidden.device.type == "cpu":
        return EngramMix.apply(hidden, projected, weight, conv, limit, mask, eps, conv_eps, dilation)
    branches, width = weight.shape
    keys, value = projected.split([branches * width, width], -1)
    keys = keys.unflatten(-1, (branches, width))
    where: dict[str, Any] = {"conv_eps": conv_eps, "dilation": dilation, "limit_BT": limit, "mask_BT": mask}
    if _plain(fused) or not use_triton(hidden) or hidden.dtype == torch.float64:
        return formula.engram(hidden, keys, value, weight, conv, eps=eps, **where)
    read = hidden if mask is None else hidden.masked_fill(~mask[..., None, None], 0)
    gate_BTM = gate(read, keys, weight, eps, False)
    return formula.mix(hidden, gate_BTM, value, conv, **where)
