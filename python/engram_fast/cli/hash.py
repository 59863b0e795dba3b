"""`engram-fast hash`: a file of token ids to a file of table rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .group import examples
from .options import (
    ConfigFile,
    HasherFolder,
    Json,
    LayoutName,
    Parameters,
    Threads,
    TokenizerFile,
    TokenMapFile,
    VocabSize,
)
from .output import console, count, print_json, rate

EXAMPLES = examples(
    "engram-fast hash tokens.npy -o rows.npy --layout engram-demo-v1 --tokenizer tokenizer.json",
    "engram-fast hash tokens.npy -o rows.npy --hasher checkpoint/engram --dtype int64 --layer-axis -2",
    "engram-fast hash tokens.npy -o rows.npy --layout longcat --offsets --threads 4 --json",
)


def hash(
    tokens: Annotated[Path, typer.Argument(metavar="TOKENS.npy", help="Token ids, any integer dtype, [N] or [B, T].")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="ROWS.npy", help="The file to write.")],
    layout: LayoutName = None,
    config: ConfigFile = None,
    hasher: HasherFolder = None,
    tokenizer: TokenizerFile = None,
    token_map: TokenMapFile = None,
    vocab_size: VocabSize = None,
    parameters: Parameters = None,
    dtype: Annotated[
        str | None, typer.Option("--dtype", metavar="NAME", help="int32 or int64; by default the smaller that fits.")
    ] = None,
    layer_axis: Annotated[
        int, typer.Option("--layer-axis", metavar="N", help="0: [L, B, T, C]; 1: [B, L, T, C]; -2: [B, T, L, C].")
    ] = 0,
    offsets: Annotated[
        bool | None, typer.Option("--offsets/--no-offsets", help="Add each column's offset; by default as published.")
    ] = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Hash token ids into table rows, for every layer. The files are mapped: they may be larger than memory.

    The output appears whole or not at all, and replaces a file of that name.
    """
    from time import perf_counter

    from .npy import check_target, read_npy, writing_npy
    from .sources import read_hasher

    ids = read_npy(tokens)
    check_target(output, tokens)
    made = read_hasher(
        layout=layout,
        config=config,
        hasher=hasher,
        parameters=parameters,
        tokenizer=tokenizer,
        token_map=token_map,
        vocab_size=vocab_size,
    )
    # Hashing no rows at all checks every option, and says which dtype and which axes come out.
    form = made.hash_batch(
        ids[:0] if ids.ndim else ids, dtype=dtype, layer_axis=layer_axis, add_offsets=offsets, num_threads=threads
    )
    shape = tuple(len(ids) if axis == form.shape.index(0) else n for axis, n in enumerate(form.shape))
    with writing_npy(output, shape, form.dtype) as rows:
        start = perf_counter()
        made.hash_batch(ids, out=rows, layer_axis=layer_axis, add_offsets=offsets, num_threads=threads)
        seconds = perf_counter() - start
    layers = list(made.layout.layer_ids)
    if json:
        report = {"output": str(output), "shape": shape, "dtype": str(form.dtype), "layers": layers}
        print_json({**report, "layout": made.layout.name, "digest": made.layout.digest, "seconds": seconds})
        return
    size = f"{count(ids.size)} tokens, layers {', '.join(map(str, layers))}"
    speed = f" at {rate(ids.size, seconds)}" if ids.size else ""
    console().print(f"{output}: {form.dtype} {list(shape)} from {size}{speed}", markup=False, soft_wrap=True)
