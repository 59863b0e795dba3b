"""The oracle: hashing with given numbers, one plain NumPy function for each step, never importing the core.

    raw ids --compress--> ids --reach, window--> N values per position --mix--> one value per column --modulo--> row

A layout is the parsed layout JSON, a dictionary as `reference.layouts.preset` returns it. Shapes: L layers, R rows of
a batch, T tokens, N look-backs (k = 0 is the current token), C columns. Arrays are int64 if a docstring names no other
type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .document import Layout, token_map_id

INT64_MAX = 2**63 - 1


# ---- arguments ----------------------------------------------------------------------------------------------------


def integers(name: str, values: Any, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Return `values` as an array of Python integers, so that uint64 and int64 mix without loss.

    Raises:
        TypeError: they are not integers; bool is none.
        ValueError: their shape is not `shape`.
    """
    array = np.asarray(values)
    if array.size == 0 and isinstance(values, (list, tuple)):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name}: {array.dtype} is not an integer dtype")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name}: shape {array.shape} differs from {shape}, that of the ids")
    objects: np.ndarray = array.astype(object)
    return objects


def alive_positions(mask: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return which positions take part, bool in `shape`, which is that of the ids.

    `mask` holds bool or the integers 0 and 1; None keeps every position.

    Raises:
        TypeError: the mask holds no integers.
        ValueError: it has another shape or another number.
    """
    if mask is None:
        return np.ones(shape, dtype=bool)
    mask = np.asarray(mask)
    values = integers("mask", mask if mask.dtype != bool else mask.astype(np.int64), shape)
    if bad := set(values.ravel()) - {0, 1}:
        raise ValueError(f"mask: {min(bad)} is neither 0 nor 1")
    alive: np.ndarray = values == 1
    return alive


def packed_starts(cu_seqlens: Any, length: int) -> set[int]:
    """Return the positions at which the segments of flat ids begin.

    Raises:
        TypeError: the bounds are not integers.
        ValueError: they do not rise from 0 to `length`; equal neighbours are allowed.
    """
    bounds = list(integers("cu_seqlens", cu_seqlens))
    if not bounds or bounds[0] != 0 or bounds[-1] != length or bounds != sorted(bounds):
        raise ValueError(f"cu_seqlens: {bounds} does not rise from 0 to {length}")
    return set(bounds)


# ---- the steps ----------------------------------------------------------------------------------------------------


def compress(
    layout: Layout, ids: np.ndarray, alive: np.ndarray, lookup: np.ndarray | None, place: Callable[[int, int], str]
) -> np.ndarray:
    """Return the values that are multiplied, int64 [R,T], for raw ids [R,T].

    A position that is not alive gets the fill; its id is neither looked up nor checked. The layout's "ids" decides
    whether a negative or a too large id is an error or enters unmapped. No id past 2^63-1 enters.

    Raises:
        IndexError: an id is outside its range; the message names id, place and limit.
    """
    policy = layout["ids"]
    limits = [n for n in (policy["limit"], None if lookup is None else len(lookup)) if n is not None]
    limit = min(limits, default=INT64_MAX + 1)
    known = f"the token map of {limit} ids" if lookup is not None else f"the vocabulary of {limit} ids"
    known = known if limits else f"the ids from 0 to {INT64_MAX}"
    values = np.full(ids.shape, layout["fill"], dtype=np.int64)
    for r, t in zip(*np.nonzero(alive), strict=True):
        value = ids[r, t]
        inside = 0 <= value < limit
        refused = policy["negative" if value < 0 else "too_large"] == "error"
        if not inside and (refused or value > INT64_MAX):
            raise IndexError(f"token id {value} at {place(r, t)} is outside {known}")
        values[r, t] = lookup[value] if inside and lookup is not None else value
    return values


def reach(layout: Layout, ids: np.ndarray, alive: np.ndarray, segments: np.ndarray, starts: set[int]) -> np.ndarray:
    """Return the number of tokens that each position may read, itself included, int64 [R,T].

    The number is 0 at a masked position. It is 1 at the start of a row or of a packed segment, at a change of the
    segment id, and after a boundary id. Elsewhere it is one more than at the position before. So a token that ends the
    look-back also hides everything older. Boundary ids are compared raw, and keep their own look-back.
    """
    run = np.zeros(ids.shape, dtype=np.int64)
    for r, t in np.ndindex(*ids.shape):
        if not alive[r, t]:
            continue
        begins = t == 0 or t in starts or segments[r, t] != segments[r, t - 1]
        run[r, t] = 1 if begins or ids[r, t - 1] in layout["boundary_ids"] else run[r, t - 1] + 1
    return run


def window(values: np.ndarray, run: np.ndarray, fill: int, max_order: int) -> np.ndarray:
    """Return w, int64 [R,T,N]: w[r,t,k] is values[r,t-k] if k < run[r,t], else `fill`."""
    w = np.full((*values.shape, max_order), fill, dtype=np.int64)
    for r, t in np.ndindex(*values.shape):
        for k in range(min(int(run[r, t]), max_order)):
            w[r, t, k] = values[r, t - k]
    return w


def column_orders(layout: Layout) -> list[int]:
    """Return the n-gram order of each column."""
    if layout["columns"] == "order-major":
        return [order for order in layout["orders"] for _ in range(layout["heads"])]
    return [order for _ in range(layout["heads"]) for order in layout["orders"]]


def coefficients(layout: Layout, layer: dict[str, Any]) -> np.ndarray:
    """Return the factor of each look-back in each column, int64 [C,N]; 0 if the column does not read it.

    A layer with one multiplier for each look-back uses them in all columns: order n takes the first n. Multiplier i
    belongs to look-back i, or to look-back N-1-i if the layout aligns to the oldest token.
    """
    multipliers = np.array(layer["multipliers"], dtype=np.int64)
    if multipliers.ndim == 2:
        return multipliers
    orders, n_max = column_orders(layout), layout["max_order"]
    spread = np.zeros((len(orders), n_max), dtype=np.int64)
    for c, order in enumerate(orders):
        for i in range(order):
            spread[c, i if layout["align"] == "newest" else n_max - 1 - i] = multipliers[i]
    return spread


def mix(w: np.ndarray, coefficient: np.ndarray, how: str, word_bits: int) -> np.ndarray:
    """Return the XOR or the sum of the products over the look-backs, int64 [R,T,C].

    Words wrap at `word_bits` and keep their sign. A coefficient of 0 changes neither XOR nor sum. The low 32 bits of
    the result depend on the low 32 bits of the products alone, so cutting to 32 bits at the end is enough.
    """
    products = w[:, :, None, :].astype(np.uint64) * coefficient.astype(np.uint64)
    mixed = (np.bitwise_xor if how == "xor" else np.add).reduce(products, axis=-1)
    words: np.ndarray = mixed.view(np.int64)
    if word_bits == 32:
        words = (mixed & np.uint64(2**32 - 1)).astype(np.uint32).view(np.int32).astype(np.int64)
    return words


def layer_rows(layout: Layout, layer: dict[str, Any], w: np.ndarray, add_offsets: bool) -> np.ndarray:
    """Return the table rows of one layer, int64 [R,T,C]: floor modulo by column, then the offset if `add_offsets`."""
    mixed = mix(w, coefficients(layout, layer), layout["mix"], layout["word_bits"])
    rows: np.ndarray = np.mod(mixed, np.array(layer["moduli"], dtype=np.int64))
    return rows + np.array(layer["offsets"], dtype=np.int64) if add_offsets else rows


# ---- all of it ----------------------------------------------------------------------------------------------------


def hash_rows(
    layout: Layout,
    ids: Any,
    *,
    lookup: np.ndarray | None = None,
    mask: Any = None,
    segment_ids: Any = None,
    cu_seqlens: Any = None,
    add_offsets: bool | None = None,
    past: Any = None,
) -> np.ndarray:
    """Return the table rows of raw ids for every layer.

    Args:
        layout: the layout.
        ids: integers [B,T], or flat [N].
        lookup: the token map, int [n], if the layout has one.
        mask: bool or 0/1 in the shape of the ids; False takes no part.
        segment_ids: integers in the shape of the ids; look-back stops at a change.
        cu_seqlens: the bounds of the segments of flat ids, integers [S+1].
        add_offsets: whether rows count through all columns; None: as the layout does.
        past: raw ids [B,P] or [P] that came before, oldest first. All take part, in the segment of the first id.

    Returns:
        int64 [L,B,T,C], or [L,N,C] for flat ids.

    Raises:
        TypeError: an argument has a wrong dtype.
        ValueError: an argument has a wrong shape or value, or the token map is not the layout's.
        IndexError: an id is outside its range.
    """
    check_token_map(layout, lookup)
    ids = integers("ids", ids)
    if ids.ndim not in (1, 2):
        raise ValueError(f"ids: {ids.ndim} dimensions; one (flat) or two ([B,T]) are accepted")
    flat = ids.ndim == 1
    if cu_seqlens is not None and (not flat or past is not None):
        raise ValueError("cu_seqlens: for flat ids without a past only")
    alive = alive_positions(mask, ids.shape)
    segments = integers("segment_ids", np.zeros(ids.shape, np.int64) if segment_ids is None else segment_ids, ids.shape)
    starts = packed_starts(cu_seqlens, len(ids)) if cu_seqlens is not None else set()

    ids, alive, segments = (np.atleast_2d(a) if flat else a for a in (ids, alive, segments))
    before = integers("past", np.zeros((len(ids), 0), np.int64) if past is None else past)
    before = before[None] if before.ndim == 1 else before
    length = before.shape[1]
    if len(before) != len(ids):
        raise ValueError(f"past: {len(before)} rows for {len(ids)} rows of ids")
    ids = np.concatenate([before, ids], axis=1)
    alive = np.pad(alive, ((0, 0), (length, 0)), constant_values=True)
    first = segments[:, :1] if segments.size else np.zeros((len(ids), 1), object)
    segments = np.concatenate([np.repeat(first, length, axis=1), segments], axis=1)

    def place(r: int, t: int) -> str:
        where = f"position {t - length}" if flat else f"row {r}, column {t - length}"
        return where if t >= length else f"row {r}, column {t} of the past"

    values = compress(layout, ids, alive, lookup, place)
    w = window(values, reach(layout, ids, alive, segments, starts), layout["fill"], layout["max_order"])[:, length:]
    add = layout["adds_offsets"] if add_offsets is None else add_offsets
    rows = np.stack([layer_rows(layout, layer, w, add) for layer in layout["layers"]])
    return rows[:, 0] if flat else rows


def check_token_map(layout: Layout, lookup: np.ndarray | None) -> None:
    """Raise ValueError if `lookup` is not the token map that the layout was made for."""
    wanted = layout["token_map"]
    given = None if lookup is None else token_map_id(lookup)
    if given != wanted:
        raise ValueError(f"token_map: the layout was made for {wanted}, not for {given}")


def stream(
    layout: Layout,
    chunks: Sequence[Any],
    *,
    masks: Iterable[Any] | None = None,
    segment_ids: Iterable[Any] | None = None,
    **options: Any,
) -> list[np.ndarray]:
    """Return the rows of a stream that comes in chunks: slices of the rows of all chunks joined.

    Args:
        layout: the layout.
        chunks: ids [B,t], oldest chunk first.
        masks: one mask or None for each chunk; without one all ids take part.
        segment_ids: one array or None for each chunk. A chunk without segment ids continues the segment before it, and
            chunks before the first segment id belong to that segment.
        options: other arguments of `hash_rows`.

    Returns:
        One int64 [L,B,t,C] for each chunk.

    Raises:
        TypeError, ValueError, IndexError: as `hash_rows`.
    """
    chunks = [np.asarray(chunk) for chunk in chunks]
    masks = [None] * len(chunks) if masks is None else masks
    segment_ids = [None] * len(chunks) if segment_ids is None else segment_ids
    alive = [alive_positions(mask, chunk.shape) for mask, chunk in zip(masks, chunks, strict=True)]
    parts = [
        np.full(chunk.shape, None) if given is None else integers("segment_ids", given, chunk.shape)
        for given, chunk in zip(segment_ids, chunks, strict=True)
    ]
    segments = np.concatenate(parts, axis=1)
    for row in segments:
        current = next((segment for segment in row if segment is not None), 0)
        labels: dict[int, int] = {}
        for t, segment in enumerate(row):
            current = current if segment is None else segment
            row[t] = labels.setdefault(current, len(labels))
    where: dict[str, Any] = {"mask": np.concatenate(alive, axis=1), "segment_ids": segments.astype(np.int64)}
    whole = hash_rows(layout, np.concatenate(chunks, axis=1), **where, **options)
    return np.split(whole, np.cumsum([chunk.shape[1] for chunk in chunks])[:-1], axis=2)


def segments_from_position_ids(position_ids: Any) -> np.ndarray:
    """Return the segment ids of packed rows, int64 in the shape [T] or [B,T] of `position_ids`.

    A segment begins at a position id that is 0, or that is not one more than the id before it. The segments of a row
    are numbered from 0.

    Raises:
        TypeError: the position ids are not integers.
    """
    positions = integers("position_ids", position_ids)
    begins = np.ones(positions.shape, dtype=bool)
    begins[..., 1:] = (positions[..., 1:] == 0) | (positions[..., 1:] != positions[..., :-1] + 1)
    return np.cumsum(begins, axis=-1, dtype=np.int64) - 1
