"""`engram-fast token-map`: build, show and compare the maps from raw to compressed ids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .group import Group, command
from .options import Json, VocabSize
from .output import console, count, fields, print_json, table

if TYPE_CHECKING:
    from .. import TokenMap

app = typer.Typer(cls=Group, help="Build, show and compare token maps (raw id to compressed id).")

_MAP = "A saved map, Megatron's JSON, a tokenizer.json, or a folder with one."
# `diff` shows this many ids; --json has the same, and the number of all.
_SHOWN = 20


@command(
    app,
    "engram-fast token-map build tokenizer.json -o token_map.safetensors",
    "engram-fast token-map build model-folder -o token_map.safetensors --vocab-size 129280",
)
def build(
    source: Annotated[Path, typer.Argument(metavar="TOKENIZER", help=_MAP)],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The safetensors file to write.")],
    vocab_size: VocabSize = None,
    json: Json = False,
) -> None:
    """Build the token map of a tokenizer and save it; the file appears whole or not at all."""
    from .files import check_target
    from .sources import read_token_map

    check_target(output, source, ending=".safetensors")
    token_map = read_token_map(source, vocab_size)
    token_map.save(output)
    if json:
        print_json({"output": str(output), **_summary(token_map)})
    else:
        console().print(f"{output}: {_sentence(token_map)}", markup=False, soft_wrap=True)


@command(
    app,
    "engram-fast token-map show token_map.safetensors",
    "engram-fast token-map show tokenizer.json --id 19737 --id 2 --json",
)
def show(
    source: Annotated[Path, typer.Argument(metavar="MAP", help=_MAP)],
    ids: Annotated[list[int] | None, typer.Option("--id", metavar="ID", help="Show this raw id as well.")] = None,
    vocab_size: VocabSize = None,
    json: Json = False,
) -> None:
    """Show what a token map is: its sizes, its digest, where it comes from."""
    from .sources import read_token_map

    token_map = read_token_map(source, vocab_size)
    entries = [_entry(token_map, token_id) for token_id in ids or []]
    if json:
        print_json({**_summary(token_map), "ids": entries})
        return
    summary = _summary(token_map)
    holes = summary.pop("holes")
    shown = ", ".join(str(hole) for hole in holes[:8]) + (", …" if len(holes) > 8 else "")
    metadata = summary.pop("metadata")
    printer = console()
    printer.print(fields({**summary, "holes": f"{len(holes)}" + (f" ({shown})" if holes else ""), **metadata}))
    for entry in entries:
        same = entry["same_as"]
        others = ", ".join(str(other) for other in same[:8]) + (", …" if len(same) > 8 else "")
        line = f"id {entry['id']} → {entry['compressed']}" + (f", like {others}" if same else ", alone")
        printer.print(line, markup=False)


@command(
    app,
    "engram-fast token-map diff token_map.safetensors tokenizer.json",
    "engram-fast token-map diff old-model new-model --json",
)
def diff(
    first: Annotated[Path, typer.Argument(metavar="MAP", help=_MAP)],
    second: Annotated[Path, typer.Argument(metavar="MAP", help=_MAP)],
    vocab_size: Annotated[
        int | None, typer.Option("--vocab-size", metavar="N", help="Number of raw ids, for a map that is a tokenizer.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare two token maps by content. Exit code 0: equal, 1: different."""
    import numpy as np

    from .sources import read_token_map

    maps = [read_token_map(path, vocab_size if path.suffix != ".safetensors" else None) for path in (first, second)]
    one, other = (np.asarray(token_map.lookup) for token_map in maps)
    shared = min(len(one), len(other))
    differing = np.flatnonzero(one[:shared] != other[:shared])
    equal = maps[0] == maps[1]
    rows = [[int(i), int(one[i]), int(other[i])] for i in differing[:_SHOWN]]
    if json:
        sides = [
            {"file": str(path), **_summary(token_map)} for path, token_map in zip((first, second), maps, strict=True)
        ]
        print_json({"equal": equal, "differing": len(differing), "first": rows, "maps": sides})
    else:
        printer = console()
        for path, token_map in zip((first, second), maps, strict=True):
            printer.print(f"{path}: {_sentence(token_map)}", markup=False, soft_wrap=True)
        if equal:
            printer.print("equal: every id has the same compressed id")
        else:
            parts = [f"{count(len(differing))} of {count(shared)} shared ids have another compressed id"]
            if len(one) != len(other):
                parts.append(f"{count(abs(len(one) - len(other)))} ids are in one map only")
            printer.print("different: " + "; ".join(parts))
            made = table("id", "first", "second", right=("id", "first", "second"))
            for row in rows:
                made.add_row(*(str(value) for value in row))
            if rows:
                printer.print(made)
            if len(differing) > _SHOWN:
                printer.print(f"… and {count(len(differing) - _SHOWN)} more")
    raise typer.Exit(0 if equal else 1)


def _summary(token_map: TokenMap) -> dict[str, Any]:
    return {
        "length": len(token_map),
        "size": token_map.size,
        "digest": token_map.digest,
        "holes": token_map.holes,
        "metadata": dict(token_map.metadata),
    }


def _sentence(token_map: TokenMap) -> str:
    return f"{len(token_map)} ids → {token_map.size} compressed ids, digest {token_map.digest[:16]}…"


def _entry(token_map: TokenMap, token_id: int) -> dict[str, Any]:
    import numpy as np

    compressed = int(token_map.compress([token_id])[0])
    same = np.flatnonzero(np.asarray(token_map.lookup) == compressed)
    others = [int(other) for other in same if other != token_id]
    return {"id": token_id, "compressed": compressed, "same_as": others}
