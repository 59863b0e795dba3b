"""Where documents end: found by an end-of-document id, or given as an index, an array or a file."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from .npy import map_npy
from .tokens import Tokens

_SCAN = 1 << 20


def ends_after(ids: np.ndarray, eod_id: int) -> np.ndarray:
    """Number the segments (int32, from 0) of windows [..., T] in which a document ends after each `eod_id`."""
    segments = np.zeros(ids.shape, np.int32)
    np.cumsum(ids[..., :-1] == eod_id, axis=-1, out=segments[..., 1:])
    return segments


def positions_of(segments: np.ndarray) -> np.ndarray:
    """Return position ids (int64) for the segment numbers of a window: they count from 0 in every segment."""
    positions = np.arange(len(segments))
    starts = np.flatnonzero(segments[1:] != segments[:-1]) + 1
    if len(starts):
        lengths = np.empty_like(starts)
        np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
        lengths[-1] = len(segments) - starts[-1]
        positions[starts[0] :] -= np.repeat(starts, lengths)
    return positions


def segments_within(documents: np.ndarray, start: int, length: int) -> np.ndarray:
    """Segment numbers (int32, from 0) of the window that begins at token `start`."""
    first, last = np.searchsorted(documents, [start + 1, start + length])
    segments = np.zeros(length, np.int32)
    segments[np.asarray(documents[first:last]) - start] = 1
    np.cumsum(segments, out=segments)
    return segments


def scan_documents(tokens: Tokens, eod_id: int) -> np.ndarray:
    """Return the document starts [documents + 1] of a file; ids after the last `eod_id` are a document too."""
    ends = [np.zeros(1, np.int64)]
    for start in range(0, len(tokens), _SCAN):
        ids = tokens.read(start, min(start + _SCAN, len(tokens)))
        ends.append(np.flatnonzero(ids == eod_id) + (start + 1))
    found = np.concatenate(ends)
    return found if found[-1] == len(tokens) else np.append(found, len(tokens))


@dataclass(frozen=True)
class IndexFile:
    """An index that lies in a file, and is pickled as this description of the place."""

    path: str
    dtype: np.dtype | None = None  # None: a `.npy` file says it itself
    offset: int = 0
    shape: tuple[int, ...] = ()

    def open(self) -> np.ndarray:
        """Map the file."""
        if self.dtype is None:
            return map_npy(self.path)
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape)


def index_argument(documents: Any) -> IndexFile | np.ndarray:
    """Convert `TokenDataset(documents=...)`: a path, a memory map, or an array."""
    if isinstance(documents, (str, os.PathLike)):
        return IndexFile(os.path.abspath(os.fspath(documents)))
    if _is_whole_map(documents):
        return IndexFile(str(documents.filename), documents.dtype, documents.offset, documents.shape)
    return np.asarray(documents)


def _is_whole_map(array: Any) -> bool:
    """Tell whether the array equals its file from its offset on; a slice or a private copy does not."""
    return (
        isinstance(array, np.memmap)
        and isinstance(array.base, mmap.mmap)
        and array.filename is not None
        and array.mode in ("r", "r+")
        and array.flags.c_contiguous
    )
