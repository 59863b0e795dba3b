"""Text in and text out: tokenizers, the pieces of a text file, and n-grams as people read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .files import check_input

MISSING = "∅"
BOS = "<bos>"
# A piece is one document for the tokenizer and the hasher; of this size, two cores share a few megabytes well.
_PIECE = 1 << 16


def open_tokenizer(path: Path) -> Any:
    """Open a `tokenizer.json`, or the one in a folder, as a `tokenizers.Tokenizer` that cuts and pads nothing.

    Raises:
        ValueError: the package tokenizers is missing, or the file is no tokenizer.
        OSError: the file cannot be read.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise ValueError(
            "the package tokenizers is needed to read text: run pip install tokenizers (the extra engram-fast[demo])"
        ) from None
    file = path / "tokenizer.json" if path.is_dir() else path
    content = check_input(file).read_bytes()
    try:
        tokenizer = Tokenizer.from_buffer(content)
    except Exception as error:  # the package raises bare Exception
        raise ValueError(f"{file}: not a tokenizer: {error}") from None
    # These serve a model's training batches: a file that stores them would cut the text, or lengthen it by padding.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if getattr(tokenizer.model, "dropout", None):
        tokenizer.model.dropout = None  # it would cut words at random
    return tokenizer


def begin_of_sentence(path: Path, tokenizer: Any) -> int | None:
    """Return the id of the begin-of-sentence token that the tokenizer_config.json beside the tokenizer names.

    Raises:
        ValueError: the file is no tokenizer configuration.
    """
    file = (path if path.is_dir() else path.parent) / "tokenizer_config.json"
    if not file.is_file():
        return None
    try:
        token = json.loads(file.read_text(encoding="utf-8")).get("bos_token")
    except (ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file}: not a tokenizer configuration: {error}") from None
    content = token.get("content") if isinstance(token, dict) else token
    found = tokenizer.token_to_id(content) if isinstance(content, str) else None
    return None if found is None else int(found)


def read_pieces(path: Path) -> list[str]:
    """Read a UTF-8 text file as pieces of about 64 KB that end at line ends.

    Raises:
        ValueError: the file is empty, or is not UTF-8.
        OSError: the file cannot be read.
    """
    content = check_input(path).read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text at byte {error.start}") from None
    pieces, start = [], 0
    while start < len(text):
        end = text.find("\n", start + _PIECE) + 1 or len(text)
        pieces.append(text[start:end])
        start = end
    return pieces


def show_ngram(tokenizer: Any, ids: Sequence[int | None], *, bos: int | None = None) -> str:
    """Return the text of an n-gram, quoted and with control characters escaped.

    `∅` stands for each look-back that is missing, `<bos>` for a leading begin-of-sentence token.
    """
    marks = []
    present = list(ids)
    while present and (present[0] is None or present[0] == bos):
        marks.append(MISSING if present[0] is None else BOS)
        del present[0]
    text = [repr(tokenizer.decode(present, skip_special_tokens=False))] if present else []
    return " ".join([*marks, *text])
