"""The Engram module of DeepSeek-V4.1: its parameters' names and arithmetic, float or fp8 tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .bare import to_parameters
from .computed import ComputedBuffers, keep_start_values
from .documents import as_mask, with_branches
from .gate import dispatch, formula
from .hash import RowHasher, rows_of_layer
from .quantized import QuantizedEmbedding, dequantize_blocks
from .row_check import check_rows, table_rows

if TYPE_CHECKING:
    from ..hash import NgramHasher
    from ..layout import HashLayout


class EngramV41(ComputedBuffers):
    """Hidden states [B, T, M, D] with the n-gram memory added.

    Names in the state are the checkpoint's: ``embed.weight`` [rows, head_dim] (and ``embed.scale`` for fp8 tables),
    ``wkv.weight`` [(M+1)*D, E] (M*D keys, then D value), ``q_weight``, ``k_weight`` [M, D].

    Args:
        hidden_size: D. hc_mult: M branches.
        num_embeddings: rows of the layer's table. head_dim: width of a row.
        n_heads: heads per order. max_ngram_size: the largest order; E = (max_ngram_size - 1) * n_heads * head_dim.
        eps: of the norms.
        sizes: rows of each head; with them each head is checked against its own part of the table.
        fp8: the table is float8_e4m3fn with one e8m0 scale per 32 channels, and is not trained.
        sparse: sparse gradients of a float table. init_std: of its start values.
        layer_id, hasher, fused: as of ``Engram``.

    >>> import torch
    >>> from engram_fast.nn import EngramV41
    >>> engram = EngramV41(hidden_size=16, hc_mult=4, num_embeddings=300, head_dim=8, n_heads=2, max_ngram_size=4)
    >>> engram(torch.randn(2, 5, 4, 16), torch.zeros(2, 5, 6, dtype=torch.int64)).shape
    torch.Size([2, 5, 4, 16])
    """

    COMPUTED = ("head_sizes", "head_starts")

    def __init__(
        self,
        *,
        hidden_size: int,
        hc_mult: int,
        num_embeddings: int,
        head_dim: int,
        n_heads: int,
        max_ngram_size: int,
        eps: float = 1e-20,
        sizes: Sequence[int] | None = None,
        fp8: bool = False,
        sparse: bool = False,
        init_std: float = 1.0,
        layer_id: int | None = None,
        hasher: NgramHasher | RowHasher | None = None,
        fused: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.hidden_size, self.hc_mult, self.heads, self.eps = hidden_size, hc_mult, (max_ngram_size - 1) * n_heads, eps
        self.num_embeddings, self.init_std, self.layer_id, self.fused = num_embeddings, init_std, layer_id, fused
        self.sizes = None if sizes is None else tuple(int(size) for size in sizes)
        if self.sizes is not None and (len(self.sizes) != self.heads or sum(self.sizes) > num_embeddings):
            raise ValueError(f"sizes {list(self.sizes)} do not fit {self.heads} heads and {num_embeddings} rows")
        self.embed: QuantizedEmbedding | nn.Embedding
        if fp8:
            self.embed = QuantizedEmbedding(num_embeddings, head_dim, device=device)
        else:
            table = torch.empty((num_embeddings, head_dim), device=device, dtype=dtype)
            self.embed = nn.Embedding(num_embeddings, head_dim, sparse=sparse, _weight=table)
        self.wkv = nn.Linear(self.heads * head_dim, (hc_mult + 1) * hidden_size, bias=False, **factory)
        self.q_weight = nn.Parameter(torch.empty((hc_mult, hidden_size), **factory))
        self.k_weight = nn.Parameter(torch.empty((hc_mult, hidden_size), **factory))
        self.row_hasher = RowHasher.of(hasher)
        self.register_buffer("head_sizes", None, persistent=False)
        self.register_buffer("head_starts", None, persistent=False)
        self.place_buffers(self.wkv.weight.device)
        if not self.wkv.weight.is_meta:
            self._reset_own()
        keep_start_values(self)

    @classmethod
    def from_config(cls, config: Any, *, layer_id: int, layout: HashLayout | None = None, **options: Any) -> EngramV41:
        """From a V4.1 configuration (its ``text_config``, or the whole), mapping or object, for one of its layers."""
        config = _read(config, "text_config", config)
        layer_ids = list(_read(config, "engram_layer_ids"))
        if layer_id not in layer_ids:
            raise ValueError(f"layer {layer_id} is not one of engram_layer_ids {layer_ids}")
        if layout is not None:
            options.setdefault("sizes", [int(size) for size in layout.moduli[layer_id]])
        options.setdefault("eps", _read(config, "engram_eps", 1e-20))
        return cls(
            hidden_size=_read(config, "hidden_size"),
            hc_mult=_read(config, "hc_mult"),
            num_embeddings=_read(config, "engram_num_embeddings")[layer_ids.index(layer_id)],
            head_dim=_read(config, "engram_head_dim"),
            n_heads=_read(config, "engram_n_heads"),
            max_ngram_size=_read(config, "engram_max_ngram_size"),
            layer_id=layer_id,
            **options,
        )

    def forward(
        self,
        hidden_states: Tensor,
        rows: Tensor | Mapping[int, Tensor] | None = None,
        mask: Tensor | None = None,
        *,
        input_ids: Tensor | None = None,
        segment_ids: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        return_gate: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """hidden_states + gate * value in their dtype; where ``mask`` [B, T] is False they come back as they are.

        rows: int32 or int64 [B, T, C] that count from the start of the table, or {layer id: such rows}. Documents
        (segment_ids, cu_seqlens) matter to the hash alone; they are read when ``input_ids`` are hashed here.
        """
        given = hidden_states.shape
        hidden_states = with_branches("hidden_states", hidden_states, self.hc_mult, self.hidden_size)
        mask = as_mask(mask, hidden_states.shape[:2])
        where = {"segment_ids": segment_ids, "cu_seqlens": cu_seqlens}
        tokens = hidden_states.shape[:2]
        own = rows_of_layer(rows, self.layer_id, self.row_hasher, input_ids, tokens, mask=mask, **where)
        own = check_rows(own, self.heads)
        sizes, starts = self.buffers_on(self.wkv.weight.device)
        embedded = self.embed(table_rows(own, sizes, starts, True)).flatten(-2)
        if mask is not None:
            embedded = embedded.masked_fill(~mask[..., None], 0)
        projected = self.wkv(to_parameters(self.wkv, embedded))
        keys, value = projected.split([self.hc_mult * self.hidden_size, self.hidden_size], -1)
        dtype = formula.accumulate_dtype(hidden_states, projected)
        weight = self.q_weight.to(dtype) * self.k_weight.to(dtype)
        keys = keys.unflatten(-1, (self.hc_mult, self.hidden_size))
        out, gate = dispatch.gated_add(hidden_states, keys, value, weight, mask, self.eps, True, fused=self.fused)
        return (out.reshape(given), gate) if return_gate else out.reshape(given)

    def reset_parameters(self) -> None:
        """Start values, as after construction (for a module that was built on the meta device)."""
        self._reset_own()
        self.wkv.reset_parameters()
        self.place_buffers(self.wkv.weight.device)
        if self.row_hasher is not None:
            self.row_hasher.reset_parameters()
        keep_start_values(self)

    def _reset_own(self) -> None:
        if isinstance(self.embed, QuantizedEmbedding):
            self.embed.reset_parameters()
        else:
            nn.init.normal_(self.embed.weight, std=self.init_std)
        nn.init.ones_(self.q_weight)
        nn.init.ones_(self.k_weight)

    def compute_buffers(self) -> dict[str, Tensor | None]:
        """Return the heads' sizes and first rows, int64 [C]; without sizes each head has the whole table."""
        sizes = torch.tensor(self.sizes or (self.num_embeddings,) * self.heads, dtype=torch.int64)
        starts = torch.zeros_like(sizes) if self.sizes is None else sizes.cumsum(0) - sizes
        return {"head_sizes": sizes, "head_starts": starts}

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing, unexpected, errors) -> None:
        names = ["wkv"] if isinstance(self.embed, QuantizedEmbedding) else ["wkv", "embed"]
        for name in names:  # fp8 in the checkpoint, float here
            scale = state_dict.pop(f"{prefix}{name}.scale", None)
            weight = state_dict.get(f"{prefix}{name}.weight")
            if scale is not None:
                state_dict[f"{prefix}{name}.weight"] = dequantize_blocks(weight, scale)
            elif weight is not None and weight.dtype == torch.float8_e4m3fn:
                errors.append(f"{prefix}{name}.weight is float8_e4m3fn and {prefix}{name}.scale is missing")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)


_REQUIRED = object()


def _read(config: Mapping | object, name: str, default: object = _REQUIRED):
    value = config.get(name, default) if isinstance(config, Mapping) else getattr(config, name, default)
    if value is _REQUIRED:
        raise ValueError(f"the configuration has no {name}")
    return value
