"""`NgramHasher` and `hash_batch`: token ids in, table rows out, for every layer of a layout in one pass."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engram_fast import _checks, _core
from engram_fast.layouts import HashLayout
from engram_fast.token_map import TokenMap
from engram_fast.trace import TracedNgram, trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LAYOUT_FILE = "engram_layout.json"
_TOKEN_MAP_FILE = "engram_token_map.safetensors"


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

        Each file is written whole or not at all, the layout last; it names its token map by content. So whoever reads
        between the two writes, or after a crash there, gets a ValueError from `load` and never the rows of a mixture.
        To replace a hasher that others may be loading, save into a new folder and rename that. Raises OSError where
        the folder cannot be written.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        token_map_file = folder / _TOKEN_MAP_FILE
        if self.token_map is not None:
            self.token_map.save(token_map_file)
        else:
            token_map_file.unlink(missing_ok=True)
        _core.write_atomically(folder / _LAYOUT_FILE, self.layout.to_json().encode())

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> NgramHasher:
        """Read what `save` wrote; neither a tokenizer nor NumPy's generator is needed.

        Raises FileNotFoundError where there is no layout, ValueError where a file is damaged (the message names it) or
        the two do not match.
        """
        folder = Path(folder)
        layout_file = folder / _LAYOUT_FILE
        try:
            layout = HashLayout.from_json(layout_file.read_bytes().decode())
        except ValueError as error:
            raise ValueError(f"{layout_file}: {error}") from None
        token_map_file = folder / _TOKEN_MAP_FILE
        token_map = TokenMap.load(token_map_file) if token_map_file.exists() else None
        return cls(layout, token_map)

    def __repr__(self) -> str:
        return f"NgramHasher({self.layout!r}, token_map={self.token_map!r}, kernel={self.kernel!r})"


def hash_batch(ids: Any, hasher: NgramHasher, **options: Any) -> NDArray[np.int32] | NDArray[np.int64]:
    """Return the table row of every position, layer and column; the same as `hasher.hash_batch(ids, **options)`."""
    return _checks.hasher(hasher).hash_batch(ids, **options)
