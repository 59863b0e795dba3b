"""The gate as a module of its own: how much each branch takes of the value, from its hidden state and its key."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..computed import keep_start_values
from ..documents import as_mask
from . import dispatch, formula


class EngramGate(nn.Module):
    """Gate [..., M] in float32 (float64 for float64 inputs) from hidden states and keys [..., M, D].

    dot = sum(h * q_weight * k_weight * key) * rstd(h) * rstd(key) / sqrt(D), gate = sigmoid of its signed root.

    Args:
        hidden_size: D. hc_mult: M. eps: of both norms.
        zero_is_positive: a dot of exactly 0 counts as positive (V4.1) or gives a gate of 1/2 (the demo).
        fused: the hand-written forward and backward; False: plain torch, for second derivatives.

    >>> import torch
    >>> from engram_fast.nn import EngramGate
    >>> EngramGate(hidden_size=8, hc_mult=2)(torch.randn(1, 5, 2, 8), torch.randn(1, 5, 2, 8)).shape
    torch.Size([1, 5, 2])
    """

    def __init__(
        self,
        hidden_size: int,
        hc_mult: int = 4,
        *,
        eps: float = 1e-20,
        zero_is_positive: bool = True,
        fused: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.eps, self.zero_is_positive, self.fused = eps, zero_is_positive, fused
        self.q_weight = nn.Parameter(torch.empty((hc_mult, hidden_size), device=device, dtype=dtype))
        self.k_weight = nn.Parameter(torch.empty((hc_mult, hidden_size), device=device, dtype=dtype))
        self.reset_parameters()

    @classmethod
    def from_config(cls, backbone_config: Any, **options: Any) -> EngramGate:
        """From ``hidden_size`` and ``hc_mult`` of a backbone's configuration."""
        return cls(hidden_size=backbone_config.hidden_size, hc_mult=backbone_config.hc_mult, **options)

    def reset_parameters(self) -> None:
        """Gains of one."""
        nn.init.ones_(self.q_weight)
        nn.init.ones_(self.k_weight)
        keep_start_values(self)

    def forward(
        self, hidden_states: Tensor, keys: Tensor, value: Tensor | None = None, *, mask: Tensor | None = None
    ) -> Tensor:
        """The gate; with ``value`` [..., D]: hidden_states + gate * value in their dtype. Gate 0 under the mask."""
        if hidden_states.shape != keys.shape or hidden_states.shape[-2:] != self.q_weight.shape:
            raise ValueError(
                f"hidden_states {tuple(hidden_states.shape)} and keys {tuple(keys.shape)} must both be "
                f"[..., {self.q_weight.shape[0]}, {self.q_weight.shape[1]}]"
            )
        mask = as_mask(mask, hidden_states.shape[:-2])
        dtype = formula.accumulate_dtype(hidden_states, keys)
        weight = self.q_weight.to(dtype) * self.k_weight.to(dtype)
        if value is not None:
            added = dispatch.gated_add(
                hidden_states, keys, value, weight, mask, self.eps, self.zero_is_positive, fused=self.fused
            )
            return added[0]
        gate = dispatch.gate(hidden_states, keys, weight, self.eps, self.zero_is_positive, fused=self.fused)
        return gate if mask is None else gate.masked_fill(~mask[..., None], 0)
