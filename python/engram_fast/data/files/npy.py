"""`.npy` token files: a flat array is one sequence, a table [documents, tokens] one document per row."""

from __future__ import annotations

import numpy as np

from .tokens import Tokens, check_integer


def open_npy(path: str) -> Tokens:
    """Map a `.npy` file of one or two dimensions; pickled objects are refused by NumPy."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    check_integer(array.dtype, path)
    if array.ndim not in (1, 2):
        raise ValueError(f"{path} has shape {list(array.shape)}; token ids come as [tokens] or [documents, tokens]")
    if not array.flags.c_contiguous:
        raise ValueError(f"{path} of shape {list(array.shape)} is stored by column; token ids are read by row")
    documents = None
    if array.ndim == 2:
        documents = np.arange(array.shape[0] + 1, dtype=np.int64) * array.shape[1]
    return Tokens([np.asarray(array).reshape(-1)], documents, path)
