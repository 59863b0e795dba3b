"""`EngramCollator`: a collate function that adds the rows, in whichever process it runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .boundaries import Boundaries
from .collate import PadCollate
from .rows import DEFAULT_KEY, RowWriter

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..hash import NgramHasher
    from .boundary_names import Kind


class EngramCollator:
    """Wraps a collate function and adds `engram_rows`, a torch tensor [B, L, T, C], to its batch.

    Look-backs stop where the batch says that documents end: each document of a packed or padded row has the rows that
    it has alone. The keys are those of transformers, TRL, torchtune, torchtitan, axlearn, MaxText, OLMo-core, NeMo,
    Megatron and Grain (docs/data.md lists them): segment numbers (`segment_ids`, `seq_idx`, …), else cumulative lengths
    (`cu_seqlens`, `cu_seq_lens_q`, …), else lengths (`seq_lengths`, `doc_lens`, …), else positions that do not go on
    by 1 (`position_ids`, `input_pos`, …); and `attention_mask` for padding on any side. Ids are hashed as the base
    leaves them; labels are never looked at.

    Args:
        hasher: the hasher.
        base: any collate function that returns a mapping with `input_ids`: transformers' and TRL's collators, or your
            own. None takes torch's default collate, which here also pads examples of different lengths.
        layer_axis: 1: [B, L, T, C], batch first, so that tools which slice batches work; 0: [L, B, T, C];
            -2: [B, T, L, C].
        per_layer: one key for each layer instead, `engram_rows_<layer id>`, each [B, T, C].
        layers, dtype, add_offsets: as in `NgramHasher.hash_batch`; the dtype is int32 if every row number fits.
        num_threads: None: one in a DataLoader worker, otherwise the hasher's default.
        pin_memory: page-locked tensors, for a loader without workers. With workers use `DataLoader(pin_memory=True)`.
        key: the key of the rows.
        ids_key: the key of the ids.
        ignore: keys of the batch that say nothing about documents here, for example `("position_ids",)`.
        boundary_keys: more keys that do, with their kinds: "segment ids", "position ids", "lengths", "cumulative
            lengths" or "mask". They come before the known ones.
        boundaries: "required" refuses a batch that does not say where documents end, for example because a Trainer
            dropped the column; a mask alone does not say it.
        pad_token_id: the value with which the default base pads `input_ids`.

    Raises:
        ValueError: when called: a boundary does not fit the ids; a key looks like a boundary and is not understood;
            `base` left out a boundary that the examples have; the batch has rows already.
        TypeError: when called: the batch is no mapping; ids or boundaries are no integers.
        IndexError: when called: an id outside the vocabulary.

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
        boundary_keys: Mapping[str, Kind] | None = None,
        boundaries: str = "auto",
        pad_token_id: int = 0,
    ) -> None:
        self.base = PadCollate(pad_token_id, ids_key, boundary_keys) if base is None else base
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
            boundaries=Boundaries(ids_key, ignore=ignore, boundary_keys=boundary_keys, boundaries=boundaries),
        )

    @property
    def hasher(self) -> NgramHasher:
        """Return the hasher."""
        return self._writer.hasher

    def __call__(self, examples: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """Return the batch of `base` with the rows."""
        batch = self.base(examples, *args, **kwargs)
        if isinstance(examples, (list, tuple)) and examples and isinstance(batch, Mapping):
            self._refuse_lost_boundaries(examples, batch)
        return self._writer.add(batch)

    def _refuse_lost_boundaries(self, examples: Sequence[Any], batch: Mapping[str, Any]) -> None:
        """Refuse a batch that says nothing of documents though its examples do: rows would cross them unseen."""
        rules = self._writer.boundaries
        if rules.sort(batch).ends or not isinstance(examples[0], Mapping):
            return
        for name, _ in rules.sort(examples[0]).ends:
            value = examples[0][name]
            if getattr(value, "ndim", 1 if hasattr(value, "__len__") else 0) > 0:
                raise ValueError(
                    f"the examples have {name!r}, which says where documents end, and the batch of the base collate "
                    f"function has no such key: keep it there, or leave it out with ignore=({name!r},)"
                )
        ids = batch.get(rules.ids_key, examples)
        if len(ids) < len(examples) and getattr(ids, "ndim", 0) == 2:
            self._refuse_unmarked_packing(examples, math.prod(ids.shape))

    def _refuse_unmarked_packing(self, examples: Sequence[Mapping[str, Any]], tokens: int) -> None:
        """Refuse rows that hold all ids of more examples than there are rows, and do not say where those end."""
        ids_key = self._writer.ids_key
        try:
            total = sum(len(example[ids_key]) for example in examples)
        except (KeyError, TypeError):
            return
        if total == tokens > 0:
            raise ValueError(
                f"the base collate function packed {len(examples)} examples and its batch does not say where they end: "
                "let it return position_ids, seq_idx or cu_seq_lens_q"
            )

    def __repr__(self) -> str:
        return f"EngramCollator({self.hasher!r}, base={self.base!r}, layer_axis={self._writer.layer_axis})"
