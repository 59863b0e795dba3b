"""The oracle's token map: the key of a token's text, and compressed ids in the order in which keys first appear."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

REPLACEMENT = "\ufffd"
LONE_SPACE = "\ue000"


def normalizer() -> Callable[[str], str]:
    """DeepSeek's key of a token's text, by the installed `tokenizers` package (its Unicode tables are the rule).

    U+E000 stands in for a text that is one space, so that stripping leaves it alone.
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
    return normalizers.Sequence(steps).normalize_str


def token_key(text: str | None, piece: str | None, normalize: Callable[[str], str]) -> str:
    """What two tokens must share to be one compressed id; `text` None marks a hole, whose key is empty."""
    if text is None:
        return ""
    if REPLACEMENT in text:
        if piece is None:
            raise ValueError(f"the text {text!r} is not valid Unicode, and the token has no piece to tell it by")
        return piece
    return normalize(text) or text


def token_map(texts: Sequence[str | None], pieces: Sequence[str | None], normalize: Callable[[str], str]) -> np.ndarray:
    """Raw id -> compressed id, int32 [n]: new ids count up as keys first appear (DeepSeek's Engram demo).

    `texts[i]` is id i decoded on its own, special tokens kept, `pieces[i]` its vocabulary entry; both None for a hole.
    """
    if len(texts) != len(pieces):
        raise ValueError(f"{len(texts)} texts, but {len(pieces)} pieces")
    new_ids: dict[str, int] = {}
    keys = [token_key(text, piece, normalize) for text, piece in zip(texts, pieces, strict=True)]
    return np.array([new_ids.setdefault(key, len(new_ids)) for key in keys], dtype=np.int32)
