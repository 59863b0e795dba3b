"""The n-grams behind rows: those of some tokens with the rows that they read, and those of a corpus that read a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _checks
from ..ids import as_integers
from .ngrams import columns_of_order, decoder, look_backs_of_order, ngram, reach

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ..hash import NgramHasher

__all__ = ["RowReader", "TracedNgram", "find_row", "trace"]


@dataclass(frozen=True)
class TracedNgram:
    """An n-gram that one layer looks up at one position. Sequences run from the oldest token to the newest."""

    place: tuple[int, ...]
    """`(row, column)`, or `(position,)` in flat ids."""
    layer: int
    order: int
    """Tokens in the n-gram."""
    look_backs: tuple[int, ...]
    """How far back each token stands; 0 is the token at `place`."""
    ids: tuple[int | None, ...]
    """Raw ids; None if the look-back is out of reach."""
    values: tuple[int, ...]
    """The values that are hashed: compressed ids, or the layout's fill if the look-back is out of reach."""
    text: str | None
    """The ids in reach as text; None without a decoder."""
    columns: tuple[int, ...]
    """The columns that hash this n-gram, one per head."""
    rows: tuple[int, ...]
    """The table row of each of these columns."""

    @property
    def is_fill(self) -> tuple[bool, ...]:
        """For each token, whether it is the fill."""
        return tuple(token is None for token in self.ids)


@dataclass(frozen=True)
class RowReader:
    """An n-gram that reads a row, and the number of times that it occurs; fields as in `TracedNgram`."""

    layer: int
    column: int
    order: int
    ids: tuple[int | None, ...]
    values: tuple[int, ...]
    text: str | None
    count: int


def trace(
    ids: ArrayLike,
    hasher: NgramHasher,
    decode: Any = None,
    *,
    layers: Iterable[int] | None = None,
    add_offsets: bool | None = None,
    mask: ArrayLike | None = None,
    segment_ids: ArrayLike | None = None,
    cu_seqlens: ArrayLike | None = None,
) -> list[TracedNgram]:
    """Return the n-gram of every position, layer and order with its rows, for people to look at; it is slow.

    Args:
        ids: raw ids, `[N]` or `[B, T]`.
        hasher: the hasher.
        decode: a function from a list of raw ids to text, or an object with such a method `decode`, which every
            tokenizer has.
        layers: as in `NgramHasher.hash_batch`.
        add_offsets: likewise.
        mask: likewise.
        segment_ids: likewise.
        cu_seqlens: likewise.

    Returns:
        The n-grams by position, then by layer as in `layers`, then by ascending order.

    Raises:
        TypeError: `hasher` is no `NgramHasher`, or `decode` no decoder; and the errors of `hash_batch`.

    >>> import engram_fast as ef
    >>> layout = ef.HashLayout.preset("qwen-ple", ngram_vocab_size_base=100, heads_per_ngram=1)
    >>> for ngram in ef.NgramHasher(layout).trace([7, 9]):
    ...     print(ngram.place, ngram.layer, ngram.ids, ngram.rows)
    (0,) 2 (None, 7) (93,)
    (0,) 2 (None, None, 7) (156,)
    (1,) 2 (7, 9) (88,)
    (1,) 2 (None, 7, 9) (120,)
    """
    layers = _checks.hasher(hasher).layout.layer_ids if layers is None else layers
    if not isinstance(layers, Iterable):
        raise TypeError(f"layers: expected None or a sequence of layer ids, got {_checks.shown(layers)}")
    layers = tuple(layers)
    array = as_integers(ids, "ids", False)
    where: dict[str, Any] = {"mask": mask, "segment_ids": segment_ids, "cu_seqlens": cu_seqlens}
    rows = hasher.hash_batch(array, layers=layers, add_offsets=add_offsets, dtype=np.int64, layer_axis=-2, **where)
    given = {name: None if value is None else np.asarray(value) for name, value in where.items()}
    array = np.atleast_2d(array)
    run = reach(hasher, array, **given)
    text_of = decoder(decode)
    kinds = [
        (order, look_backs_of_order(hasher, order), columns_of_order(hasher, order)) for order in hasher.layout.orders
    ]
    found = []
    for place in np.ndindex(*rows.shape[:-2]):
        row, t = place if len(place) == 2 else (0, place[0])
        ngrams = [ngram(hasher, array[row], t, int(run[row, t]), look_backs) for _, look_backs, _ in kinds]
        texts = [text_of(raw) for raw, _ in ngrams]
        for index, layer in enumerate(layers):
            for (order, look_backs, columns), (raw, values), text in zip(kinds, ngrams, texts, strict=True):
                heads = tuple(rows[place][index, list(columns)].tolist())
                found.append(TracedNgram(place, int(layer), order, look_backs, raw, values, text, columns, heads))
    return found


