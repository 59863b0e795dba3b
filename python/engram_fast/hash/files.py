"""The folder of a saved hasher: a layout and a token map, replaced so that a crash leaves a whole hasher in it."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from .. import _core
from ..layout import HashLayout
from ..token_map import TokenMap

TOKEN_MAP_FILE = "engram_token_map.safetensors"
LAYOUT_FILE = "engram_layout.json"
_BY_CONTENT = re.compile(r"engram_token_map\.[0-9a-f]{64}\.safetensors")


def save(folder: Path, layout: HashLayout, token_map: TokenMap | None) -> None:
    """Write both files.

    A file system replaces one file at a time. Until the layout's file is replaced, `load` finds the old hasher, and
    then the new one: the folder holds the token maps of both, in files that are named by their content.
    """
    folder.mkdir(parents=True, exist_ok=True)
    token_map_file = folder / TOKEN_MAP_FILE
    if token_map is not None:
        token_map.save(folder / _by_content(token_map.digest))
    else:
        _set_aside(token_map_file)
    _core.write_atomically(folder / LAYOUT_FILE, layout.to_json_with_digest().encode())
    if token_map is not None:
        # Write it again rather than rename it: another process that saves the same hasher may have removed it.
        token_map.save(token_map_file)
    for file in folder.iterdir():
        if _BY_CONTENT.fullmatch(file.name) and file.is_file():
            file.unlink(missing_ok=True)


def load(folder: Path) -> tuple[HashLayout, TokenMap | None]:
    """Read both files; the token map is None if the folder has none, which only a layout of raw ids accepts."""
    layout = _read_layout(folder / LAYOUT_FILE)
    for file in _token_map_files(folder, layout):
        with suppress(FileNotFoundError):
            return layout, TokenMap.load(file)
    return layout, None


def token_map_file(folder: Path) -> Path | None:
    """Return the file of the token map that `load` would read; None if there is none."""
    layout = _read_layout(folder / LAYOUT_FILE) if (folder / LAYOUT_FILE).is_file() else None
    return next((file for file in _token_map_files(folder, layout) if file.is_file()), None)


def _read_layout(file: Path) -> HashLayout:
    try:
        return HashLayout.from_json(file.read_bytes().decode())
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _token_map_files(folder: Path, layout: HashLayout | None) -> list[Path]:
    """Return the files that may hold the token map, best first; the first exists only if a save did not finish."""
    digest = None if layout is None else layout.token_map_digest
    names = ([] if digest is None else [_by_content(digest)]) + [TOKEN_MAP_FILE]
    return [folder / name for name in names]


def _by_content(digest: str) -> str:
    return f"engram_token_map.{digest}.safetensors"


def _set_aside(token_map_file: Path) -> None:
    """Rename a saved map after its content, so that only its own layout finds it; remove a damaged one."""
    with suppress(FileNotFoundError):
        try:
            token_map_file.replace(token_map_file.parent / _by_content(TokenMap.load(token_map_file).digest))
        except ValueError:
            token_map_file.unlink()
