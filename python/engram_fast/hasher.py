"""`NgramHasher` and `hash_batch`: token ids in, table rows out, for every layer of a layout in one pass."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engram_fast import _checks, _core
from engram_fast.layouts import HashLayout
from engram_fast.token_map import TokenMap
from engram_fast.trace import TracedNgram, trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOKEN_MAP_FILE = "engram_token_map.safetensors"
_LAYOUT_FILE = "engram_layout.json"


def _by_content(digest: str) -> str:
    return f"engram_token_map.{digest}.safetensors"


def _set_aside(token_map_file: Path) -> None:
    """Renames a saved map so that only a layout that was made for it finds it; a damaged one goes."""
    with suppress(FileNotFoundError):
        try:
            token_map_file.replace(token_map_file.parent / _by_content(TokenMap.load(token_map_file).digest))
        except ValueError:
            token_map_file.unlink()


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
        gives the rows of a mixture. Who loads or saves while another process saves something else may get a ValueError
        from `load`; to replace a hasher in use, save into a new folder and rename that. Raises OSError where the folder
        cannot be written.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        token_map_file = folder / TOKEN_MAP_FILE
        # Two files cannot be replaced at once. So the layout's replacement is what counts, and the token maps of both
        # layouts can be found by their content before and after it.
        if self.token_map is not None:
            self.token_map.save(folder / _by_content(self.token_map.digest))
        else:
            _set_aside(token_map_file)
        _core.write_atomically(folder / _LAYOUT_FILE, self.layout.to_json().encode())
        if self.token_map is not None:
            # Written again, not renamed: another process that saves the same may have renamed or removed it.
            self.token_map.save(token_map_file)
        for file in folder.glob(_by_content("*")):
            file.unlink(missing_ok=True)

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
        # By content it is there only if a save did not finish.
        digest = layout.token_map_digest
        for name in ([] if digest is None else [_by_content(digest)]) + [TOKEN_MAP_FILE]:
            with suppress(FileNotFoundError):
                return cls(layout, TokenMap.load(folder / name))
        return cls(layout, None)

    def __repr__(self) -> str:
        return f"NgramHasher({self.layout!r}, token_map={self.token_map!r}, kernel={self.kernel!r})"


def hash_batch(ids: Any, hasher: NgramHasher, **options: Any) -> NDArray[np.int32] | NDArray[np.int64]:
    """Return the table row of every position, layer and column; the same as `hasher.hash_batch(ids, **options)`."""
    return _checks.hasher(hasher).hash_batch(ids, **options)
