"""The short convolution: per-branch RMSNorm, depthwise causal convolution, SiLU; resets at documents, can stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .bare import are_bare_norms, call_norms, is_bare, to_parameters
from .computed import keep_start_values
from .documents import as_mask, look_back_limit, to_shape, with_branches
from .gate import formula


@dataclass
class ConvState:
    """What a convolution remembers of B sequences: its last normalised inputs, and the last segment id it saw.

    ``inputs`` [B, (kernel_size - 1) * dilation, M, D], zeros where there was nothing (or another document).
    """

    inputs: Tensor
    segment: Tensor | None = None

    def select(self, index: Tensor | list[int]) -> ConvState:
        """A new state of the sequences ``index`` (beam search, forks); nothing is shared."""
        index = torch.as_tensor(index, dtype=torch.int64, device=self.inputs.device)
        return ConvState(self.inputs[index], None if self.segment is None else self.segment[index])

    def copy(self) -> ConvState:
        return ConvState(self.inputs.clone(), None if self.segment is None else self.segment.clone())

    def reset(self, index: Tensor | list[int]) -> None:
        """Forget the sequences ``index``, in place: a slot that is used again starts clean."""
        index = torch.as_tensor(index, dtype=torch.int64, device=self.inputs.device)
        self.inputs = self.inputs.index_fill(0, index, 0)


class ShortConv(nn.Module):
    """x [B, T, M, D] to the same shape, each position from itself and (kernel_size - 1) * dilation positions before it.

    Names in the state are those of the published demo: ``conv.weight`` [M*D, 1, kernel_size] (channel m*D + d) and
    ``norms.{m}.weight`` [D].

    Args:
        hidden_size: D. hc_mult: M. kernel_size, dilation: of the convolution. norm_eps: of the norms.
        activation: SiLU at the end. zero_init: the convolution starts at zero, so the branch adds nothing at first.

    >>> import torch
    >>> from engram_fast.nn import ShortConv
    >>> ShortConv(hidden_size=8, hc_mult=2, dilation=3)(torch.randn(1, 5, 2, 8)).shape
    torch.Size([1, 5, 2, 8])
    """

    norms: Any  # torch does not say of what a ModuleList is one

    def __init__(
        self,
        hidden_size: int,
        hc_mult: int = 4,
        *,
        kernel_size: int = 4,
        dilation: int = 1,
        norm_eps: float = 1e-5,
        activation: bool = True,
        zero_init: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.hidden_size, self.hc_mult, self.kernel_size, self.dilation = hidden_size, hc_mult, kernel_size, dilation
        self.norm_eps, self.activation, self.zero_init = norm_eps, activation, zero_init
        channels = hidden_size * hc_mult
        self.conv = nn.Conv1d(
            channels,
            channels,
            kernel_size,
            groups=channels,
            bias=False,
            padding=(kernel_size - 1) * dilation,
            dilation=dilation,
            **factory,
        )
        self.norms = nn.ModuleList(nn.RMSNorm(hidden_size, eps=norm_eps, **factory) for _ in range(hc_mult))
        if zero_init:
            nn.init.zeros_(self.conv.weight)
        keep_start_values(self)

    @property
    def reach(self) -> int:
        """How many positions back the first tap reads."""
        return (self.kernel_size - 1) * self.dilation

    def reset_parameters(self) -> None:
        """Start values, as after construction."""
        self.conv.reset_parameters()
        if self.zero_init:
            nn.init.zeros_(self.conv.weight)
        for norm in self.norms:
            norm.reset_parameters()
        keep_start_values(self)

    def forward(
        self,
        x: Tensor,
        *,
        segment_ids: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        mask: Tensor | None = None,
        state: ConvState | None = None,
    ) -> Tensor:
        """Documents in one row do not see each other; masked positions are not read by others, and give zero.

        With ``state`` the positions follow those that the state has seen, and the state moves on (under no_grad only).
        """
        given = x.shape
        x = with_branches("x", x, self.hc_mult, self.hidden_size)
        mask = as_mask(mask, x.shape[:2])
        segment_ids = to_shape("segment_ids", segment_ids, x.shape[:2])
        dtype = formula.accumulate_dtype(x, *self.conv.parameters())
        if are_bare_norms(self.norms, self.norm_eps):
            scale = formula.rms_scale(x.to(dtype), self.norm_eps)[..., None]
            normed = x.to(dtype) * scale * self.norm_gains().to(dtype)
        else:
            normed = call_norms(self.norms, x).to(dtype)
        if mask is not None:
            normed = normed.masked_fill(~mask[..., None, None], 0)
        limit = look_back_limit(
            *x.shape[:2],
            segment_ids=segment_ids,
            cu_seqlens=cu_seqlens,
            last_segment=None if state is None else state.segment,
            device=x.device,
        )
        history = None if state is None else state.inputs.to(dtype)
        if is_bare(self.conv, nn.Conv1d):
            out = formula.causal_conv(normed, self.taps().to(dtype), self.dilation, limit_BT=limit, history=history)
        else:
            out = self._call_conv(normed, limit, history).to(dtype)
        if self.activation:
            out = F.silu(out)
        if mask is not None:
            out = out.masked_fill(~mask[..., None, None], 0)
        if state is not None:
            self._advance(state, normed, limit, segment_ids)
        return out.to(x.dtype).reshape(given)

    def has_bare_parts(self) -> bool:
        """The norms and the convolution may be read for their weights: nothing hangs on them."""
        return is_bare(self.conv, nn.Conv1d) and are_bare_norms(self.norms, self.norm_eps)

    def new_state(self, batch: int) -> ConvState:
        """The state of ``batch`` sequences that have not begun."""
        weight = self.conv.weight
        return ConvState(weight.new_zeros((batch, self.reach, self.hc_mult, self.hidden_size)))

    def step(self, x: Tensor, state: ConvState, **where: Tensor | None) -> Tensor:
        """The next positions of the state's sequences; any split of a sequence gives what the whole gives."""
        return self(x, state=state, **where)

    def norm_gains(self) -> Tensor:
        """Gains of the norms, [M, D]."""
        return torch.stack([norm.weight for norm in self.norms])

    def taps(self) -> Tensor:
        """The convolution's weights, [M, D, K]."""
        return self.conv.weight.view(self.hc_mult, self.hidden_size, self.kernel_size)

    def _call_conv(self, normed: Tensor, limit: Tensor | None, history: Tensor | None) -> Tensor:
        if limit is not None:
            raise ValueError(
                f"segment_ids and cu_seqlens cut the convolution at documents, which {type(self.conv).__name__} with "
                "hooks or in the place of the module's own convolution cannot be told: pass each document on its own"
            )
        before = 0 if history is None else history.shape[1]
        x = normed if history is None else torch.cat([history, normed], 1)
        mixed = self.conv(to_parameters(self.conv, x.flatten(2).transpose(1, 2)))[..., before : x.shape[1]]
        return mixed.transpose(1, 2).unflatten(2, x.shape[2:])

    def _advance(self, state: ConvState, normed: Tensor, limit: Tensor | None, segment_ids: Tensor | None) -> None:
        if torch.is_grad_enabled() and normed.requires_grad:
            raise RuntimeError("a convolution state is for inference: call under torch.no_grad() or inference_mode()")
        if normed.shape[1] == 0:
            return
        inputs = torch.cat([state.inputs.to(normed.dtype), normed], 1)
        inputs = inputs[:, inputs.shape[1] - self.reach :]
        if limit is not None:  # what lies before the last position's document is gone for good
            age = torch.arange(self.reach - 1, -1, -1, device=normed.device)
            inputs = inputs.masked_fill((age >= limit[:, -1:])[..., None, None], 0)
        state.inputs = inputs.to(normed.dtype)
        if segment_ids is not None:
            state.segment = segment_ids[:, -1].clone()
