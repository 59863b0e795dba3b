"""`NgramHasher` and `hash_batch`: token ids in, table rows out, for every layer of a layout in one pass."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _checks, _core
from . import files

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from ..analysis.tracing import TracedNgram
    from ..data import MapOptions
    from ..layout import HashLayout
    from ..token_map import TokenMap
    from .options import HashOptions, TraceOptions


class NgramHasher(_core.Hasher):
    """A layout and its token map, prepared and frozen; safe to share between threads and to send to processes.

    `layout` is a `HashLayout`; `token_map` is the `TokenMap` whose ids the layout hashes, or None if it hashes raw ids.
    A missing, needless or wrong map is a ValueError that names `token_map`. Two hashers are equal if their layouts and
    token maps are: they give the same rows, whatever their kernels.

    >>> import engram_fast as ef
    >>> token_map = ef.TokenMap.identity(1000)
    >>> layout = ef.HashLayout.preset(
    ...     "engram-demo-v1", token_map=token_map, engram_vocab_size=[97, 97], n_head_per_ngram=2, pad_id=0
    ... )
    >>> ef.NgramHasher(layout, token_map).hash_batch([[5, 7]]).tolist()[0]
    [[[13, 86, 101, 90], [20, 44, 34, 106]]]
    """

    __slots__ = ()

    if TYPE_CHECKING:  # the core returns the objects that it was built from, and does not know their classes

        @property
        def layout(self) -> HashLayout:
            """The hasher's layout."""
            ...

        @property
        def token_map(self) -> TokenMap | None:
            """The hasher's token map; None if the layout hashes raw ids."""
            ...

    @property
    def nbytes(self) -> int:
        """The bytes of the layout's numbers and of the token map's look-up; the core's own tables add about as many."""
        return self.layout.nbytes + (0 if self.token_map is None else self.token_map.lookup.nbytes)

    def hash(self, ids: Any) -> dict[int, NDArray[np.int64]]:
        """Return `{layer: rows}` as the published demo does: int64 `[B, T, C]` for ids `[B, T]`, `[N, C]` for flat ids.

        The rows include offsets if the layout adds them. The errors are those of `hash_batch`.
        """
        rows = self.hash_batch(ids, dtype=np.int64)
        return dict(zip(self.layout.layer_ids, rows, strict=True))

    def map_batch(self, batch: Any, **options: Unpack[MapOptions]) -> Any:
        """Return a batch of columns with the column `engram_rows`, for `Dataset.map(..., batched=True)`.

        The same as `engram_fast.data.map_batch(batch, self, **options)`, whose docstring lists the kinds of batches.
        """
        from ..data import map_batch

        return map_batch(batch, self, **options)

    def trace(self, ids: Any, decode: Any = None, **options: Unpack[TraceOptions]) -> list[TracedNgram]:
        """Return the n-gram of every position, layer and order with its rows; see `engram_fast.trace.trace`."""
        from ..analysis import trace

        return trace(ids, self, decode, **options)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the layout and the token map into `folder`, which is created if it is missing.

        A crash does no harm: `load` finds the earlier hasher of the folder until it finds the new one, and never a
        mixture. If two processes save different hashers into one folder at once, `load` may refuse the folder until
        the next save; to replace a hasher in use, save into a new folder and rename it.

        Raises:
            OSError: the folder cannot be written.
        """
        files.save(Path(folder), self.layout, self.token_map)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> NgramHasher:
        """Read the files of `save`, without a tokenizer and without NumPy's random generator.

        Raises:
            FileNotFoundError: the folder holds no layout.
            ValueError: a file is damaged or was changed after it was saved (the message names it), or the two files do
                not match.
        """
        return cls(*files.load(Path(folder)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NgramHasher):
            return NotImplemented
        return self.layout == other.layout and self.token_map == other.token_map

    def __hash__(self) -> int:
        return hash((self.layout, self.token_map))

    def __repr__(self) -> str:
        return f"NgramHasher({self.layout!r}, token_map={self.token_map!r}, kernel={self.kernel!r})"


def hash_batch(ids: Any, hasher: NgramHasher, **options: Unpack[HashOptions]) -> NDArray[np.int32] | NDArray[np.int64]:
    """Return the table row of every position, layer and column; the same as `hasher.hash_batch(ids, **options)`."""
    rows: NDArray[np.int32] | NDArray[np.int64] = _checks.hasher(hasher).hash_batch(ids, **options)
    return rows
