"""The tokens that an n-gram consists of: the core's window once more in NumPy, for people to look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..hash import NgramHasher


def reach(
    hasher: NgramHasher,
    ids: NDArray[Any],
    mask: NDArray[Any] | None = None,
    segment_ids: NDArray[Any] | None = None,
    cu_seqlens: NDArray[Any] | None = None,
) -> NDArray[np.int64]:
    """Return how many consecutive tokens each position of `ids` [B, T] may read, itself included; 0 if it is masked."""
    begins = np.zeros(ids.shape, dtype=bool)
    begins[:, :1] = True
    if hasher.layout.boundary_ids:
        begins[:, 1:] |= np.isin(ids[:, :-1], hasher.layout.boundary_ids)
    if segment_ids is not None:
        segment_ids = np.atleast_2d(segment_ids)
        begins[:, 1:] |= segment_ids[:, 1:] != segment_ids[:, :-1]
    if cu_seqlens is not None:
        starts = cu_seqlens.astype(np.int64)
        begins[:, starts[starts < ids.shape[1]]] = True
    alive = np.ones(ids.shape, dtype=bool) if mask is None else np.atleast_2d(mask) != 0
    begins[:, 1:] |= ~alive[:, :-1]
    at = np.arange(ids.shape[1])
    return np.where(alive, at - np.maximum.accumulate(np.where(begins, at, 0), axis=1) + 1, 0)


def look_backs_of_order(hasher: NgramHasher, order: int) -> tuple[int, ...]:
    """Return the look-backs that an order reads, oldest first: 0 is the current token.

    These are the newest tokens of the window, or its oldest ones if the layout aligns orders to the oldest token.
    """
    oldest = order - 1 if hasher.layout.align == "newest" else hasher.layout.max_order - 1
    return tuple(range(oldest, oldest - order, -1))


def columns_of_order(hasher: NgramHasher, order: int) -> tuple[int, ...]:
    """Return the columns that hash n-grams of `order` tokens."""
    return tuple(c for c, of in enumerate(hasher.layout.column_orders) if of == order)


def ngram(
    hasher: NgramHasher, ids: NDArray[Any], t: int, run: int, look_backs: tuple[int, ...]
) -> tuple[tuple[int | None, ...], tuple[int, ...]]:
    """Return the n-gram at position `t`, which may read `run` tokens: its raw ids, and the values that are hashed.

    A raw id is None if its look-back is out of reach; its value is then the layout's fill.
    """
    layout, token_map = hasher.layout, hasher.token_map
    raw = tuple(int(ids[t - k]) if k < run else None for k in look_backs)

    def value(token: int | None) -> int:
        if token is None:
            return layout.fill
        if token_map is None or not 0 <= token < min(len(token_map), layout.id_limit or len(token_map)):
            return token
        return int(token_map.lookup[token])

    return raw, tuple(map(value, raw))


def decoder(decode: Any) -> Callable[[tuple[int | None, ...]], str | None]:
    """Return a function from an n-gram's raw ids to its text; the text is None if `decode` is.

    Raises:
        TypeError: `decode` is neither a function nor has a method `decode`.
    """
    if decode is None:
        return lambda raw: None
    if not callable(getattr(decode, "decode", None)):
        if not callable(decode):
            raise TypeError(f"decode: expected a function or a tokenizer, got {type(decode).__name__}")
        return lambda raw: decode([token for token in raw if token is not None])

    def text(raw: tuple[int | None, ...]) -> str:
        known = [token for token in raw if token is not None]
        try:
            return str(decode.decode(known, skip_special_tokens=False))
        except TypeError:  # the decoder lacks that option, and drops nothing
            return str(decode.decode(known))

    return text