def find_row(
    corpus: ArrayLike | Iterable[ArrayLike],
    hasher: NgramHasher,
    row: int,
    layer: int | Iterable[int],
    *,
    column: int | None = None,
    decode: Any = None,
    add_offsets: bool | None = None,
    chunk_tokens: int = 1 << 20,
) -> list[RowReader]:
    """Return the n-grams of a corpus that read `row` of `layer`, the most frequent first: those that collide there.

    N-grams that occur equally often are in order of layer, column and ids.

    Args:
        corpus: raw ids: one document `[N]`, documents of equal length `[B, T]`, or any iterable of documents `[N]`,
            which may be lazy: about `chunk_tokens` tokens are held at a time.
        hasher: the hasher.
        row: a row of the joint table if rows carry offsets, else of each column's own table.
        layer: a layer id, or several.
        column: the only column to look at; None looks at all.
        decode: as in `trace`.
        add_offsets: whether `row` counts through the joint table; None does as the layout does.
        chunk_tokens: the number of tokens to hash at once.

    Returns:
        The n-grams with their counts; an empty list if none reads the row.

    Raises:
        IndexError: the layer has no such row or column; a token id is outside its range.
        ValueError: the layout has no such layer; a document of an iterable has more than one dimension.
        TypeError: an argument has a wrong type.

    >>> import engram_fast as ef
    >>> layout = ef.HashLayout.preset("qwen-ple", ngram_vocab_size_base=100, heads_per_ngram=1)
    >>> [(reader.ids, reader.count) for reader in find_row([7, 9, 7, 9, 1], ef.NgramHasher(layout), 88, 2)]
    [((7, 9), 2)]
    """
    layout = _checks.hasher(hasher).layout
    layers = list(dict.fromkeys(layer)) if isinstance(layer, Iterable) else [layer]
    for each in layers:
        if each not in layout.layer_ids:
            raise ValueError(f"layer: {each} is not a layer of this layout, which has {list(layout.layer_ids)}")
    row, chunk_tokens = _checks.integer("row", row, -(2**63)), _checks.integer("chunk_tokens", chunk_tokens, 1)
    add_offsets = layout.adds_offsets if add_offsets is None else _checks.boolean("add_offsets", add_offsets)
    if column is not None and not 0 <= _checks.integer("column", column, -(2**63)) < layout.columns:
        raise IndexError(f"column: {column} is outside the layer's {layout.columns} columns")
    columns = [_columns_with(hasher, each, row, add_offsets, column) for each in layers]
    if not any(columns) and not any(add_offsets and column is None and 0 <= row < layout.rows[each] for each in layers):
        sizes = ", ".join(f"{each} ({layout.rows[each]} rows)" for each in layers)
        where = f"layer {sizes}" + ("" if column is None else f", column {column}")
        raise IndexError(f"row: {row} is outside the rows of {where}")
    counts: Counter[tuple[int, int, tuple[int | None, ...], tuple[int, ...]]] = Counter()
    for ids, bounds, new in _chunks(corpus, chunk_tokens, layout.max_order - 1):
        rows = hasher.hash_batch(ids, cu_seqlens=bounds, layers=layers, add_offsets=add_offsets)
        run: NDArray[np.int64] | None = None
        for index, each in enumerate(layers):
            for c in columns[index]:
                hits = np.flatnonzero((rows[index, :, c] == row) & new)
                if len(hits):
                    run = reach(hasher, ids[None], cu_seqlens=bounds)[0] if run is None else run
                    for (raw, values), count in _ngrams_at(hasher, ids, hits, run, c):
                        counts[each, c, raw, values] += count
    text_of = decoder(decode)
    readers = [
        RowReader(each, c, len(raw), raw, values, text_of(raw), count)
        for (each, c, raw, values), count in counts.items()
    ]
    place = {each: index for index, each in enumerate(layers)}
    return sorted(readers, key=lambda r: (-r.count, place[r.layer], r.column, [(t is not None, t or 0) for t in r.ids]))


