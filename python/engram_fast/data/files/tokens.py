"""`Tokens`: the ids of one file as one long sequence, and where its documents begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..lengths import check_bounds


@dataclass(frozen=True)
class Tokens:
    """Ids in one or more chunks, read as one sequence.

    `documents` (int64 [D+1], or None if the file does not say) holds the position at which each document begins, and
    at last the number of tokens. `place` names the file in messages; `files` are the first position and the name of
    each, if there are several.
    """

    chunks: Sequence[np.ndarray]
    documents: np.ndarray | None
    place: str
    files: tuple[tuple[int, str], ...] = ()
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

    def where(self, position: int) -> str:
        """Name a position with its file."""
        if not self.files:
            return f"position {position} of {self.place}"
        at = int(np.searchsorted([start for start, _ in self.files], position, side="right")) - 1
        start, name = self.files[at]
        return f"position {position - start} of {name}"

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


def join(parts: Sequence[Tokens], place: str) -> Tokens:
    """Return the tokens of several files as one sequence, their documents one after another.

    Raises:
        TypeError: the files store different dtypes.
        ValueError: there are none; some say where documents end and others do not.
    """
    if len(parts) == 1:
        return parts[0]
    if not parts:
        raise ValueError("no files of token ids are given")
    first = parts[0]
    starts = np.cumsum([0, *(len(part) for part in parts)], dtype=np.int64)
    for part in parts:
        if part.dtype != first.dtype:
            raise TypeError(f"{part.place} stores {part.dtype}, and {first.place} {first.dtype}; the dtypes must agree")
        if (part.documents is None) != (first.documents is None):
            knowing, silent = (part, first) if first.documents is None else (first, part)
            raise ValueError(
                f"{knowing.place} says where documents end, and {silent.place} does not: give eod_id, documents= or "
                "documents=False"
            )
    documents = None
    if first.documents is not None:
        ends = [np.asarray(part.documents)[1:] + start for part, start in zip(parts, starts[:-1], strict=True)]
        documents = np.concatenate([np.zeros(1, np.int64), *ends])
    files = tuple((int(start), part.place) for start, part in zip(starts[:-1], parts, strict=True))
    return Tokens([chunk for part in parts for chunk in part.chunks], documents, place, files)


def check_integer(dtype: np.dtype, place: str) -> None:
    """Refuse a dtype that is no integer; messages name `place`."""
    if dtype.kind not in "iu":
        raise TypeError(f"{place} holds {dtype}, which is no integer dtype; token ids are integers")


def check_documents(documents: np.ndarray, length: int, place: str) -> None:
    """Refuse an index that does not divide exactly `length` tokens into documents."""
    check_bounds(documents, length, f"the document index of {place}")
