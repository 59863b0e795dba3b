"""The oracle's token map: the key of a token's text, and compressed ids in the order in which keys first appear."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

REPLACEMENT = "\ufffd"
LONE_SPACE = "\ue000"


def normalizer() -> Callable[[str], str]:
    """Return the function that makes DeepSeek's key from a token's text.

    The installed `tokenizers` package does the work, because its Unicode tables define the key. U+E000 stands for a
    text that is one space, so that stripping does not empty it.

    Raises:
        ImportError: `tokenizers` is not installed.
    """
    from tokenizers import Regex, normalizers

    steps = [
        normalizers.NFKC(),
        normalizers.NFD(),
        normalizers.StripAccents(),
        normalizers.Lowercase(),
        normalizers.Replace(Regex(r"[ \t\r\n]+"), " "),
        normalizers.Replace(Regex(r"^ $"), LONE_SPACE),
        normalizers.Strip(),
        normalizers.Replace(LONE_SPACE, " "),
    ]
    normalize: Callable[[str], str] = normalizers.Sequence(steps).normalize_str
    return normalize


def token_key(text: str | None, piece: str | None, normalize: Callable[[str], str]) -> str:
    """Return the key of a token: tokens with the same key share a compressed id.

    Args:
        text: the token decoded alone; None for a hole, whose key is empty.
        piece: the token as the vocabulary has it; used if the text holds U+FFFD.
        normalize: the function that makes a key from a text.

    Raises:
        ValueError: the text holds U+FFFD, and there is no piece.
    """
    if text is None:
        return ""
    if REPLACEMENT in text:
        if piece is None:
            raise ValueError(f"the text {text!r} holds U+FFFD, so its key is the token's piece, and there is no piece")
        return piece
    return normalize(text) or text


def token_map(texts: Sequence[str | None], pieces: Sequence[str | None], normalize: Callable[[str], str]) -> np.ndarray:
    """Return the compressed id of every raw id, int32 [n], as DeepSeek's Engram demo numbers them.

    A key that was not seen before gets the next number.

    Args:
        texts: id i decoded alone, special tokens kept; None for a hole.
        pieces: the vocabulary's entry of id i; None for a hole.
        normalize: the function that makes a key from a text.

    Raises:
        ValueError: the lists differ in length, or a piece is needed and missing.
    """
    if len(texts) != len(pieces):
        raise ValueError(f"{len(texts)} texts, but {len(pieces)} pieces")
    new_ids: dict[str, int] = {}
    keys = [token_key(text, piece, normalize) for text, piece in zip(texts, pieces, strict=True)]
    return np.array([new_ids.setdefault(key, len(new_ids)) for key in keys], dtype=np.int32)
