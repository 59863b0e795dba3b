"""`EngramCollator`: a collate function that adds the rows, in whichever process it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .collate import PadCollate
from .rows import DEFAULT_KEY, RowWriter

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..hasher import NgramHasher


class EngramCollator:
    """Wraps a collate function and adds `engram_rows`, a torch tensor [B, L, T, C], to its batch.

    Parameters
    ----------
    hasher
        An `NgramHasher`.
    base
        Any collate function that returns a mapping with `input_ids`: transformers' and TRL's collators, or your own.
        None takes torch's default collate, which here also pads examples of different lengths.
    layer_axis
        1: [B, L, T, C], batch first, so that tools which slice batches work; 0: [L, B, T, C]; -2: [B, T, L, C].
    per_layer
        One key per layer instead, `engram_rows_<layer id>`, each [B, T, C].
    layers, dtype, add_offsets
        As in `NgramHasher.hash_batch`; the dtype is int32 where every row number fits.
    num_threads
        None: one in a DataLoader worker, otherwise the hasher's default.
    pin_memory
        Page-locked tensors, for a loader without workers. With workers use `DataLoader(pin_memory=True)`.
    ignore
        Keys of the batch that say nothing about documents here, for example `("position_ids",)`.
    pad_token_id
        What the default base pads `input_ids` with.

    Look-backs stop at what the batch says: `attention_mask` (padding on any side), and `segment_ids` or `seq_idx`, else
    `cu_seq_lens_q` or `cu_seqlens`, else `position_ids` that do not go on by 1. Each document of a packed or padded
    row has the rows it has alone. Ids are hashed as the base leaves them; labels are never looked at.

    >>> from torch.utils.data import DataLoader
    >>> loader = DataLoader(dataset, batch_size=8, num_workers=2, collate_fn=EngramCollator(hasher))  # doctest: +SKIP
    """

    def __init__(
        self,
        hasher: NgramHasher,
        base: Callable[[Sequence[Any]], Any] | None = None,
        layer_axis: int = 1,
        *,
        per_layer: bool = False,
        layers: Sequence[int] | None = None,
        dtype: DTypeLike | None = None,
        add_offsets: bool | None = None,
        num_threads: int | None = None,
        pin_memory: bool = False,
        key: str = DEFAULT_KEY,
        ids_key: str = "input_ids",
        ignore: Sequence[str] = (),
        pad_token_id: int = 0,
    ) -> None:
        self.base = PadCollate(pad_token_id, ids_key) if base is None else base
        self._writer = RowWriter(
            hasher,
            layer_axis=layer_axis,
            per_layer=per_layer,
            layers=layers,
            dtype=dtype,
            add_offsets=add_offsets,
            num_threads=num_threads,
            pin_memory=pin_memory,
            key=key,
            ids_key=ids_key,
            ignore=ignore,
        )

    @property
    def hasher(self) -> NgramHasher:
        """Return the hasher."""
        return self._writer.hasher

    def __call__(self, examples: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """Return the batch of `base` with the rows."""
        return self._writer.add(self.base(examples, *args, **kwargs))

    def __repr__(self) -> str:
        return f"EngramCollator({self.hasher!r}, base={self.base!r}, layer_axis={self._writer.layer_axis})"