def _columns_with(hasher: NgramHasher, layer: int, row: int, add_offsets: bool, column: int | None) -> list[int]:
    """Return the columns whose tables have `row`; only `column`, unless it is None."""
    layout = hasher.layout
    first = layout.offsets[layer] if add_offsets else np.zeros(layout.columns, dtype=np.int64)
    inside = (first <= row) & (row < first + layout.moduli[layer])
    return [c for c in np.flatnonzero(inside).tolist() if column is None or c == column]


def _ngrams_at(
    hasher: NgramHasher, ids: NDArray[Any], hits: NDArray[Any], run: NDArray[Any], column: int
) -> Iterator[tuple[tuple[tuple[int | None, ...], tuple[int, ...]], int]]:
    """Yield the n-grams of `column` at the positions `hits` with their counts; NumPy counts equal ones."""
    look_backs = np.array(look_backs_of_order(hasher, hasher.layout.column_orders[column]))
    reached = look_backs < run[hits, None]
    windows = np.where(reached, ids[np.maximum(hits[:, None] - look_backs, 0)], 0)
    _, at, counts = np.unique(np.concatenate([windows, reached], axis=1), axis=0, return_index=True, return_counts=True)
    for hit, count in zip(hits[at].tolist(), counts.tolist(), strict=True):
        yield ngram(hasher, ids, hit, int(run[hit]), tuple(look_backs.tolist())), count


def _chunks(corpus: Any, size: int, halo: int) -> Iterator[tuple[NDArray[Any], NDArray[np.int64], NDArray[np.bool_]]]:
    """Yield flat ids, their `cu_seqlens`, and whether each id is new: the left context of a part was counted before."""
    pieces: list[NDArray[Any]] = []
    news: list[NDArray[np.bool_]] = []
    total = 0

    def packed() -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.bool_]]:
        return np.concatenate(pieces), np.cumsum([0, *map(len, pieces)]), np.concatenate(news)

    for document in _documents(corpus):
        for begin in range(0, len(document), size):
            context = min(begin, halo)
            piece = document[begin - context : begin + size]
            if piece.dtype.kind == "u" and piece.size and piece.max() > _checks.INT64_MAX:
                raise IndexError(f"token id {piece.max()} is outside the ids of the layout")
            pieces.append(piece.astype(np.int64))
            news.append(np.arange(len(piece)) >= context)
            total += len(piece)
            if total >= size:
                yield packed()
                pieces, news, total = [], [], 0
    if pieces:
        yield packed()


def _documents(corpus: Any) -> Iterator[NDArray[Any]]:
    whole = isinstance(corpus, (list, tuple)) and (not corpus or isinstance(corpus[0], (int, np.integer)))
    if whole or hasattr(corpus, "__array__") or hasattr(corpus, "dtype"):
        array = as_integers(corpus, "corpus", False)
        if array.ndim not in (1, 2):
            raise ValueError(f"corpus: expected [N] or [B, T], got the shape {list(array.shape)}")
        yield from [array] if array.ndim == 1 else array
        return
    for document in corpus:
        array = as_integers(document, "corpus", False)
        if array.ndim != 1:
            raise ValueError(f"corpus: expected documents of one dimension, got one of the shape {list(array.shape)}")
        yield array
