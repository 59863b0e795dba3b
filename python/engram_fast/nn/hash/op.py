"""Hashing as the torch operator ``engram_fast::hash_rows``: the core on CPU tensors, torch or Triton elsewhere.

An operator is opaque to ``torch.compile`` and ``torch.export``: a model that hashes inside stays one graph. Its
arguments are tensors, numbers and the layout's JSON, so an exported graph needs nothing of the process that made it.
"""

# No `from __future__ import annotations`: torch 2.4 reads an operator's schema from real annotations.
from typing import Any, Optional, Sequence  # noqa: UP035

import numpy as np
import torch
from torch import Tensor

from ...hash import NgramHasher
from ...layout import HashLayout
from ...token_map import TokenMap
from ..documents import as_mask
from ..gate.dispatch import use_triton
from . import formula
from .rules import rules_of

_HASHERS: dict[str, Any] = {}  # by the layout's JSON, which contains the token map's digest; the latest come last
_KEPT = 64  # a hasher that was dropped is built again when it is needed


# The operator's schema is read from these annotations; torch 2.4 knows neither `X | None` nor collections.abc there.
@torch.library.custom_op("engram_fast::hash_rows", mutates_args=())
def hash_rows(
    ids: Tensor,
    lookup: Optional[Tensor],  # noqa: UP045
    multipliers: Tensor,
    moduli: Tensor,
    offsets: Tensor,
    mask: Optional[Tensor],  # noqa: UP045
    segment_ids: Optional[Tensor],  # noqa: UP045
    cu_seqlens: Optional[Tensor],  # noqa: UP045
    layout: str,
    layers: Sequence[int],
    add_offsets: bool,
    int32: bool,
) -> Tensor:
    """Token ids [B, T] (or flat [N]) to rows [len(layers), B, T, C] (or [.., N, C]), int64 or int32.

    Args:
        lookup: of the token map, int32; None for layouts on raw ids.
        multipliers, moduli, offsets: of all layers of the layout, int64, first axis the layers.
        mask: bool or 0/1. segment_ids: like ids. cu_seqlens: for flat ids.
        layout: ``HashLayout.to_json()``. layers: layer ids, in the result's order.
    """
    check_where(ids, mask, segment_ids, cu_seqlens)
    rules = rules_of(layout)
    flat = ids.ndim == 1
    index = [rules.layer_ids.index(layer) for layer in layers]
    numbers: list[Any] = [part[index] for part in (multipliers, moduli, offsets)]
    where = {"mask": _row(mask, flat), "segment_ids": _row(segment_ids, flat), "cu_seqlens": cu_seqlens}
    run: Any = formula.hash_rows
    if use_triton(ids):
        from .triton import hash_rows as run
    numbers[2] = numbers[2] if add_offsets else None
    rows = run(_row(ids, flat), lookup, *numbers, rules, **where)
    rows = rows[:, 0] if flat else rows
    return rows.to(torch.int32 if int32 else torch.int64).contiguous()


@hash_rows.register_kernel("cpu")
def _(ids, lookup, multipliers, moduli, offsets, mask, segment_ids, cu_seqlens, layout, layers, add_offsets, int32):
    hasher = _HASHERS.get(layout) or _rebuild(layout, lookup)
    rows = hasher.hash_batch(
        _numpy(ids),
        dtype=np.int32 if int32 else np.int64,
        layers=list(layers),
        add_offsets=add_offsets,
        mask=_numpy(mask),
        segment_ids=_numpy(segment_ids),
        cu_seqlens=_numpy(cu_seqlens),
    )
    return torch.from_numpy(rows)


@hash_rows.register_fake
def _(ids, lookup, multipliers, moduli, offsets, mask, segment_ids, cu_seqlens, layout, layers, add_offsets, int32):
    dtype = torch.int32 if int32 else torch.int64
    return ids.new_empty((len(layers), *ids.shape, moduli.shape[1]), dtype=dtype)


def remember(layout_json: str, hasher: object) -> None:
    """Let CPU calls with this layout use ``hasher``; without it the first call builds an equal one."""
    _HASHERS.pop(layout_json, None)
    _HASHERS[layout_json] = hasher
    while len(_HASHERS) > _KEPT:
        _HASHERS.pop(next(iter(_HASHERS)), None)


def check_where(ids: Tensor, mask: Tensor | None, segment_ids: Tensor | None, cu_seqlens: Tensor | None) -> None:
    """Shapes and dtypes of the arguments, before any work."""
    if ids.dtype.is_floating_point or ids.dtype in (torch.bool, torch.complex64, torch.complex128):
        raise TypeError(f"token ids must be integers, not {ids.dtype}")
    if ids.ndim not in (1, 2):
        raise ValueError(f"token ids must be [B, T] or flat [N], not {tuple(ids.shape)}")
    as_mask(mask, ids.shape)
    if segment_ids is not None and segment_ids.shape != ids.shape:
        raise ValueError(f"segment_ids has shape {tuple(segment_ids.shape)}, the tokens have {tuple(ids.shape)}")
    if cu_seqlens is not None and ids.ndim != 1:
        raise ValueError(f"cu_seqlens needs flat ids, these have shape {tuple(ids.shape)}")


def _row(tensor: Tensor | None, flat: bool) -> Tensor | None:
    return tensor[None] if flat and tensor is not None else tensor


def _numpy(tensor: Tensor | None) -> np.ndarray | None:
    return None if tensor is None else tensor.detach().numpy()


def _rebuild(layout: str, lookup: Tensor | None) -> NgramHasher:
    token_map = None if lookup is None else TokenMap.from_lookup(lookup.numpy())
    hasher = NgramHasher(HashLayout.from_json(layout), token_map)
    remember(layout, hasher)
    return hasher
