"""`engram-fast hash`: a file of token ids to a file of table rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from .output import console, count, print_json, progress, rate

if TYPE_CHECKING:
    import numpy as np

    from .. import NgramHasher
    from .ids import Boundaries, TokenIds

EXAMPLES = (
    "engram-fast hash tokens.npy -o rows.npy --layout engram-demo-v1 --tokenizer tokenizer.json",
    "engram-fast hash tokens.bin -o rows.npy --input-dtype uint16 --eod-id 50256 --hasher checkpoint/engram",
    "engram-fast hash - -o - --layout longcat --offsets < tokens.npy > rows.npy",
)


def hash(
    tokens: Annotated[
        Path,
        typer.Argument(
            metavar="TOKENS",
            help="Token ids [N] or [B, T]: .npy, .arrow, .parquet, a Megatron .bin, a raw file (--input-dtype), or - "
            "for stdin.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="ROWS", help="The .npy file to write, or - for stdout.")
    ],
    layout: LayoutName = None,
    config: ConfigFile = None,
    hasher: HasherFolder = None,
    tokenizer: TokenizerFile = None,
    token_map: TokenMapFile = None,
    vocab_size: VocabSize = None,
    parameters: Parameters = None,
    eod_id: Annotated[
        int | None, typer.Option("--eod-id", metavar="ID", help="A document ends after each of these ids.")
    ] = None,
    cu_seqlens: Annotated[
        Path | None,
        typer.Option(
            "--cu-seqlens",
            metavar="FILE",
            help=".npy of integers: where documents begin in flat ids, and the end.",
        ),
    ] = None,
    segment_ids: Annotated[
        Path | None,
        typer.Option("--segment-ids", metavar="FILE", help=".npy like the ids: look-back stays in a segment."),
    ] = None,
    mask: Annotated[
        Path | None, typer.Option("--mask", metavar="FILE", help=".npy like the ids: 0 hides a token (padding).")
    ] = None,
    input_dtype: Annotated[
        str | None, typer.Option("--input-dtype", metavar="NAME", help="Dtype of raw ids, for example uint16.")
    ] = None,
    column: Annotated[
        str, typer.Option("--column", metavar="NAME", help="Column of an Arrow or Parquet file.")
    ] = "input_ids",
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
    """Hash token ids into table rows, for every layer. Input and output are mapped: they may be larger than memory.

    The output appears whole or not at all, and replaces a file of that name. Look-back crosses from document to
    document unless the file (lists of Arrow, Parquet and Megatron) or an option says where they end. With - as output
    the rows are held in memory, and the report goes to stderr.
    """
    from .files import check_target
    from .ids import STREAM, read_boundaries, read_ids
    from .pieces import shape_of_rows
    from .sources import naming, read_hasher

    streamed = str(output) == STREAM
    if streamed:
        _check_stdout()
    ids = read_ids(tokens, input_dtype, column)
    if not streamed:
        check_target(output, tokens, mask, segment_ids, cu_seqlens, ending=".npy")
    made = read_hasher(
        layout=layout,
        config=config,
        hasher=hasher,
        parameters=parameters,
        tokenizer=tokenizer,
        token_map=token_map,
        vocab_size=vocab_size,
    )
    array = ids.array
    options: dict[str, Any] = {"add_offsets": offsets, "num_threads": threads}
    with naming(ids.name):
        # Hashing no ids checks every option, and tells the dtype of the rows.
        form = made.hash_batch(array[:0] if array.ndim else array, dtype=dtype, layer_axis=layer_axis, **options)
    if eod_id is not None and made.token_map is not None and not 0 <= eod_id < len(made.token_map):
        raise ValueError(f"--eod-id: {eod_id} is outside the token map of {len(made.token_map)} ids")
    boundaries = read_boundaries(ids, mask=mask, segment_ids=segment_ids, cu_seqlens=cu_seqlens, eod_id=eod_id)
    shape = shape_of_rows(made, array.shape, layer_axis)
    with naming(ids.name):
        seconds = _write(made, ids, boundaries, output, shape, form.dtype, layer_axis, options)
    layers = list(made.layout.layer_ids)
    if json:
        report: dict[str, Any] = {"output": str(output), "shape": shape, "dtype": str(form.dtype), "layers": layers}
        report |= {"layout": made.layout.name, "digest": made.layout.digest, "seconds": seconds}
        print_json({**report, "boundaries": _source(boundaries)}, err=streamed)
        return
    size = f"{count(array.size)} tokens, layers {', '.join(map(str, layers))}"
    speed = f" at {rate(array.size, seconds)}" if array.size else ""
    line = f"{'stdout' if streamed else output}: {form.dtype} {list(shape)} from {size}{speed}"
    console(err=streamed).print(line, markup=False, soft_wrap=True)


def _write(
    hasher: NgramHasher,
    ids: TokenIds,
    boundaries: Boundaries,
    output: Path,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    layer_axis: int,
    options: dict[str, Any],
) -> float:
    """Hash everything into the file or stdout; return the seconds without those of opening and closing the file."""
    from time import perf_counter

    import numpy as np

    from .files import OutputArray, writing_npy
    from .ids import STREAM
    from .pieces import hash_in_pieces

    def fill(rows: OutputArray) -> float:
        start = perf_counter()
        pieces = hash_in_pieces(hasher, ids.array, boundaries, layer_axis=layer_axis, dtype=dtype, **options)
        with progress("hashing", ids.array.size) as advance:
            ids.check_size()
            try:
                for index, values, tokens in pieces:
                    rows.write(index, values)
                    advance(tokens)
                    ids.check_size()
            except IndexError:
                # The core checks all ids before it writes: asked for all of them, it names the place in the file.
                hasher.hash_batch(ids.array, layers=hasher.layout.layer_ids[:1], mask=boundaries.mask, **options)
                raise
        return perf_counter() - start

    if str(output) != STREAM:
        with writing_npy(output, shape, dtype) as rows:
            return fill(rows)
    array = np.empty(shape, dtype)
    seconds = fill(OutputArray(array))
    np.lib.format.write_array(sys.stdout.buffer, array)
    sys.stdout.buffer.flush()
    return seconds


def _source(boundaries: Boundaries) -> str | None:
    """Name the kind of the boundaries between documents, for the report."""
    for name in ("segment_ids", "documents", "eod_id"):
        if getattr(boundaries, name) is not None:
            return name
    return None


def _check_stdout() -> None:
    if sys.stdout is None or sys.stdout.isatty():
        raise ValueError("stdout: is a terminal; name a .npy file with -o, or pipe the rows into a program")
