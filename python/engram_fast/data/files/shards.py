"""Which files a `TokenDataset` reads: one path, a list of them, or a pattern; and whether their sizes are the same."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .formats import format_of
from .megatron import pair_of


@dataclass(frozen=True)
class ShardFile:
    """One file (or Megatron pair), with its size in bytes when the dataset was made."""

    path: str
    format: str
    sizes: tuple[int, ...]

    def check_size(self) -> None:
        """Refuse a file whose size has changed."""
        now = _sizes(self.path, self.format)
        if now != self.sizes:
            found, known = (" and ".join(map(str, sizes)) for sizes in (now, self.sizes))
            raise ValueError(f"{self.path} has {found} bytes, and had {known} when the dataset was made")


def find_shards(path: Any, format: str | None) -> tuple[ShardFile, ...]:
    """Return the files of a path, a list of paths or a pattern.

    Raises:
        FileNotFoundError: a file is missing, or none matches the pattern.
        IsADirectoryError: a path is a folder.
        ValueError: the list is empty.
        TypeError: an item is no path.
    """
    one = isinstance(path, (str, bytes, os.PathLike)) or not isinstance(path, Iterable)
    items = [path] if one else list(path)
    if not items:
        raise ValueError("the list of token files is empty")
    shards: list[ShardFile] = []
    for item in items:
        found: set[str] = set()
        for name in _matching(os.path.abspath(os.fsdecode(item))):
            kind = format or format_of(name)
            if kind != "megatron" and os.path.isdir(name):
                raise IsADirectoryError(f"{name} is a folder; name its files, for example {name}/*.arrow")
            whole = pair_of(name)[0] if kind == "megatron" else name
            if whole not in found:  # a pattern finds both halves of a Megatron pair
                found.add(whole)
                shards.append(ShardFile(name, kind, _sizes(name, kind)))
    return tuple(shards)


def _matching(path: str) -> list[str]:
    if not glob.has_magic(path) or os.path.exists(path):
        return [path]
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise FileNotFoundError(f"no file matches {path}")
    return found


def _sizes(path: str, format: str) -> tuple[int, ...]:
    parts = pair_of(path) if format == "megatron" else (path,)
    return tuple(os.path.getsize(part) for part in parts)
