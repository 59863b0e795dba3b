"""Real text for the demo and for searching: the standard library's own sources, or a file of the user's."""

from __future__ import annotations

import sysconfig
from pathlib import Path

# One piece is one document for the tokenizer and the hasher; of this size, two cores share a few megabytes well.
_PIECE = 1 << 16


def read_pieces(path: Path) -> list[str]:
    """A UTF-8 text file in pieces of about 64 KB that end at line ends."""
    content = path.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text at byte {error.start}") from None
    if not text:
        raise ValueError(f"{path}: the file is empty")
    pieces, start = [], 0
    while start < len(text):
        end = text.find("\n", start + _PIECE) + 1 or len(text)
        pieces.append(text[start:end])
        start = end
    return pieces


def standard_library(at_least: int) -> list[str]:
    """Sources of Python's standard library, one string a file, in a fixed order, until there are that many bytes."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    found: list[str] = []
    size = 0
    for file in [*sorted(folder.glob("*.py")), *sorted(folder.glob("*/*.py"))]:
        if "site-packages" in file.parts or "dist-packages" in file.parts:
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if text:
            found.append(text)
            size += len(text.encode())
        if size >= at_least:
            return found
    raise ValueError(f"{folder}: {size} bytes of Python sources, less than {at_least}; name a text with --text FILE")
