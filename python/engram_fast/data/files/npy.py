"""`.npy` token files: a flat array is one sequence, a table [documents, tokens] one document per row."""

from __future__ import annotations

import os

import numpy as np

from .first_bytes import head_of, reason
from .tokens import Tokens, check_integer

MAGIC = b"\x93NUMPY"


def map_npy(path: str) -> np.ndarray:
    """Map a `.npy` file; an error names the file and the reason, and never advises to load it unsafely."""
    if not head_of(path).startswith(MAGIC):
        raise ValueError(f"{reason(path, 'a .npy file')} (raw ids: format='raw' and dtype=)")
    try:
        array: np.ndarray = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # NumPy parses a header as Python: a damaged one raises many kinds
        if "Python objects" in str(error):
            raise ValueError(f"{path} holds pickled Python objects, not numbers: save an array of integers") from None
        if "greater than file size" in str(error):
            why = f"is cut: its {os.path.getsize(path)} bytes are fewer than its header promises"
        else:
            why = "has a damaged header"
        raise ValueError(f"{path} {why}; write or copy it anew") from None
    return array


def open_npy(path: str) -> Tokens:
    """Map a `.npy` file of one or two dimensions."""
    array = map_npy(path)
    check_integer(array.dtype, path)
    if array.ndim not in (1, 2):
        raise ValueError(f"{path} has shape {list(array.shape)}; token ids come as [tokens] or [documents, tokens]")
    if not array.flags.c_contiguous:
        raise ValueError(f"{path} of shape {list(array.shape)} is stored by column; token ids are read by row")
    documents = None
    if array.ndim == 2:
        documents = np.arange(array.shape[0] + 1, dtype=np.int64) * array.shape[1]
    return Tokens([np.asarray(array).reshape(-1)], documents, path)
