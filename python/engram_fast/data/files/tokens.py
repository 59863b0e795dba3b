"""`Tokens`: the ids of one file as one long sequence, and where its documents begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Tokens:
    """Ids in one or more chunks, read as one sequence.

    `documents` (int64 [D+1], or None where the file does not say) holds the position at which each document begins,
    and at last the number of tokens. `place` names the file in messages.
    """

    chunks: Sequence[np.ndarray]
    documents: np.ndarray | None
    place: str
    _starts: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for chunk in self.chunks:
            check_integer(chunk.dtype, self.place)
        starts = np.cumsum([0, *(len(chunk) for chunk in self.chunks)], dtype=np.int64)
        object.__setattr__(self, "_starts", starts)
        if self.documents is not None:
            check_documents(self.documents, int(starts[-1]), self.place)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def dtype(self) -> np.dtype:
        """The integer dtype in which the file stores an id."""
        return self.chunks[0].dtype if self.chunks else np.dtype(np.int64)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the ids of positions start..stop as the file stores them: a view, if one chunk holds them all."""
        if len(self.chunks) == 1:
            return self.chunks[0][start:stop]
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        pieces = []
        for index in range(max(first, 0), len(self.chunks)):
            begin = int(self._starts[index])
            if begin >= stop:
                break
            pieces.append(self.chunks[index][max(start - begin, 0) : stop - begin])
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate(pieces) if pieces else np.empty(0, self.dtype)


def check_integer(dtype: np.dtype, place: str) -> None:
    """Refuse what cannot be a token id."""
    if dtype.kind not in "iu":
        raise TypeError(f"{place} holds {dtype}, which is no integer dtype; token ids are integers")


def check_documents(documents: np.ndarray, length: int, place: str) -> None:
    """Refuse an index that does not divide exactly `length` tokens into documents."""
    check_bounds(documents, length, f"the document index of {place}")


def check_bounds(bounds: np.ndarray, length: int, name: str) -> None:
    """Refuse lengths added up that do not divide exactly `length` tokens; `name` is theirs in messages."""
    if bounds.dtype.kind not in "iu":
        raise TypeError(f"{name} holds {bounds.dtype}; it must hold integers")
    if bounds.ndim != 1 or len(bounds) == 0:
        raise ValueError(f"{name} has shape {list(bounds.shape)}; it must be [documents + 1]")
    if bounds[0] != 0 or bounds[-1] != length:
        raise ValueError(f"{name} runs from {bounds[0]} to {bounds[-1]}; it must run from 0 to {length}")
    falls = bounds[1:] < bounds[:-1]
    if falls.any():
        at = int(np.argmax(falls))
        raise ValueError(f"{name} falls from {bounds[at]} to {bounds[at + 1]} after entry {at}")
