"""Build a map id by id, from functions that give the text and the piece, or the bytes, of an id."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from .. import _core

Optional = list[str | None]


def from_texts(
    *,
    largest: int,
    vocab_size: Any,
    text: Callable[[int], str],
    piece: Callable[[int], str | None],
    source: str,
) -> _core.TokenMap:
    """Return the map of the ids from 0 to `largest`, or below `vocab_size`.

    An id is a hole if its piece or text is missing or raises, or if its text holds half of a surrogate pair, which is
    no character.

    Raises:
        TypeError: `vocab_size` is no integer.
        ValueError: `vocab_size` would lose an id, an id is past 2^26, or no id can be decoded.
    """
    texts: Optional = []
    pieces: Optional = []
    failure: Exception | None = None
    for token_id in range(id_count(largest, vocab_size)):
        try:
            found = piece(token_id)
            decoded = None if found is None else text(token_id)
        except Exception as error:  # KeyError, IndexError, TypeError, OverflowError: each library has its own
            found = decoded = None
            failure = error
        texts.append(decoded)
        pieces.append(found)
    if failure is not None and not any(text is not None for text in texts):
        # Not one id decodes: the tokenizer does not work, and its ids are no holes.
        raise ValueError(f"tokenizer: none of its ids can be decoded; the last one raised {failure!r}") from failure
    try:
        return _core.TokenMap.build(texts, pieces, source)
    except UnicodeEncodeError:
        # Looked for after a failure only: it takes as long as building.
        texts = [found if is_text(found) else None for found in texts]
        pieces = [found if is_text(found) else None for found in pieces]
        return _core.TokenMap.build(texts, pieces, source)


def from_bytes(*, largest: int, vocab_size: Any, token: Callable[[int], bytes], source: str) -> _core.TokenMap:
    """Return the map of tokens that are bytes; `token` raises for a hole.

    Bytes that are not UTF-8 get the piece that a byte-level tokenizer writes for them.
    """
    alphabet = byte_alphabet()
    found = ""

    def piece(token_id: int) -> str:
        nonlocal found
        raw = token(token_id)
        found = raw.decode("utf-8", errors="replace")
        # A piece counts only beside U+FFFD: to write every one takes as long as all the rest.
        return "".join(alphabet[byte] for byte in raw) if "\ufffd" in found else found

    return from_texts(largest=largest, vocab_size=vocab_size, text=lambda _: found, piece=piece, source=source)


def is_text(value: str | None) -> bool:
    """Return whether UTF-8 can hold the string: it is not None, and has no half of a surrogate pair."""
    try:
        return value is not None and value.encode() is not None
    except UnicodeEncodeError:
        return False


def refuse_surrogates(**lists: Sequence[str | None]) -> None:
    """Raise UnicodeEncodeError for the first string with half of a surrogate pair; it names the list and the id."""
    for name, strings in lists.items():
        for token_id, string in enumerate(strings):
            try:
                (string or "").encode()
            except UnicodeEncodeError as error:
                error.reason += f"; it stands in {name}, token id {token_id}; None makes that id a hole"
                raise


def id_count(largest: int, vocab_size: Any) -> int:
    """Return the number of ids of a map; see `from_texts` for the arguments and errors."""
    needed = largest + 1
    # Checked before any list of that length is made.
    if needed > _core.MAX_IDS:
        raise ValueError(f"tokenizer: its largest token id is {largest}; a token map holds at most {_core.MAX_IDS} ids")
    if vocab_size is None:
        if needed <= 0:
            raise ValueError("tokenizer: it has no tokens")
        return needed
    if isinstance(vocab_size, bool) or not hasattr(vocab_size, "__index__"):
        raise TypeError(f"vocab_size: expected an integer, got {type(vocab_size).__name__}")
    count = operator.index(vocab_size)
    if count < needed:
        raise ValueError(
            f"vocab_size: {count} loses token id {largest}, the tokenizer's largest; at least {needed} is needed"
        )
    if not 0 < count <= _core.MAX_IDS:
        raise ValueError(f"vocab_size: {count} ids; a token map holds 1 to {_core.MAX_IDS}")
    return count


def byte_alphabet() -> list[str]:
    """Return the character that byte-level tokenizers write for each byte.

    Printable Latin-1 stands for itself; the other bytes are numbered from U+0100.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]
