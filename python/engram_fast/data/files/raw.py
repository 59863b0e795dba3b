"""Raw token files: nothing but ids of one dtype, as nanoGPT and many others write them, mapped into memory."""

from __future__ import annotations

import os

import numpy as np

from .tokens import Tokens, check_integer


def map_ids(path: str, dtype: np.dtype, offset: int = 0) -> np.ndarray:
    """Map the ids of `path`, from byte `offset` to the end, read-only."""
    check_integer(dtype, path)
    size = os.path.getsize(path)
    if not 0 <= offset <= size:
        raise ValueError(f"byte offset {offset} lies outside {path} of {size} bytes")
    if (size - offset) % dtype.itemsize:
        raise ValueError(
            f"{path} holds {size - offset} bytes of ids, which is no multiple of {dtype.itemsize} ({dtype}): "
            "the file is cut, or the dtype is another"
        )
    if size == offset:
        return np.empty(0, dtype)  # an empty file cannot be mapped
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", offset=offset))


def open_raw(path: str, dtype: np.dtype | None, offset: int) -> Tokens:
    """Open a raw file; it does not say its dtype, so the caller must."""
    if dtype is None:
        raise TypeError(f"{path} is a raw token file and does not name its dtype: give dtype, for example 'uint16'")
    return Tokens([map_ids(path, dtype, offset)], None, path)
