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


def open_tokens(path: str, *, format: str, dtype: np.dtype | None, offset: int, column: str) -> Tokens:
    """Open a file of a known format; a dtype that is given must be the file's."""
    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}; known are {', '.join(FORMATS)}")
    if offset and format != "raw":
        raise ValueError(f"a byte offset ({offset}) belongs to raw files; {path} is read as {format}")
    if format == "raw":
        tokens = raw.open_raw(path, dtype, offset)
    elif format == "npy":
        tokens = npy.open_npy(path)
    elif format == "megatron":
        tokens = megatron.open_megatron(path)
    elif format == "arrow":
        tokens = arrow.open_arrow(path, column)
    else:
        tokens = arrow.open_parquet(path, column)
    if dtype is not None and tokens.dtype != dtype:
        raise TypeError(f"{path} stores {tokens.dtype}, and dtype {dtype} was asked for")
    return tokens
