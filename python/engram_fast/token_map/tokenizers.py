"""Read the tokenizers of other libraries: recognise the kind of an object, and take text and piece of each id.

This file imports none of those libraries: it recognises an object by its methods.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from typing import Any

from .. import _core

ACCEPTED = "a tokenizers.Tokenizer, a transformers tokenizer (fast or slow) or a tiktoken Encoding"


def read_tokenizer(tokenizer: Any, vocab_size: Any) -> _core.TokenMap:
    """Return the core's map of a loaded tokenizer; `vocab_size` as in `TokenMap.from_tokenizer`.

    Raises:
        TypeError: the object is no tokenizer; the message lists the accepted kinds.
        ValueError: `vocab_size` would lose an id, the largest id is past 2^26, or no id can be decoded.
    """
    # The wrapper of a fast tokenizer may clean up spaces, and its default differs between releases. Its backend never
    # does.
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if _has(backend, "to_str", "id_to_token", "decode", "get_vocab"):
        return _from_backend(backend, vocab_size)
    if _has(tokenizer, "decode_single_token_bytes") and hasattr(tokenizer, "n_vocab"):
        return _from_tiktoken(tokenizer, vocab_size)
    if _has(tokenizer, "convert_ids_to_tokens", "decode", "get_vocab"):
        return _from_slow(tokenizer, vocab_size)
    is_path = isinstance(tokenizer, (str, bytes, os.PathLike))
    hint = "; for a file or a folder use TokenMap.from_file" if is_path else ""
    raise TypeError(f"tokenizer: expected {ACCEPTED}, got {type(tokenizer).__name__}{hint}")


def _has(obj: Any, *methods: str) -> bool:
    # A class has the methods too, but is no tokenizer.
    return not isinstance(obj, type) and all(callable(getattr(obj, name, None)) for name in methods)


def _from_backend(backend: Any, vocab_size: Any) -> _core.TokenMap:
    largest = max(backend.get_vocab().values(), default=-1)
    # `to_str` takes minutes if the largest id is absurd, so that is refused first.
    _id_count(largest, vocab_size)
    try:
        json = backend.to_str()
    except Exception:
        # A tokenizer with parts written in Python has no JSON, but it decodes.
        return _from_decoder(
            largest=largest,
            vocab_size=vocab_size,
            text=lambda token_id: backend.decode([token_id], skip_special_tokens=False),
            piece=backend.id_to_token,
            source="tokenizers",
        )
    return _core.TokenMap.from_json(json.encode(), vocab_size)


def _from_slow(tokenizer: Any, vocab_size: Any) -> _core.TokenMap:
    unknown_id = getattr(tokenizer, "unk_token_id", None)
    unknown = getattr(tokenizer, "unk_token", None)
    vocab = tokenizer.get_vocab()
    ids = set(vocab.values())

    def piece(token_id: int) -> str | None:
        found = tokenizer.convert_ids_to_tokens(token_id)
        # Some tokenizers return the unknown token for every id that they do not know.
        stands_in = found == unknown and token_id != unknown_id and token_id not in ids
        return None if stands_in or not isinstance(found, str) else found

    def text(token_id: int) -> str:
        decoded = tokenizer.decode([token_id], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return str(decoded)

    return _from_decoder(
        largest=max(ids, default=-1), vocab_size=vocab_size, text=text, piece=piece, source="transformers-slow"
    )


def _from_tiktoken(encoding: Any, vocab_size: Any) -> _core.TokenMap:
    raw = encoding.decode_single_token_bytes
    alphabet = _byte_alphabet()
    return _from_decoder(
        largest=encoding.n_vocab - 1,
        vocab_size=vocab_size,
        text=lambda token_id: raw(token_id).decode("utf-8", errors="replace"),
        piece=lambda token_id: "".join(alphabet[byte] for byte in raw(token_id)),
        source="tiktoken",
    )


def _from_decoder(
    *,
    largest: int,
    vocab_size: Any,
    text: Callable[[int], str],
    piece: Callable[[int], str | None],
    source: str,
) -> _core.TokenMap:
    """Build the map id by id; an id whose piece or text is missing or raises is a hole."""
    texts: list[str | None] = []
    pieces: list[str | None] = []
    failure: Exception | None = None
    for token_id in range(_id_count(largest, vocab_size)):
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
    return _core.TokenMap.build(texts, pieces, source)


def _id_count(largest: int, vocab_size: Any) -> int:
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


def _byte_alphabet() -> list[str]:
    """Return the character that byte-level tokenizers write for each byte.

    Printable Latin-1 stands for itself; the other bytes are numbered from U+0100.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]
