"""Raw token files: nothing but ids of one dtype, as nanoGPT and many others write them, mapped into memory."""

from __future__ import annotations

import os

import numpy as np

from .first_bytes import head_of, other_kind
from .tokens import Tokens, check_integer

_LOOKED_AT = 1 << 14  # ids


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


def open_raw(path: str, dtype: np.dtype | None, offset: int, sure: bool) -> Tokens:
    """Open a raw file; it does not say its dtype, so the caller must.

    Args:
        path: the file.
        dtype: the dtype of its ids.
        offset: the bytes in front of them.
        sure: False refuses a file that looks like text, a compressed file or ids of a wider dtype.
    """
    if not sure and (other := other_kind(path, head_of(path))) is not None:
        raise ValueError(f"{path} {other}; if these bytes are the ids, give format='raw'")
    if dtype is None:
        raise TypeError(f"{path} is a raw token file and does not name its dtype: give dtype, for example 'uint16'")
    ids = map_ids(path, dtype, offset)
    if not sure and _has_halves(ids):
        raise ValueError(
            f"{path} read as {dtype} has a value near 0 in every second place: its ids seem to be twice as wide "
            f"(uint{16 * dtype.itemsize} or int{16 * dtype.itemsize}); if they are {dtype}, give format='raw'"
        )
    return Tokens([ids], None, path)


def _has_halves(ids: np.ndarray) -> bool:
    """Tell whether these look like halves of wider ids: the high half is 0, or, of 16 bits, at most 3 (262143)."""
    if ids.dtype.itemsize > 4:
        return False
    pairs = ids[: min(len(ids), _LOOKED_AT) // 2 * 2].reshape(-1, 2)
    for high, low in ((pairs[:, 1], pairs[:, 0]), (pairs[:, 0], pairs[:, 1])):
        several = len(np.unique(low)) >= max(4, len(low) // 64) and np.count_nonzero(low) * 2 > len(low)
        if not several:
            continue
        if len(high) >= 8 and not high.any():
            return True
        if len(high) >= 64 and ids.dtype.itemsize == 2 and high.min() >= 0 and high.max() <= 3 and low.max() > 255:
            return True
    return False
