"""The Engram module of the paper's demo: same parameters and arithmetic, one matrix product, one pass after it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from . import projection
from .bare import are_bare_norms, call_norms, is_bare, to_parameters
from .computed import keep_start_values
from .documents import as_mask, look_back_limit, with_branches
from .embedding import MultiHeadEmbedding
from .gate import dispatch, formula
from .hash import RowHasher, rows_of_layer
from .short_conv import ConvState, ShortConv

if TYPE_CHECKING:
    from ..hash import NgramHasher
    from ..layout import HashLayout


class Engram(nn.Module):
    """What the n-gram memory adds to hidden states [B, T, M, D]; the caller adds it.

    Names in the state are the published demo's: ``multi_head_embedding.{embedding.weight,offsets}``, ``value_proj``,
    ``key_projs.{m}``, ``norm1.{m}`` (keys), ``norm2.{m}`` (hidden states), ``short_conv.{conv,norms.{m}}``.

    Args:
        hidden_size: D. hc_mult: M branches.
        sizes: rows of each head, order-major (C of them). head_dim: width of a row; E = C * head_dim.
        kernel_size, dilation: of the short convolution (the demo's dilation is the largest n-gram order).
        sparse: sparse gradients of the table. rows_have_offsets: rows count from the start of the whole table.
        zero_init_conv: start the convolution at zero, as the paper trains it.
        init_std: of the table's start values.
        norm_eps: of the gate's norms; None: that of ``torch.nn.RMSNorm``. conv_norm_eps: of the convolution's.
        layer_id: which layer this is, for rows that hold several. hasher: an ``NgramHasher`` or a ``RowHasher``, for
        calls with ``input_ids``.
        fused: the hand-written forward and backward; False: plain torch, for second derivatives.

    The fused code reads the weights of the norms, the projections and the convolution. Where one of these modules has a
    hook or is no longer the one made here (adapters, parametrizations, wrappers), it is called as in the demo instead.
    """

    norm1: Any  # torch does not say of what a ModuleList is one
    norm2: Any

    def __init__(
        self,
        *,
        hidden_size: int,
        hc_mult: int,
        sizes: Sequence[int],
        head_dim: int,
        kernel_size: int = 4,
        dilation: int = 3,
        sparse: bool = False,
        rows_have_offsets: bool = False,
        zero_init_conv: bool = False,
        init_std: float = 1.0,
        norm_eps: float | None = None,
        conv_norm_eps: float = 1e-5,
        layer_id: int | None = None,
        hasher: NgramHasher | RowHasher | None = None,
        fused: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.hidden_size, self.hc_mult, self.layer_id, self.norm_eps, self.fused = (
            hidden_size,
            hc_mult,
            layer_id,
            norm_eps,
            fused,
        )
        self.multi_head_embedding = MultiHeadEmbedding(
            sizes, head_dim, sparse=sparse, rows_have_offsets=rows_have_offsets, init_std=init_std, **factory
        )
        self.short_conv = ShortConv(
            hidden_size,
            hc_mult,
            kernel_size=kernel_size,
            dilation=dilation,
            norm_eps=conv_norm_eps,
            zero_init=zero_init_conv,
            **factory,
        )
        width = len(self.multi_head_embedding.sizes) * head_dim
        self.value_proj = nn.Linear(width, hidden_size, **factory)
        self.key_projs = nn.ModuleList(nn.Linear(width, hidden_size, **factory) for _ in range(hc_mult))
        self.norm1 = nn.ModuleList(nn.RMSNorm(hidden_size, eps=norm_eps, **factory) for _ in range(hc_mult))
        self.norm2 = nn.ModuleList(nn.RMSNorm(hidden_size, eps=norm_eps, **factory) for _ in range(hc_mult))
        self.row_hasher = RowHasher.of(hasher)
        keep_start_values(self)

    @classmethod
    def from_config(
        cls, engram_config: Any, backbone_config: Any, *, layer_id: int, layout: HashLayout, **options: Any
    ) -> Engram:
        """From the demo's two configurations; the heads' sizes come from ``layout`` (a HashLayout).

        ``options``: this class's other arguments (``sparse``, ``zero_init_conv``, ``hasher``, ``dtype``, …).
        """
        if layer_id not in layout.layer_ids:
            raise ValueError(f"layer {layer_id} is not one of the layout's layers {list(layout.layer_ids)}")
        return cls(
            hidden_size=backbone_config.hidden_size,
            hc_mult=backbone_config.hc_mult,
            sizes=[int(size) for size in layout.moduli[layer_id]],
            head_dim=engram_config.n_embed_per_ngram // engram_config.n_head_per_ngram,
            kernel_size=engram_config.kernel_size,
            dilation=engram_config.max_ngram_size,
            layer_id=layer_id,
            **{"rows_have_offsets": layout.adds_offsets, **options},
        )

    def forward(
        self,
        hidden_states: Tensor,
        rows: Tensor | Mapping[int, Tensor] | None = None,
        *,
        input_ids: Tensor | None = None,
        mask: Tensor | None = None,
        segment_ids: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        state: ConvState | None = None,
        return_gate: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """The contribution [B, T, M, D] in the dtype of ``hidden_states``; ``return_gate``: also the gate [B, T, M].

        Args:
            rows: int32 or int64 [B, T, C], or {layer id: such rows} as a ``RowHasher`` gives for all layers at once.
            input_ids: token ids [B, T] instead of rows; needs a hasher.
            mask: bool [B, T], True takes part. Elsewhere the result is 0, and no other position reads it.
            segment_ids [B, T] / cu_seqlens (B = 1): documents that share a row do not see each other.
            state: from ``new_state``; the convolution goes on where the state's last call ended (inference only).
        """
        given = hidden_states.shape
        hidden_states = with_branches("hidden_states", hidden_states, self.hc_mult, self.hidden_size)
        mask = as_mask(mask, hidden_states.shape[:2])
        where: dict[str, Any] = {"segment_ids": segment_ids, "cu_seqlens": cu_seqlens}
        tokens = hidden_states.shape[:2]
        own = rows_of_layer(rows, self.layer_id, self.row_hasher, input_ids, tokens, mask=mask, **where)
        embedded = self.multi_head_embedding(own).flatten(-2)
        if mask is not None:
            embedded = embedded.masked_fill(~mask[..., None], 0)
        projected = projection.joint_linear(to_parameters(self.value_proj, embedded), self._projections())
        conv = self.short_conv
        if state is not None or not (self._has_bare_norms() and is_bare(conv, ShortConv) and conv.has_bare_parts()):
            out, gate = self._by_parts(hidden_states, projected, mask, where, state)
            return (out.reshape(given), gate) if return_gate else out.reshape(given)
        dtype = formula.accumulate_dtype(hidden_states, projected)
        limit = look_back_limit(*tokens, **where, device=hidden_states.device)
        out, gate = dispatch.engram_mix(
            hidden_states,
            projected,
            self._gate_weight(dtype),
            conv.taps().to(dtype) * conv.norm_gains().to(dtype)[..., None],
            limit,
            mask,
            eps=self._eps(dtype),
            conv_eps=conv.norm_eps,
            dilation=conv.dilation,
            fused=self.fused,
        )
        return (out.reshape(given), gate) if return_gate else out.reshape(given)

    def new_state(self, batch: int) -> ConvState:
        """The convolution's state of ``batch`` sequences that have not begun."""
        return self.short_conv.new_state(batch)

    def reset_parameters(self) -> None:
        """Start values, as after construction (for a module that was built on the meta device)."""
        for part in (self.multi_head_embedding, self.short_conv, *self._projections(), *self.norm1, *self.norm2):
            part.reset_parameters()
        if self.row_hasher is not None:
            self.row_hasher.reset_parameters()
        keep_start_values(self)

    def _by_parts(self, hidden, projected, mask, where, state):
        """Result and gate with the convolution called as the module that it is, and the norms where they must be."""
        branches, width = self.hc_mult, self.hidden_size
        keys, value = projected.split([branches * width, width], -1)
        keys = keys.unflatten(-1, (branches, width))
        read = hidden if mask is None else hidden.masked_fill(~mask[..., None, None], 0)
        dtype = formula.accumulate_dtype(hidden, projected)
        if self._has_bare_norms():
            gate = dispatch.gate(read, keys, self._gate_weight(dtype), self._eps(dtype), False, fused=self.fused)
        else:
            keys, queries = (call_norms(norms, x).to(dtype) for norms, x in ((self.norm1, keys), (self.norm2, read)))
            gate = formula.gate_of_score((keys * queries).sum(-1) / math.sqrt(width), zero_is_positive=False)
        if mask is not None:
            gate = gate.masked_fill(~mask[..., None], 0)
        gated = gate[..., None] * value.to(gate.dtype)[:, :, None]
        out = gated + self.short_conv(gated, mask=mask, state=state, **where)
        if mask is not None:
            out = out.masked_fill(~mask[..., None, None], 0)
        return out.to(hidden.dtype), gate

    def _has_bare_norms(self) -> bool:
        return are_bare_norms([*self.norm1, *self.norm2], self.norm_eps)

    def _gate_weight(self, dtype: torch.dtype) -> Tensor:
        gains = [torch.stack([norm.weight for norm in norms]).to(dtype) for norms in (self.norm1, self.norm2)]
        return gains[0] * gains[1]

    def _eps(self, dtype: torch.dtype) -> float:
        return formula.default_eps(dtype) if self.norm_eps is None else self.norm_eps

    def _projections(self) -> list[nn.Linear]:
        return [*self.key_projs, self.value_proj]
