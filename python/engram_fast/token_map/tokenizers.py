"""Read the tokenizers of other libraries: recognise the kind of an object, and take text and piece of each id.

This file imports none of those libraries: it recognises an object by its methods.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

from .. import _core
from .decoding import from_bytes, from_texts, id_count

ACCEPTED = (
    "a tokenizers.Tokenizer, a transformers tokenizer (fast or slow), a tiktoken Encoding, a sentencepiece "
    "SentencePieceProcessor, a mistral_common Tekkenizer, or an object with __len__, decode and convert_ids_to_tokens"
)


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
        return from_bytes(
            largest=tokenizer.n_vocab - 1,
            vocab_size=vocab_size,
            token=tokenizer.decode_single_token_bytes,
            source="tiktoken",
        )
    # mistral_common wraps its tokenizers twice, for chats and for instructions.
    mistral = getattr(getattr(tokenizer, "instruct_tokenizer", None), "tokenizer", tokenizer)
    if _has(mistral, "id_to_piece", "id_to_byte_piece") and hasattr(mistral, "num_special_tokens"):
        return _from_tekken(mistral, vocab_size)
    if _has(mistral, "id_to_piece", "decode") and (_has(mistral, "get_piece_size") or hasattr(mistral, "n_words")):
        return _from_sentencepiece(mistral, vocab_size)
    if _has(tokenizer, "convert_ids_to_tokens", "decode") and (
        _has(tokenizer, "get_vocab") or _has(tokenizer, "__len__")
    ):
        return _from_slow(tokenizer, vocab_size)
    is_path = isinstance(tokenizer, (str, bytes, os.PathLike))
    hint = "for a file or a folder use TokenMap.from_file" if is_path else "for others, TokenMap.from_pieces"
    raise TypeError(f"tokenizer: expected {ACCEPTED}, got {type(tokenizer).__name__}; {hint}")


def _has(obj: Any, *methods: str) -> bool:
    # A class has the methods too, but is no tokenizer.
    return not isinstance(obj, type) and all(callable(getattr(obj, name, None)) for name in methods)


def _from_backend(backend: Any, vocab_size: Any) -> _core.TokenMap:
    largest = max(backend.get_vocab().values(), default=-1)
    # `to_str` takes minutes if the largest id is absurd, so that is refused first.
    id_count(largest, vocab_size)
    try:
        json = backend.to_str()
    except Exception:
        # A tokenizer with parts written in Python has no JSON, but it decodes.
        return from_texts(
            largest=largest,
            vocab_size=vocab_size,
            text=lambda token_id: backend.decode([token_id], skip_special_tokens=False),
            piece=backend.id_to_token,
            source="tokenizers",
        )
    return _core.TokenMap.from_json(json.encode(), vocab_size)


def _from_tekken(tokenizer: Any, vocab_size: Any) -> _core.TokenMap:
    def token(token_id: int) -> bytes:
        if token_id < tokenizer.num_special_tokens:
            # Its bytes are empty by default, so that decoding a text drops special tokens. Its piece is the name.
            return str(tokenizer.id_to_piece(token_id)).encode()
        return bytes(tokenizer.id_to_byte_piece(token_id))

    return from_bytes(largest=int(tokenizer.n_words) - 1, vocab_size=vocab_size, token=token, source="tekken")


def _from_sentencepiece(processor: Any, vocab_size: Any) -> _core.TokenMap:
    count = int(processor.get_piece_size() if _has(processor, "get_piece_size") else processor.n_words)

    def known(function: Callable[[Any], str], token_id: int) -> str:
        if token_id >= count:
            raise IndexError(token_id)  # mistral_common answers some ids past the end
        return function(token_id)

    return from_texts(
        largest=count - 1,
        vocab_size=vocab_size,
        text=lambda token_id: str(processor.decode([token_id])),
        piece=lambda token_id: known(processor.id_to_piece, token_id),
        source="sentencepiece",
    )


def _from_slow(tokenizer: Any, vocab_size: Any) -> _core.TokenMap:
    unknown_id = getattr(tokenizer, "unk_token_id", None)
    unknown = getattr(tokenizer, "unk_token", None)
    ids = set(tokenizer.get_vocab().values()) if _has(tokenizer, "get_vocab") else range(len(tokenizer))
    options = _options(tokenizer.decode, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def piece(token_id: int) -> str | None:
        found = tokenizer.convert_ids_to_tokens(token_id)
        # Some tokenizers return the unknown token for every id that they do not know.
        stands_in = found == unknown and token_id != unknown_id and token_id not in ids
        return None if stands_in or not isinstance(found, str) else found

    def text(token_id: int) -> str:
        return str(tokenizer.decode([token_id], **options))

    return from_texts(
        largest=max(ids, default=-1), vocab_size=vocab_size, text=text, piece=piece, source="transformers-slow"
    )


def _options(function: Callable[..., Any], **wanted: bool) -> dict[str, bool]:
    """Return those of the options that the function takes."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return wanted
    return {name: value for name, value in wanted.items() if name in parameters}
