"""`NgramHasher` and `hash_batch`: token ids in, table rows out, for every layer of a layout in one pass."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engram_fast import _checks, _core, _hasher_files
from engram_fast.trace import TracedNgram, trace

if TYPE_CHECKING:
    from numpy.typing import NDArray


class NgramHasher(_core.Hasher):
    """A layout and its token map, prepared and frozen; safe to share between threads and to send to processes.

    `layout` is a `HashLayout`; `token_map` the `TokenMap` it was made for, or None where the layout hashes raw ids.
    Another map, a missing or a superfluous one is a ValueError that names `token_map`.

    >>> import engram_fast as ef
    >>> token_map = ef.TokenMap.identity(1000)
    >>> layout = ef.HashLayout.preset(
    ...     "engram-demo-v1", token_map=token_map, engram_vocab_size=[97, 97], n_head_per_ngram=2, pad_id=0
    ... )
    >>> ef.NgramHasher(layout, token_map).hash_batch([[5, 7]]).tolist()[0]
    [[[13, 86, 101, 90], [20, 44, 34, 106]]]
    """

    __slots__ = ()

    def hash(self, ids: Any) -> dict[int, NDArray[np.int64]]:
        """Return `{layer: rows}` as the published demo does: int64 `[B, T, C]` for ids `[B, T]`, `[N, C]` for flat ids.

        Offsets are added where the layout adds them. Errors: see `hash_batch`.
        """
        rows = self.hash_batch(ids, dtype=np.int64)
        return dict(zip(self.layout.layer_ids, rows, strict=True))

    def map_batch(self, batch: Any, **options: Any) -> Any:
        """Return a batch of columns with the column `engram_rows`, for `Dataset.map(..., batched=True)`.

        The same as `engram_fast.data.map_batch(batch, self, **options)`, which says what a batch may be.
        """
        from engram_fast.data import map_batch

        return map_batch(batch, self, **options)

    def trace(self, ids: Any, decode: Any = None, **where: Any) -> list[TracedNgram]:
        """Return the n-gram of every position, layer and order with its rows; see `engram_fast.trace.trace`."""
        return trace(ids, self, decode, **where)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the layout and the token map into `folder` (made where missing), to lie beside a checkpoint.

        Safe against a crash: until the new hasher can be loaded an earlier one in the folder can, and `load` never
        gives the rows of a mixture. Two processes that save different hashers into one folder at once may leave what
        `load` refuses until the next save; to replace a hasher in use, save into a new folder and rename that. Raises
        OSError where the folder cannot be written.
        """
        _hasher_files.save(Path(folder), self.layout, self.token_map)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> NgramHasher:
        """Read what `save` wrote; neither a tokenizer nor NumPy's generator is needed.

        Raises FileNotFoundError where there is no layout, ValueError where a file is damaged (the message names it) or
        the two do not match.
        """
        return cls(*_hasher_files.load(Path(folder)))

    def __repr__(self) -> str:
        return f"NgramHasher({self.layout!r}, token_map={self.token_map!r}, kernel={self.kernel!r})"


def hash_batch(ids: Any, hasher: NgramHasher, **options: Any) -> NDArray[np.int32] | NDArray[np.int64]:
    """Return the table row of every position, layer and column; the same as `hasher.hash_batch(ids, **options)`."""
    return _checks.hasher(hasher).hash_batch(ids, **options)
