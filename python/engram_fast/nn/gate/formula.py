"""The arithmetic of the modules in plain torch: what torch.compile and torch.export see, and the fused code's oracle.

Shapes: B batch, T tokens, M branches, D hidden size, K taps of the convolution. Everything here runs in float32, or in
float64 where the inputs are float64.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

GATE_FLOOR = 1e-6  # the smallest score under the square root


def accumulate_dtype(*tensors: Tensor) -> torch.dtype:
    """The dtype of the arithmetic: float64 if an input has it, else float32."""
    return torch.float64 if any(t.dtype == torch.float64 for t in tensors) else torch.float32


def default_eps(dtype: torch.dtype) -> float:
    """What ``torch.nn.RMSNorm`` takes for ``eps=None``, computed as here: not below float32."""
    return torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps


def rms_scale(x: Tensor, eps: float) -> Tensor:
    """1 / root mean square over the last axis."""
    return torch.rsqrt(x.square().mean(-1) + eps)


def gate(hidden_BTMD: Tensor, keys_BTMD: Tensor, weight_MD: Tensor, *, eps: float, zero_is_positive: bool) -> Tensor:
    """Gate [B, T, M] from hidden states and keys; ``weight`` is the product of the two norms' gains.

    ``zero_is_positive``: a score of 0 counts as positive (V4.1, copysign) or has no sign (the demo, sign).
    """
    dtype = accumulate_dtype(hidden_BTMD, keys_BTMD, weight_MD)
    hidden, keys = hidden_BTMD.to(dtype), keys_BTMD.to(dtype)
    scale = rms_scale(hidden, eps) * rms_scale(keys, eps) / math.sqrt(hidden.shape[-1])
    score = (hidden * weight_MD.to(dtype) * keys).sum(-1) * scale
    return gate_of_score(score, zero_is_positive=zero_is_positive)


def gate_of_score(score: Tensor, *, zero_is_positive: bool) -> Tensor:
    """Sigmoid of the score's signed root; the root's gradient is 0 below the floor."""
    root = score.abs().clamp_min(GATE_FLOOR).sqrt()
    signed = torch.copysign(root, score.detach()) if zero_is_positive else root * score.sign()
    return torch.sigmoid(signed)


def causal_conv(
    x_BTMD: Tensor,
    weight_MDK: Tensor,
    dilation: int,
    *,
    scale_BTM: Tensor | None = None,
    limit_BT: Tensor | None = None,
    history: Tensor | None = None,
) -> Tensor:
    """Depthwise causal convolution; tap j reads (K-1-j)*dilation positions back, never ``limit`` or more.

    ``scale``: of scale * x, where x may have one branch for all. ``history`` [B, (K-1)*dilation, M, D] stands before
    the first position (zeros by default).
    """
    taps, length = weight_MDK.shape[-1], x_BTMD.shape[1]
    reach = (taps - 1) * dilation
    weight_KMD = _stored(weight_MDK.movedim(-1, 0).contiguous())
    padded = F.pad(x_BTMD, (0, 0, 0, 0, reach, 0)) if history is None else torch.cat([history, x_BTMD], 1)
    padded = _stored(padded)
    scale = None if scale_BTM is None else _stored(F.pad(scale_BTM, (0, 0, reach, 0)))
    parts = []
    for tap in range(taps):
        back = (taps - 1 - tap) * dilation
        here = slice(reach - back, reach - back + length)
        seen = padded[:, here] if scale is None else padded[:, here] * scale[:, here, :, None]
        if limit_BT is not None and back:
            seen = torch.where((limit_BT > back)[..., None, None], seen, 0)
        parts.append(seen * weight_KMD[tap])
    return sum(parts[1:], parts[0])


class _Stored(torch.autograd.Function):
    """The tensor as it is, through a view that the compiler does not see through."""

    @staticmethod
    def forward(ctx, tensor):
        return tensor.as_strided(tensor.shape, tensor.stride())

    @staticmethod
    def backward(ctx, grad):
        return grad


def _stored(tensor: Tensor) -> Tensor:
    """In a compiled graph: computed once and kept, not again for each tap and channel that reads it (8 % of a step)."""
    return _Stored.apply(tensor) if torch.compiler.is_compiling() and not _is_exporting() else tensor


def _is_exporting() -> bool:
    return hasattr(torch.compiler, "is_exporting") and torch.compiler.is_exporting()  # torch 2.4 cannot tell


def engram(
    hidden_BTMD: Tensor,
    keys_BTMD: Tensor,
    value_BTD: Tensor,
    gate_weight_MD: Tensor,
    conv_MDK: Tensor,
    *,
    eps: float,
    conv_eps: float,
    dilation: int,
    limit_BT: Tensor | None = None,
    mask_BT: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """What the demo's module adds to the hidden states, and its gate; ``conv`` contains its norm's gain."""
    hidden = hidden_BTMD if mask_BT is None else hidden_BTMD.masked_fill(~mask_BT[..., None, None], 0)
    gate_BTM = gate(hidden, keys_BTMD, gate_weight_MD, eps=eps, zero_is_positive=False)
    return mix(
        hidden, gate_BTM, value_BTD, conv_MDK, conv_eps=conv_eps, dilation=dilation, limit_BT=limit_BT, mask_BT=mask_BT
    )


def mix(
    hidden_BTMD: Tensor,
    gate_BTM: Tensor,
    value_BTD: Tensor,
    conv_MDK: Tensor,
    *,
    conv_eps: float,
    dilation: int,
    limit_BT: Tensor | None = None,
    mask_BT: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The part of ``engram`` after the gate: gate*value plus its short convolution, in the dtype of ``hidden``."""
    dtype = gate_BTM.dtype
    value = value_BTD.to(dtype)
    if mask_BT is not None:
        gate_BTM = gate_BTM.masked_fill(~mask_BT[..., None], 0)
    # The norm of gate*value has the norm of value in it: gate^2 * mean(value^2), one number per token and branch.
    scale = gate_BTM * torch.rsqrt(gate_BTM.square() * value.square().mean(-1, keepdim=True) + conv_eps)
    mixed = causal_conv(value[:, :, None], conv_MDK.to(dtype), dilation, scale_BTM=scale, limit_BT=limit_BT)
    out = gate_BTM[..., None] * value[:, :, None] + F.silu(mixed)
    if mask_BT is not None:
        out = out.masked_fill(~mask_BT[..., None, None], 0)
    return out.to(hidden_BTMD.dtype), gate_BTM


def engram_v41(
    hidden_BTMD: Tensor,
    keys_BTMD: Tensor,
    value_BTD: Tensor,
    gate_weight_MD: Tensor,
    *,
    eps: float,
    zero_is_positive: bool = True,
    mask_BT: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """V4.1: hidden states with gate*value added, and the gate (0 at masked positions)."""
    dtype = accumulate_dtype(hidden_BTMD, keys_BTMD, value_BTD, gate_weight_MD)
    hidden = hidden_BTMD if mask_BT is None else hidden_BTMD.masked_fill(~mask_BT[..., None, None], 0)
    gate_BTM = gate(hidden, keys_BTMD, gate_weight_MD, eps=eps, zero_is_positive=zero_is_positive)
    if mask_BT is not None:
        gate_BTM = gate_BTM.masked_fill(~mask_BT[..., None], 0)
    out = hidden_BTMD.to(dtype) + gate_BTM[..., None] * value_BTD.to(dtype)[:, :, None]
    return out.to(hidden_BTMD.dtype), gate_BTM
