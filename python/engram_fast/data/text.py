"""`hash_texts`: text in, rows out; tokenised by the Rust tokenizer, hashed chunk by chunk."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _checks

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..hash import NgramHasher
    from ..hash.options import RowOptions

# A chunk ends at this many texts or characters: enough for every core, and few enough to keep the encodings small.
CHUNK = 1024
CHARACTERS = 1 << 20


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
    hasher: NgramHasher,
    *,
    add_special_tokens: bool = True,
    chunk: int = CHUNK,
    **options: Unpack[RowOptions],
) -> HashedTexts:
    """Tokenise `texts` in parallel and hash them, each text a sequence of its own.

    Args:
        texts: any iterable of strings, also a pyarrow array of them.
        tokenizer: a `tokenizers.Tokenizer` or a transformers tokenizer that is built on one. Its settings hold, but
            padding is left out of the result, and a transformers tokenizer that an earlier call left truncating is
            refused.
        hasher: the hasher.
        add_special_tokens: whether the tokenizer adds its special tokens to each text.
        chunk: the most texts to tokenise at a time; about a million characters end a chunk too.
        **options: those of `hash_batch`: layers, dtype, add_offsets, num_threads.

    Returns:
        ids, cumulative lengths and rows of all texts.

    Raises:
        TypeError: a text is no string; the tokenizer has no Rust part.
        ValueError: a text has no UTF-8 form (a lone surrogate); the tokenizer truncates.
        IndexError: an id outside the vocabulary of the hasher.
    """
    backend = backend_of(tokenizer)
    encode = getattr(backend, "encode_batch_fast", None) or backend.encode_batch
    padded = backend.padding is not None
    characters = None
    if isinstance(texts, (list, tuple)):
        characters = sum(len(text) for text in texts if isinstance(text, str))
    rows = _Growing(hasher, options, characters)
    done = 0
    for some in _chunks(texts, chunk):
        try:
            encodings = encode(some, add_special_tokens=add_special_tokens)  # all cores, without the GIL
        except TypeError:
            _refuse_surrogates(some, done)
            raise
        done += len(some)
        pieces = [_ids(encoding, padded) for encoding in encodings]
        del encodings  # before the next chunk has its own
        # Hashing in a background thread while the next chunk was tokenised made it 5 % slower, in two 20 %:
        # tokenising keeps every core busy already.
        rows.append(pieces, sum(map(len, some)))
    return rows.finish()


def _refuse_surrogates(texts: list[str], before: int) -> None:
    """Name the first text that has no UTF-8 form, of `before` texts and these."""
    for index, text in enumerate(texts, before):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"text {index} has the lone surrogate {text[error.start]!r} at character {error.start}, which UTF-8 "
                "cannot write: it was decoded wrongly (errors='surrogateescape'?); use errors='replace'"
            ) from None


def backend_of(tokenizer: Any) -> Any:
    """Return the `tokenizers.Tokenizer` of a tokenizer."""
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
    for index, text in enumerate(texts):
        plain = text.as_py() if hasattr(text, "as_py") else text
        if not isinstance(plain, str):
            raise TypeError(f"text {index} is of type {type(plain).__name__}; it must be a string")
        some.append(plain)
        characters += len(plain)
        if len(some) == size or characters >= CHARACTERS:
            yield some
            some, characters = [], 0
    if some:
        yield some


class _Growing:
    """Ids and rows of the texts so far, in arrays that are allocated ahead if the amount of text is known.

    Memory that nobody has written to costs nothing; copying to larger arrays does, 0.4 us a token or a third of
    tokenising. The guess stays within a few times the tokens so far: the first texts may differ from the rest.
    """

    def __init__(self, hasher: NgramHasher, options: RowOptions, characters: int | None) -> None:
        self._hasher = _checks.hasher(hasher)
        self._options: dict[str, Any] = {name: value for name, value in options.items() if name != "dtype"}
        self._characters, self._seen = characters, 0
        self._lengths: list[int] = []
        self._used = 0
        self._ids = np.empty(0, np.int64)
        self._rows = hasher.hash_batch(self._ids, layer_axis=-2, **options)

    def append(self, pieces: list[np.ndarray], characters: int) -> None:
        lengths = [len(piece) for piece in pieces]
        starts = np.cumsum([0, *lengths], dtype=np.int64)
        begin, end = self._used, self._used + int(starts[-1])
        self._seen += characters
        self._reserve(end)
        ids = np.concatenate(pieces, out=self._ids[begin:end])
        self._hasher.hash_batch(ids, out=self._rows[begin:end], layer_axis=-2, cu_seqlens=starts, **self._options)
        self._lengths += lengths
        self._used = end

    def _reserve(self, end: int) -> None:
        if end <= len(self._ids):
            return
        room = max(end, 2 * len(self._ids))
        if self._characters is not None:
            # A text has hardly more tokens than characters, but for those that the tokenizer adds to each.
            left = max(self._characters - self._seen, 0)
            guess = int(end * 1.1 * (1 + left / self._seen)) if self._seen else 0
            room = max(room, min(guess, end + left))
        self._ids = _grown(self._ids, self._used, room)
        self._rows = _grown(self._rows, self._used, room)

    def finish(self) -> HashedTexts:
        bounds = np.cumsum([0, *self._lengths], dtype=np.int64)
        return HashedTexts(self._ids[: self._used], bounds, self._rows[: self._used])


def _grown(array: np.ndarray, used: int, room: int) -> np.ndarray:
    larger = np.empty((room, *array.shape[1:]), array.dtype)
    larger[:used] = array[:used]
    return larger


def _ids(encoding: Any, padded: bool) -> np.ndarray:
    ids = np.asarray(array("I", encoding.ids))  # 22 ns a token on Zen 4; straight from the list NumPy takes 32
    return ids[np.array(encoding.attention_mask, bool)] if padded else ids
