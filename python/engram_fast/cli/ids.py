"""The inputs of `engram-fast hash`: token ids of a file or of stdin, and the boundaries between documents in them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.files import format_of, open_tokens
from ..data.files.documents import ends_after, segments_within
from ..data.files.first_bytes import head_of, other_kind, reason
from ..data.files.npy import MAGIC, map_npy
from ..data.files.tokens import check_documents
from ..ids import as_integers

if TYPE_CHECKING:
    from numpy.typing import NDArray

STREAM = "-"


@dataclass(frozen=True)
class TokenIds:
    """Token ids [N] or [B, T], the document starts that their file holds (or None), and the file."""

    array: NDArray[Any]
    documents: NDArray[Any] | None
    name: str
    files: tuple[tuple[str, int], ...] = ()

    def check_size(self) -> None:
        """Raise ValueError if a file has shrunk: the mapped bytes behind its end would end the process."""
        for path, size in self.files:
            now = os.stat(path).st_size
            if now < size:
                raise ValueError(f"{path}: shrank from {size} to {now} bytes while it was read; start again")


@dataclass(frozen=True)
class Boundaries:
    """The places at which look-back stops: arrays in the shape of the ids, document starts, or an id that ends one."""

    mask: NDArray[Any] | None = None
    segment_ids: NDArray[Any] | None = None
    documents: NDArray[Any] | None = None
    eod_id: int | None = None

    def within(self, ids: NDArray[Any], index: tuple[slice, ...]) -> dict[str, Any]:
        """Return the options of `hash_batch` for `ids`, which are the whole array's ids at `index`."""
        found = {}
        if self.mask is not None:
            found["mask"] = self.mask[index]
        if self.segment_ids is not None:
            found["segment_ids"] = self.segment_ids[index]
        elif self.eod_id is not None:
            found["segment_ids"] = ends_after(ids, self.eod_id)
        elif self.documents is not None:
            found["segment_ids"] = segments_within(self.documents, index[0].start, len(ids))
        return found


def read_ids(source: Path, dtype: str | None, column: str) -> TokenIds:
    """Open token ids: a `.npy` file, Arrow, Parquet, a Megatron pair, a raw file with its `dtype`, or stdin (`-`).

    Raises:
        ValueError: the file is empty, cut, compressed, of another kind, or raw without a dtype.
        TypeError: `dtype` is no integer dtype, or is not the file's.
        OSError: the file cannot be read.
    """
    wanted = _integer_dtype(dtype)
    if str(source) == STREAM or (source.exists() and not source.is_file() and not source.is_dir()):
        return _from_stream(source, wanted)
    path = str(source)
    format = format_of(path)
    if format == "npy" or (format == "raw" and source.is_file() and head_of(path).startswith(MAGIC)):
        array = read_npy(source)
        if wanted is not None and wanted != array.dtype:
            raise TypeError(f"{source}: holds {array.dtype}, and --input-dtype says {wanted}")
        return TokenIds(array, None, path, ((path, os.path.getsize(path)),))
    if format == "raw":
        other = other_kind(path, head_of(path))
        if other is not None:
            raise ValueError(f"{source}: {_for_shell(other)}")
        if wanted is None:
            raise ValueError(f"{source}: a raw file does not name its dtype: give --input-dtype, for example uint16")
    try:
        tokens = open_tokens(path, format=format, dtype=wanted, offset=0, column=column, sure=False)
    except ImportError as error:
        raise ValueError(
            f"{source}: reading this file needs the package {error.name}: run pip install {error.name}"
        ) from None
    files = tuple((name, os.path.getsize(name)) for name in (path,) if os.path.isfile(name))
    return TokenIds(tokens.read(0, len(tokens)), tokens.documents, path, files)


def read_npy(path: Path) -> NDArray[Any]:
    """Map a `.npy` file, read-only; an error names the file and the reason."""
    if not head_of(str(path)).startswith(MAGIC):
        raise ValueError(_for_shell(reason(str(path), "a .npy file")))
    return np.asarray(map_npy(str(path)))


