"""Where documents end: found by an end-of-document id, or cut out of an index."""

from __future__ import annotations

import numpy as np

from .tokens import Tokens

_SCAN = 1 << 20


def ends_after(ids: np.ndarray, eod_id: int) -> np.ndarray:
    """Segment numbers (int32, from 0) of a window in which a document ends after each `eod_id`."""
    segments = np.zeros(len(ids), np.int32)
    np.cumsum(ids[:-1] == eod_id, out=segments[1:])
    return segments


def segments_within(documents: np.ndarray, start: int, length: int) -> np.ndarray:
    """Segment numbers (int32, from 0) of the window that begins at token `start`."""
    first, last = np.searchsorted(documents, [start + 1, start + length])
    segments = np.zeros(length, np.int32)
    segments[np.asarray(documents[first:last]) - start] = 1
    np.cumsum(segments, out=segments)
    return segments


def scan_documents(tokens: Tokens, eod_id: int) -> np.ndarray:
    """The document starts [documents + 1] of a file; what follows the last `eod_id` is a document as well."""
    ends = [np.zeros(1, np.int64)]
    for start in range(0, len(tokens), _SCAN):
        ids = tokens.read(start, min(start + _SCAN, len(tokens)))
        ends.append(np.flatnonzero(ids == eod_id) + (start + 1))
    found = np.concatenate(ends)
    return found if found[-1] == len(tokens) else np.append(found, len(tokens))
