"""The folder that holds a hasher beside a checkpoint: two files, replaced so that a crash leaves a hasher in it."""

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

    Two cannot be replaced at once, so the layout's replacement is what counts: the token maps of both layouts, the old
    and the new one, can be found by their content before and after it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    token_map_file = folder / TOKEN_MAP_FILE
    if token_map is not None:
        token_map.save(folder / _by_content(token_map.digest))
    else:
        _set_aside(token_map_file)
    _core.write_atomically(folder / LAYOUT_FILE, layout.to_json().encode())
    if token_map is not None:
        # Written again, not renamed: another process that saves the same may have renamed or removed it.
        token_map.save(token_map_file)
    for file in folder.iterdir():
        if _BY_CONTENT.fullmatch(file.name) and file.is_file():
            file.unlink(missing_ok=True)


def load(folder: Path) -> tuple[HashLayout, TokenMap | None]:
    """Read both files; no token map where there is none, which only a layout for raw ids accepts."""
    layout = _read_layout(folder / LAYOUT_FILE)
    for file in _token_map_files(folder, layout):
        with suppress(FileNotFoundError):
            return layout, TokenMap.load(file)
    return layout, None


def token_map_file(folder: Path) -> Path | None:
    """The file of the token map that `load` would read."""
    layout = _read_layout(folder / LAYOUT_FILE) if (folder / LAYOUT_FILE).is_file() else None
    return next((file for file in _token_map_files(folder, layout) if file.is_file()), None)


def _read_layout(file: Path) -> HashLayout:
    try:
        return HashLayout.from_json(file.read_bytes().decode())
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _token_map_files(folder: Path, layout: HashLayout | None) -> list[Path]:
    """Where the token map may be, best first. By content it is there only if a save did not finish."""
    digest = None if layout is None else layout.token_map_digest
    names = ([] if digest is None else [_by_content(digest)]) + [TOKEN_MAP_FILE]
    return [folder / name for name in names]


def _by_content(digest: str) -> str:
    return f"engram_token_map.{digest}.safetensors"


def _set_aside(token_map_file: Path) -> None:
    """Rename a saved map so that only a layout that was made for it finds it; remove a damaged one."""
    with suppress(FileNotFoundError):
        try:
            token_map_file.replace(token_map_file.parent / _by_content(TokenMap.load(token_map_file).digest))
        except ValueError:
            token_map_file.unlink()
