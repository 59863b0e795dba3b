"""What a file is by its size, name and first bytes: the reason that a message gives for a file that cannot be read."""

from __future__ import annotations

import os

_HEAD = 4096
_COMPRESSED = {
    b"\x1f\x8b\x08": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"\x04\x22\x4d\x18": "lz4",
}
_KINDS = {
    b"\x93NUMPY": "a .npy file",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"MMIDIDX": "the index of a Megatron pair",
    b"PK\x03\x04": "a zip archive (an .npz file is one)",
    b"\x89HDF": "an HDF5 file",
}
_COMPRESSED_NAMES = (".gz", ".zst", ".zstd", ".xz", ".bz2", ".lz4", ".zip", ".tar", ".tgz")
_TEXT_NAMES = (".jsonl", ".json", ".ndjson", ".txt", ".csv", ".tsv", ".md", ".html", ".htm", ".xml", ".yaml", ".yml")
_PRINTABLE = frozenset({*range(0x20, 0x7F), 0x09, 0x0A, 0x0D})
_FEW = 32  # bytes: fewer may be ids that happen to look like text


def head_of(path: str) -> bytes:
    """Return the first bytes of a file."""
    with open(path, "rb") as file:
        return file.read(_HEAD)


def reason(path: str, expected: str) -> str:
    """Say why a file is not `expected`, and what to do."""
    size = os.path.getsize(path)
    if size == 0:
        return f"{path} is empty: {expected} has a header at least; write it anew"
    head = head_of(path)
    other = other_kind(path, head, expected)
    if other is not None:
        return f"{path} {other}"
    return f"{path} has {size} bytes and is not {expected}, or only a part of one: write or copy it anew"


def compression(head: bytes) -> str | None:
    """Return the name of the compression that a file's first bytes show; None if there is none."""
    return next((name for magic, name in _COMPRESSED.items() if head.startswith(magic)), None)


def other_kind(path: str, head: bytes, expected: str = "") -> str | None:
    """Say what a file is instead of `expected`, by its first bytes and its name; None if nothing shows."""
    if (name := compression(head)) is not None:
        return f"is compressed with {name}: decompress it first"
    for magic, name in _KINDS.items():
        if head.startswith(magic) and not expected.startswith(name):
            return f"is {name} by its first bytes: give it that name, or format="
    lower = path.lower()
    if lower.endswith(_COMPRESSED_NAMES):
        return "is compressed by its name: decompress it first"
    if lower.endswith(_TEXT_NAMES) or _is_text(head):
        return "is text, not token ids: tokenise it first (hash_texts does)"
    return None


def _is_text(head: bytes) -> bool:
    if len(head) < _FEW or not any(letter in head for letter in b"aeiou"):
        return False
    if all(byte in _PRINTABLE for byte in head):
        return True
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # the head may end inside a character
            return False
        text = head[: error.start].decode()
    return all(character.isprintable() or character in "\t\n\r" for character in text)
