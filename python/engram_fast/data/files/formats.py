"""Which reader a path belongs to."""

from __future__ import annotations

import os

import numpy as np

from . import arrow, megatron, npy, raw
from .tokens import Tokens

FORMATS = ("raw", "npy", "megatron", "arrow", "parquet")
_SUFFIXES = {
    ".npy": "npy",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".idx": "megatron",
}


def format_of(path: str) -> str:
    """Return the format that a path names by its suffix or by a Megatron index beside it, else `raw`."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if megatron.is_index(megatron.pair_of(path)[1]):
        return "megatron"
    return "raw"


def open_tokens(
    path: str,
    *,
    format: str,
    dtype: np.dtype | None,
    offset: int,
    column: str,
    sure: bool = True,
    with_documents: bool = True,
) -> Tokens:
    """Open a file of a known format.

    Args:
        path: the file.
        format: one of `FORMATS`.
        dtype: the dtype of a raw file; that of any other format must be the file's.
        offset: the bytes in front of the ids of a raw file.
        column: the column of an Arrow or Parquet file.
        sure: False for a raw file whose format is a guess by its name: one that looks otherwise is refused.
        with_documents: False leaves Megatron's document index alone.
    """
    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}; known are {', '.join(FORMATS)}")
    if offset and format != "raw":
        raise ValueError(f"a byte offset ({offset}) belongs to raw files; {path} is read as {format}")
    if format == "raw":
        tokens = raw.open_raw(path, dtype, offset, sure)
    elif format == "npy":
        tokens = npy.open_npy(path)
    elif format == "megatron":
        tokens = megatron.open_megatron(path, with_documents)
    elif format == "arrow":
        tokens = arrow.open_arrow(path, column)
    else:
        tokens = arrow.open_parquet(path, column)
    if dtype is not None and tokens.dtype != dtype:
        raise TypeError(f"{path} stores {tokens.dtype}, and dtype {dtype} was asked for")
    return tokens
