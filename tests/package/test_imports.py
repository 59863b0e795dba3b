"""Imports inside the package: relative ones, and the compiled core only where policy meets it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "python" / "engram_fast"
FILES = sorted(PACKAGE.rglob("*.py"))


def imports(file: Path) -> list[tuple[int, str, list[str]]]:
    """`(level, module, names)` of every import of a file, those inside functions too; level 0 is absolute."""
    found: list[tuple[int, str, list[str]]] = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(0, alias.name, []) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.level, node.module or "", [alias.name for alias in node.names]))
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_of_the_package_are_relative(file: Path) -> None:
    absolute = [module for level, module, _ in imports(file) if level == 0]
    assert [module for module in absolute if module.partition(".")[0] == "engram_fast"] == []


@pytest.mark.parametrize("room", ["nn", "reference"])
def test_rooms_without_the_core(room: str) -> None:
    named = {
        file.name
        for file in (PACKAGE / room).rglob("*.py")
        for level, module, names in imports(file)
        if level > 0 and "_core" in [*module.split("."), *names]
    }
    assert named == set()


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_only_the_command_imports_names_of_the_package_itself(file: Path) -> None:
    """The linter of the rooms cannot see such an import: it names no room."""
    depth = len(file.relative_to(PACKAGE).parts)
    if file.relative_to(PACKAGE).parts[0] == "cli":
        return
    names = {name for level, module, names in imports(file) if level == depth and not module for name in names}
    modules = {path.stem for path in PACKAGE.iterdir()} | {"_core"}
    assert names <= modules
