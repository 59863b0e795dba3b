"""Count a checkout's rooms, the arrows between its files, the arrows against the path of the data, and the circles.

    python tools/rooms.py [FOLDER]

An arrow is an import, annotations and functions included: the file that imports, the file that it imports from. A room
is a folder, or a file beside the folders. The order of the rooms is the one that ARCHITECTURE.md draws.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

Arrows = dict[Path, set[Path]]

# A room may import from those before it. Names of one entry are siblings, which do not know each other.
PYTHON_ORDER = (
    {"_moved", "_demo_inputs"},
    {"_checks"},
    {"ids", "_arrays"},
    {"token_map", "_tokenizers", "megatron_map"},
    {"layout", "layouts", "_presets", "hf_config", "layout_check", "config"},
    {"hash", "hasher", "_hasher_files", "context", "_threads"},
    {"analysis", "data", "nn", "trace", "_ngrams"},
    {"cli"},
    {"demo_v1"},
)
RUST_ORDER = (
    {"error"},
    {"support", "pool", "atomic_file"},
    {"ids", "ints"},
    {"token_map"},
    {"layout"},
    {"hash"},
    {"measure", "fill"},
    {"py"},
)
# Doors that are open on purpose: a method of `NgramHasher` calls a later room.
DOORS = {("hash", "analysis"), ("hash", "data")}


def python_arrows(package: Path) -> Arrows:
    """The imports among the files of a package; what names no file of it is left out."""
    files = [file for file in package.rglob("*.py") if "__pycache__" not in file.parts]
    return {file: _python_targets(file, package) - {file} for file in files}


def without_doors(arrows: Arrows, root: Path) -> Arrows:
    """The arrows but for the doors that are open on purpose."""
    return {
        file: {target for target in targets if (room(file, root), room(target, root)) not in DOORS}
        for file, targets in arrows.items()
    }


def _python_targets(file: Path, package: Path) -> set[Path]:
    targets: set[Path] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = _base(node, file, package)
            if base is not None:
                for alias in node.names:
                    targets |= _module(base / alias.name) or _module(base)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                name, *rest = alias.name.split(".")
                targets |= _module(package.joinpath(*rest)) if name == package.name else set()
    # The package's own file names everything; an arrow to it says nothing about rooms.
    return targets - {package / "__init__.py"}


def _base(node: ast.ImportFrom, file: Path, package: Path) -> Path | None:
    parts = (node.module or "").split(".") if node.module else []
    if node.level:
        return file.parents[node.level - 1].joinpath(*parts)
    return package.joinpath(*parts[1:]) if parts[0] == package.name else None


def _module(path: Path) -> set[Path]:
    found = [path.with_suffix(".py"), path / "__init__.py"]
    return {file for file in found if file.is_file()}


def rust_arrows(source: Path) -> Arrows:
    """The `crate::` and `super::` paths of every file outside its tests, each led to the file that it names."""
    files = [file for file in source.rglob("*.rs") if "tests" not in file.parts and file.stem != "tests"]
    return {file: _rust_targets(file, source) - {file} for file in files}


def _rust_targets(file: Path, source: Path) -> set[Path]:
    text = re.sub(r"//.*", "", file.read_text(encoding="utf-8")).split("#[cfg(test)]\nmod tests {")[0]
    here = file.parent if file.stem in ("mod", "lib") else file.with_suffix("")
    targets: set[Path] = set()
    for path in re.findall(r"\b((?:crate|super)(?:::(?:\w+|\{[^;]*?\}(?=;)))+)", text):
        for whole in _branches(path):
            base = source if whole[0] == "crate" else here
            for word in whole:
                base = base.parent if word == "super" else base
            targets |= _deepest(base, [word for word in whole if word not in ("crate", "super")])
    return targets - {source / "lib.rs"}


def _branches(path: str) -> list[list[str]]:
    """Every path that a `use` tree holds, as lists of words."""
    head, brace, rest = path.partition("{")
    start = [word for word in head.split("::") if word]
    if not brace:
        return [start]
    parts, depth, part = [], 0, ""
    for letter in rest.rstrip()[:-1]:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    return [start + branch for part in [*parts, part] if part.strip() for branch in _branches(part.strip())]


def _deepest(base: Path, words: list[str]) -> set[Path]:
    """The file of the longest part of a path that is a module."""
    for count in range(len(words), -1, -1):
        place = base.joinpath(*words[:count])
        for file in (place.with_suffix(".rs") if count else place / "mod.rs", place / "mod.rs"):
            if file.is_file():
                return {file}
    return set()


def room(file: Path, root: Path) -> str:
    """The folder below the root, or the file beside such folders."""
    return file.relative_to(root).parts[0].removesuffix(".py").removesuffix(".rs")


def against(arrows: Arrows, root: Path, order: tuple[set[str], ...]) -> list[tuple[Path, Path]]:
    """The arrows that lead to a later room, or to a sibling."""
    place = {name: index for index, names in enumerate(order) for name in names}
    wrong = []
    for file, targets in arrows.items():
        for target in targets:
            one, other = room(file, root), room(target, root)
            siblings = one != other and place.get(one) == place.get(other) and "_" not in one and "_" not in other
            if (
                one in place
                and other in place
                and (place[other] > place[one] or (siblings and other in ("analysis", "data", "nn", "cli")))
            ):
                wrong.append((file, target))
    return sorted(wrong)


def circles(arrows: Arrows) -> list[list[Path]]:
    """Groups of files that reach each other."""
    reach: dict[Path, set[Path]] = {}
    for file in arrows:
        seen: set[Path] = set()
        front = set(arrows[file])
        while front:
            seen |= front
            front = {far for near in front for far in arrows.get(near, ())} - seen
        reach[file] = seen
    left, found = {file for file in arrows if file in reach[file]}, []
    while left:
        file = min(left)
        group = {other for other in reach[file] & left if file in reach[other]} | {file}
        found.append(sorted(group))
        left -= group
    return found


def main(folder: Path) -> int:
    """Print the counts for both languages; return how many arrows and circles are wrong."""
    wrong = 0
    for name, root, read, order in (
        ("Python", folder / "python" / "engram_fast", python_arrows, PYTHON_ORDER),
        ("Rust", folder / "rust" / "src", rust_arrows, RUST_ORDER),
    ):
        arrows = without_doors(read(root), root)
        rooms = {room(file, root) for file in arrows}
        back, loops = against(arrows, root, order), circles(arrows)
        count = sum(map(len, arrows.values()))
        print(f"{name}: {len(arrows)} files, {len(rooms)} rooms, {count} arrows,", end=" ")
        print(f"{len(back)} against the path, {len(loops)} circles")
        for file, target in back:
            print(f"  against: {file.relative_to(root)} -> {target.relative_to(root)}")
        for loop in loops:
            print(f"  circle: {', '.join(str(file.relative_to(root)) for file in loop)}")
        wrong += len(back) + len(loops)
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()) else 0)