def read_boundaries(
    ids: TokenIds,
    *,
    mask: Path | None,
    segment_ids: Path | None,
    cu_seqlens: Path | None,
    eod_id: int | None,
) -> Boundaries:
    """Open the boundaries that the options name; without any, those that the ids' file holds.

    Raises:
        ValueError: several options say where documents end; an array has another shape than the ids.
        TypeError: an array is no integers.
    """
    options = {"--segment-ids": segment_ids, "--cu-seqlens": cu_seqlens, "--eod-id": eod_id}
    given = [name for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)}: one of them says where documents end, not several")
    shape = ids.array.shape
    bounds = None
    if cu_seqlens is not None:
        if ids.array.ndim != 1:
            raise ValueError(f"--cu-seqlens: needs flat ids [N]; {ids.name} has the shape {list(shape)}")
        bounds = read_npy(cu_seqlens)
        check_documents(bounds, len(ids.array), str(cu_seqlens))
    elif not given:
        bounds = ids.documents
    return Boundaries(
        mask=None if mask is None else _like(mask, "--mask", shape, True),
        segment_ids=None if segment_ids is None else _like(segment_ids, "--segment-ids", shape, False),
        documents=bounds,
        eod_id=eod_id,
    )


def _like(path: Path, option: str, shape: tuple[int, ...], bools: bool) -> NDArray[Any]:
    array = as_integers(read_npy(path), f"{option} {path}", bools)
    if array.shape != shape:
        raise ValueError(f"{option} {path}: has the shape {list(array.shape)}; the ids have {list(shape)}")
    return array


def _from_stream(source: Path, dtype: np.dtype[Any] | None) -> TokenIds:
    name = "stdin" if str(source) == STREAM else str(source)
    if name == "stdin":
        if sys.stdin is None or sys.stdin.isatty():
            raise ValueError("stdin: is a terminal; pipe a .npy file, or raw ids with --input-dtype, into it")
        content = sys.stdin.buffer.read()
    else:
        content = source.read_bytes()
    if not content and dtype is None:
        raise ValueError(f"{name}: is empty: a .npy file has a header at least")
    if content.startswith(MAGIC):
        return TokenIds(_parse_npy(content, name), None, name)
    if dtype is None:
        other = other_kind("", content[:4096])
        why = _for_shell(other) if other is not None else "is no .npy file: give raw ids their --input-dtype"
        raise ValueError(f"{name}: {why}")
    if len(content) % dtype.itemsize:
        raise ValueError(f"{name}: has {len(content)} bytes, no multiple of {dtype.itemsize} ({dtype}): it is cut")
    return TokenIds(np.frombuffer(content, dtype), None, name)


def _parse_npy(content: bytes, name: str) -> NDArray[Any]:
    from io import BytesIO

    try:
        return np.asarray(np.lib.format.read_array(BytesIO(content), allow_pickle=False))
    except Exception as error:  # NumPy parses a header as Python: a damaged one raises many kinds
        why = (
            "holds Python objects, not numbers"
            if "Object arrays" in str(error)
            else "is a .npy file that is cut or damaged"
        )
        raise ValueError(f"{name}: {why}") from None


def _integer_dtype(name: str | None) -> np.dtype[Any] | None:
    if name is None:
        return None
    try:
        found = np.dtype(name)
    except TypeError:
        raise ValueError(f"--input-dtype: {name!r} is no dtype; for example uint16, uint32, int64") from None
    if found.kind not in "iu":
        raise ValueError(f"--input-dtype: {found} is no integer dtype; for example uint16, uint32, int64")
    return found


def _for_shell(sentence: str) -> str:
    """Leave out the advice for callers of the Python functions."""
    return sentence.replace(", or format=", "").replace(" (hash_texts does)", "")
