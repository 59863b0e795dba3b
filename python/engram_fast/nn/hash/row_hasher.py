"""An NgramHasher as a torch module: one call hashes for all layers of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..computed import ComputedBuffers
from ..documents import to_shape
from . import op
from .rules import HashRules, rules_of

if TYPE_CHECKING:
    from ...hash import NgramHasher


class RowHasher(ComputedBuffers):
    """Token ids [B, T] to {layer id: rows [B, T, C]}, on the ids' device; to be called once per forward of a model.

    The result goes to every ``Engram`` of the model as its ``rows``: each takes its own layer. Nothing is kept between
    calls, so a model that generates with a cache must not call it with the newest ids alone: it would hash them as if
    a document began there. Nothing enters the state of the model: the numbers belong to the hasher, which is saved on
    its own.

    Args:
        hasher: an ``NgramHasher``.
        layers: layer ids; None: all.
        add_offsets: rows count from the start of the layer's table; None: as the layout has it.
        int32: rows as int32; None: if every row number fits, as ``hasher.hash_batch`` decides it.
    """

    COMPUTED = ("lookup", "multipliers", "moduli", "offsets")
    lookup: Tensor | None
    multipliers: Tensor
    moduli: Tensor
    offsets: Tensor

    def __init__(
        self,
        hasher: NgramHasher,
        *,
        layers: Sequence[int] | None = None,
        add_offsets: bool | None = None,
        int32: bool | None = None,
    ) -> None:
        super().__init__()
        self.hasher = hasher
        layout = hasher.layout
        self.layout_json = layout.to_json()  # for the operator alone, whose graphs outlive this process
        self.layers = [int(layer) for layer in (layout.layer_ids if layers is None else layers)]
        unknown = [layer for layer in self.layers if layer not in layout.layer_ids]
        if unknown:
            raise ValueError(f"layers {unknown} are not among the layout's layers {list(layout.layer_ids)}")
        self.add_offsets = layout.adds_offsets if add_offsets is None else add_offsets
        self.int32 = self._fits_int32() if int32 is None else int32
        for name in self.COMPUTED:
            self.register_buffer(name, None, persistent=False)
        self.place_buffers(torch.device("cpu"))
        op.remember(self.layout_json, hasher)

    @property
    def rules(self) -> HashRules:
        """The rules of the layout that are not tensors."""
        return rules_of(self.layout_json)

    @classmethod
    def of(cls, hasher: NgramHasher | RowHasher | None) -> RowHasher | None:
        """A RowHasher as it is, an NgramHasher wrapped, None for none."""
        return hasher if hasher is None or isinstance(hasher, RowHasher) else cls(hasher)

    def forward(
        self,
        input_ids: Tensor,
        *,
        mask: Tensor | None = None,
        segment_ids: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        layers: Sequence[int] | None = None,
    ) -> dict[int, Tensor]:
        """One pass over the ids for all layers. The arguments are those of ``NgramHasher.hash_batch``."""
        chosen = self.layers if layers is None else [int(layer) for layer in layers]
        flat_row = cu_seqlens is not None and input_ids.ndim == 2
        if flat_row:
            if input_ids.shape[0] != 1:
                raise ValueError(
                    f"cu_seqlens needs flat ids [N] or one row [1, N]; got a batch of {input_ids.shape[0]} rows"
                )
            input_ids = input_ids[0]
        lookup, multipliers, moduli, offsets = self.buffers_on(input_ids.device)
        rows = op.hash_rows(
            input_ids,
            lookup,
            multipliers,
            moduli,
            offsets,
            to_shape("mask", mask, input_ids.shape),
            to_shape("segment_ids", segment_ids, input_ids.shape),
            cu_seqlens,
            self.layout_json,
            chosen,
            self.add_offsets,
            self.int32,
        )
        rows = rows[:, None] if flat_row else rows
        return dict(zip(chosen, rows.unbind(0), strict=True))

    def reset_parameters(self) -> None:
        """Compute the buffers anew."""
        self.place_buffers(self.moduli.device)

    def compute_buffers(self) -> dict[str, Tensor | None]:
        """Return the token map's look-up (int32) and the layout's numbers, first axis the layers (int64)."""
        layout, token_map = self.hasher.layout, self.hasher.token_map
        numbers: dict[str, Tensor | None] = {"lookup": None if token_map is None else torch.tensor(token_map.lookup)}
        for name in ("multipliers", "moduli", "offsets"):
            parts = [np.asarray(getattr(layout, name)[layer], dtype=np.int64) for layer in layout.layer_ids]
            numbers[name] = torch.from_numpy(np.stack(parts))
        return numbers

    def extra_repr(self) -> str:
        """Return the layers and the number of columns."""
        return f"layers={self.layers}, {self.moduli.shape[1]} columns"

    def _fits_int32(self) -> bool:
        """Whether `hash_batch` would give int32, asked with one masked token, for which no id is looked up."""
        probe = np.zeros((1, 1), np.int64)
        rows = self.hasher.hash_batch(probe, mask=probe.astype(bool), dtype=None, add_offsets=self.add_offsets)
        return rows.dtype == np.int32

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        op.remember(self.layout_json, self.hasher)


def split_layers(engram_rows: Tensor, layer_ids: Sequence[int]) -> dict[int, Tensor]:
    """Return the collator's ``engram_rows`` [B, L, T, C] as {layer id: rows [B, T, C]}."""
    if engram_rows.ndim != 4 or engram_rows.shape[1] != len(layer_ids):
        raise ValueError(f"engram_rows has shape {tuple(engram_rows.shape)}, expected [B, {len(layer_ids)}, T, C]")
    return dict(zip([int(layer) for layer in layer_ids], engram_rows.unbind(1), strict=True))


def rows_of_layer(
    rows: Tensor | Mapping[int, Tensor] | None,
    layer_id: int | None,
    hasher: RowHasher | None,
    input_ids: Tensor | None,
    tokens: torch.Size,
    **where: Tensor | None,
) -> Tensor:
    """Return the rows [B, T, C] of one layer, taken from what its caller passed and fitting its tokens [B, T]."""
    if rows is None and input_ids is not None:
        if hasher is None or layer_id is None:
            raise ValueError("input_ids= needs a module built with hasher= and layer_id=")
        own = hasher(input_ids, layers=[layer_id], **where)[layer_id]
    elif input_ids is not None:
        raise ValueError("rows and input_ids are both there; pass one of them")
    elif rows is None:
        raise TypeError("rows is None: pass the row numbers of this layer, or input_ids= to a module with a hasher")
    elif isinstance(rows, Mapping):
        if layer_id is None or layer_id not in rows:
            raise ValueError(f"rows hold the layers {list(rows)}, not layer {layer_id}")
        own = rows[layer_id]
    else:
        own = rows if isinstance(rows, Tensor) else torch.as_tensor(rows)
    if own.shape[:-1] != tokens:
        if own.shape == tokens:
            raise ValueError(
                f"rows has shape {tuple(own.shape)}, that of the tokens: pass row numbers [B, T, C], or the token ids "
                "as input_ids= to a module built with hasher= and layer_id="
            )
        raise ValueError(f"rows {tuple(own.shape)} and hidden_states of {tuple(tokens)} tokens differ in [B, T]")
    return own
