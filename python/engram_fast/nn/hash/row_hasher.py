"""An NgramHasher as a torch module: one call hashes for all layers of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from . import op
from .rules import numbers_of, rules_of

if TYPE_CHECKING:
    from ...hash import NgramHasher


class RowHasher(nn.Module):
    """Token ids [B, T] to {layer id: rows [B, T, C]}, on the ids' device; to be called once per forward of a model.

    The result goes to every ``Engram`` of the model as its ``rows``: each takes its own layer. Nothing is kept between
    calls, and nothing enters the state of the model: the numbers belong to the hasher, which is saved on its own.

    Args:
        hasher: an ``NgramHasher``. layers: layer ids; None for all. add_offsets: None as the layout has it.
        int32: rows as int32; None where every row number fits.
    """

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
        self.layout_json = hasher.layout.to_json()
        self.rules = rules_of(self.layout_json)
        self.layers = list(self.rules.layer_ids if layers is None else layers)
        unknown = [layer for layer in self.layers if layer not in self.rules.layer_ids]
        if unknown:
            raise ValueError(f"layers {unknown} are not among the layout's layers {list(self.rules.layer_ids)}")
        self.add_offsets = self.rules.adds_offsets if add_offsets is None else add_offsets
        self.int32 = self.rules.fits_int32 if int32 is None else int32
        for name in ("lookup", "multipliers", "moduli", "offsets"):
            self.register_buffer(name, None, persistent=False)
        self._rebuild_buffers(torch.device("cpu"))
        op.remember(self.layout_json, hasher)

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
        chosen = self.layers if layers is None else list(layers)
        flat_row = cu_seqlens is not None and input_ids.ndim == 2
        if flat_row:
            if input_ids.shape[0] != 1:
                raise ValueError(f"cu_seqlens needs one flat row of tokens, the batch has {input_ids.shape[0]}")
            input_ids, mask = input_ids[0], None if mask is None else mask[0]
        rows = op.hash_rows(
            input_ids,
            self.lookup,
            self.multipliers,
            self.moduli,
            self.offsets,
            mask,
            segment_ids,
            cu_seqlens,
            self.layout_json,
            chosen,
            self.add_offsets,
            self.int32,
        )
        rows = rows[:, None] if flat_row else rows
        return dict(zip(chosen, rows.unbind(0), strict=True))

    def reset_parameters(self) -> None:
        """The buffers again, where the module has been on the meta device."""
        self._rebuild_buffers(self.moduli.device)

    def extra_repr(self) -> str:
        return f"layers={self.layers}, {self.rules.columns} columns"

    def _rebuild_buffers(self, device: torch.device) -> None:
        token_map = self.hasher.token_map
        # The device is named, so that a model may be built under ``with torch.device("meta")``.
        self.lookup = None if token_map is None else torch.tensor(token_map.lookup, device=device)
        for name, part in zip(("multipliers", "moduli", "offsets"), numbers_of(self.layout_json), strict=True):
            setattr(self, name, torch.tensor(part, dtype=torch.int64, device=device))

    def _apply(self, fn, recurse=True):
        before = self.moduli
        super()._apply(fn, recurse)
        if self.moduli is not before:  # moved, or left undefined by to_empty()
            self._rebuild_buffers(self.moduli.device)
        return self

    def __setstate__(self, state):
        super().__setstate__(state)
        op.remember(self.layout_json, self.hasher)


def split_layers(engram_rows: Tensor, layer_ids: Sequence[int]) -> dict[int, Tensor]:
    """The collator's ``engram_rows`` [B, L, T, C] as {layer id: rows [B, T, C]}."""
    if engram_rows.ndim != 4 or engram_rows.shape[1] != len(layer_ids):
        raise ValueError(f"engram_rows has shape {tuple(engram_rows.shape)}, expected [B, {len(layer_ids)}, T, C]")
    return dict(zip(layer_ids, engram_rows.unbind(1), strict=True))


def rows_of_layer(
    rows: Tensor | Mapping[int, Tensor] | None,
    layer_id: int | None,
    hasher: RowHasher | None,
    input_ids: Tensor | None,
    **where: Tensor | None,
) -> Tensor:
    """The rows of one layer from whatever the caller has."""
    if rows is None and input_ids is not None:
        if hasher is None or layer_id is None:
            raise ValueError("input_ids need a module with a hasher and a layer_id; it has not both")
        return hasher(input_ids, layers=[layer_id], **where)[layer_id]
    if input_ids is not None:
        raise ValueError("rows and input_ids are both given; one is enough")
    if rows is None:
        raise TypeError("rows is None: pass the row numbers of this layer, or input_ids with a hasher")
    if isinstance(rows, Mapping):
        if layer_id is None or layer_id not in rows:
            raise ValueError(f"rows hold the layers {list(rows)}, not layer {layer_id}")
        return rows[layer_id]
    return rows if isinstance(rows, Tensor) else torch.as_tensor(rows)
