"""`hash_texts`: text in, rows out; tokenised by the Rust tokenizer, hashed while the next chunk is tokenised."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .background import Background

# A chunk ends at either: enough texts for every core, few enough that hashing one overlaps tokenising the next.
CHUNK = 1024
CHARACTERS = 1 << 20
ROOM = 1 << 16


@dataclass(frozen=True)
class HashedTexts:
    """Texts one after another: `ids` int64 [N], `cu_seqlens` int64 [texts + 1], `rows` [N, L, C].

    `hashed[i]` is text i: its ids [T] and its rows [T, L, C], both views.
    """

    ids: np.ndarray
    cu_seqlens: np.ndarray
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.cu_seqlens) - 1

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"text {index} is outside the {len(self)} texts")
        start, stop = self.cu_seqlens[index % len(self) :][:2]
        return self.ids[start:stop], self.rows[start:stop]


def hash_texts(
    texts: Iterable[str],
    tokenizer: Any,
    hasher: Any,
    *,
    add_special_tokens: bool = True,
    chunk: int = CHUNK,
    **options: Any,
) -> HashedTexts:
    """Tokenise `texts` in parallel and hash them, each text a sequence of its own.

    `tokenizer` is a `tokenizers.Tokenizer` or a transformers tokenizer that is built on one. It is used as it is set
    up: padding is left out of the result, and a truncation that an earlier call left behind in a transformers
    tokenizer is refused. `options` are those of `hash_batch`: layers, dtype, add_offsets, num_threads. At most
    `chunk` texts, and about a million characters, are tokenised at a time.
    """
    backend = backend_of(tokenizer)
    encode = getattr(backend, "encode_batch_fast", None) or backend.encode_batch
    padded = backend.padding is not None
    buffer = _Growing(hasher, options)
    with Background("engram-text") as background:
        started = False
        for some in _chunks(texts, chunk):
            encodings = encode(some, add_special_tokens=add_special_tokens)  # all cores, without the GIL
            if started:
                background.wait()
            background.start(functools.partial(buffer.append, encodings, padded))
            started = True
            del encodings
        if started:
            background.wait()
    return buffer.finish()


def backend_of(tokenizer: Any) -> Any:
    """The `tokenizers.Tokenizer` of a tokenizer."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        if not hasattr(tokenizer, "encode_batch") or not hasattr(tokenizer, "padding"):
            raise TypeError(
                f"{type(tokenizer).__name__} has no Rust tokenizer: "
                "give a tokenizers.Tokenizer or a fast transformers one"
            )
        return tokenizer
    if backend.truncation is not None:
        raise ValueError(
            f"an earlier call left the tokenizer cutting texts at {backend.truncation['max_length']} tokens: call "
            "tokenizer.backend_tokenizer.no_truncation() first"
        )
    return backend


def _chunks(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    if isinstance(texts, str):
        raise TypeError("texts is one string; it must be an iterable of strings")
    if size < 1:
        raise ValueError(f"chunk is {size}; it must be at least 1")
    some: list[str] = []
    characters = 0
    for text in texts:
        plain = text.as_py() if hasattr(text, "as_py") else text
        if not isinstance(plain, str):
            raise TypeError(f"a text is a {type(plain).__name__}; it must be a string")
        some.append(plain)
        characters += len(plain)
        if len(some) == size or characters >= CHARACTERS:
            yield some
            some, characters = [], 0
    if some:
        yield some


class _Growing:
    """Ids and rows that grow by doubling; untouched room costs no memory, and copies happen log(N) times."""

    def __init__(self, hasher: Any, options: dict[str, Any]) -> None:
        self._hasher, self._options = hasher, options
        self._lengths: list[np.ndarray] = []
        self._ids = np.empty(ROOM, np.int64)
        self._rows = hasher.hash_batch(np.empty(0, np.int64), layer_axis=-2, **options)
        self._rows = np.empty((ROOM, *self._rows.shape[1:]), self._rows.dtype)
        self._options = {name: value for name, value in options.items() if name != "dtype"}
        self._used = 0

    def append(self, encodings: Sequence[Any], padded: bool) -> None:
        pieces = [encoding.ids for encoding in encodings]
        if padded:
            pieces = [_unpadded(encoding) for encoding in encodings]
        lengths = np.array([len(piece) for piece in pieces], np.int64)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        begin, end = self._used, self._used + int(starts[-1])
        self._reserve(end)
        ids = self._ids[begin:end]
        for piece, start in zip(pieces, starts.tolist(), strict=False):
            ids[start : start + len(piece)] = piece
        self._hasher.hash_batch(ids, out=self._rows[begin:end], layer_axis=-2, cu_seqlens=starts, **self._options)
        self._lengths.append(lengths)
        self._used = end

    def _reserve(self, end: int) -> None:
        if end > len(self._ids):
            room = max(end, 2 * len(self._ids))
            self._ids = _grown(self._ids, self._used, room)
            self._rows = _grown(self._rows, self._used, room)

    def finish(self) -> HashedTexts:
        lengths = np.concatenate(self._lengths) if self._lengths else np.empty(0, np.int64)
        bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return HashedTexts(self._ids[: self._used], bounds, self._rows[: self._used])


def _grown(array: np.ndarray, used: int, room: int) -> np.ndarray:
    larger = np.empty((room, *array.shape[1:]), array.dtype)
    larger[:used] = array[:used]
    return larger


def _unpadded(encoding: Any) -> list[int]:
    return [token for token, real in zip(encoding.ids, encoding.attention_mask, strict=True) if real]
