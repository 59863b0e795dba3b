r"""Megatron's indexed datasets: ids in `.bin`; dtype, sequences and documents in `.idx` (format version 1).

The `.idx` file, little-endian: the magic `MMIDIDX\0\0`, u64 version, u8 dtype code, u64 sequences S, u64 entries of
the document index D, then i32 [S] lengths in tokens, i64 [S] places in `.bin` in bytes, i64 [D] document index (in
sequences, from 0 to S), and in multimodal files i8 [S] modes, which are not read here.
"""

from __future__ import annotations

import os
import struct

import numpy as np

from .first_bytes import other_kind, reason
from .raw import map_ids
from .tokens import Tokens, check_documents

MAGIC = b"MMIDIDX\x00\x00"
HEADER = struct.Struct("<9sQBQQ")
DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
# Codes 6 and 7 are floating point, and writers disagree on their widths; token ids are integers.
FLOATS = (6, 7)


def is_index(path: str) -> bool:
    """Whether `path` is an index of this format."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (FileNotFoundError, IsADirectoryError):
        return False


def pair_of(path: str) -> tuple[str, str]:
    """Return the `.bin` and the `.idx` path of a prefix or of either file."""
    stem = path[:-4] if path.endswith((".bin", ".idx")) else path
    return f"{stem}.bin", f"{stem}.idx"


def open_megatron(path: str, with_documents: bool = True) -> Tokens:
    """Map a pair; `path` is the common prefix, or one of the two; its document index is read only if it is wanted."""
    bin_path, idx_path = pair_of(path)
    dtype, lengths, pointers, in_sequences = _read_index(idx_path)
    ids = map_ids(bin_path, dtype)
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, dtype=np.int64, out=starts[1:])
    _check_places(starts, pointers, dtype.itemsize, len(ids), bin_path, idx_path)
    if not with_documents:
        return Tokens([ids], None, bin_path)
    check_documents(in_sequences, len(lengths), idx_path)
    return Tokens([ids], starts[in_sequences], bin_path)


def _read_index(path: str) -> tuple[np.dtype, np.ndarray, np.ndarray, np.ndarray]:
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(HEADER.size)
    if size == 0 or (not head.startswith(MAGIC) and other_kind(path, head) is not None):
        raise ValueError(reason(path, "the index of a Megatron pair"))
    if head[: len(MAGIC)] != MAGIC:
        raise ValueError(f"{path} does not begin with {MAGIC!r}: it is no index of a memory-mapped Megatron dataset")
    if len(head) < HEADER.size:
        raise ValueError(f"{path} ends after {size} bytes, inside its header of {HEADER.size}")
    _, version, code, sequences, documents = HEADER.unpack(head)
    if version != 1:
        raise ValueError(f"{path} has format version {version}; version 1 is known")
    if code in FLOATS:
        raise TypeError(f"{path} declares floating-point ids (dtype code {code}); token ids are integers")
    if code not in DTYPES:
        raise ValueError(f"{path} declares dtype code {code}; known are {sorted(DTYPES)}")
    need = HEADER.size + 12 * sequences + 8 * documents
    if size not in (need, need + sequences):
        raise ValueError(
            f"{path} has {size} bytes; {sequences} sequences and {documents} document entries take {need}, "
            f"or {need + sequences} with modes"
        )
    # Three reads of the exact type; the parts lie at odd byte positions, so views of a mapping would be unaligned.
    with open(path, "rb") as file:
        file.seek(HEADER.size)
        lengths = np.fromfile(file, "<i4", sequences)
        pointers = np.fromfile(file, "<i8", sequences)
        index = np.fromfile(file, "<i8", documents)
    if (lengths < 0).any():
        at = int(np.argmax(lengths < 0))
        raise ValueError(f"{path} gives sequence {at} the length {lengths[at]}")
    return np.dtype(DTYPES[code]), lengths, pointers, index


def _check_places(
    starts: np.ndarray, pointers: np.ndarray, itemsize: int, held: int, bin_path: str, idx_path: str
) -> None:
    if starts[-1] != held:
        raise ValueError(f"{idx_path} describes {starts[-1]} tokens, and {bin_path} holds {held}")
    wrong = pointers != starts[:-1] * itemsize
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(
            f"{idx_path} places sequence {at} at byte {pointers[at]}; in a file written in order it begins at byte "
            f"{starts[at] * itemsize}"
        )
