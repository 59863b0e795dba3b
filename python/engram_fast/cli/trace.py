"""`engram-fast trace`: from a text to the n-gram behind each row, or from a row to the n-grams that read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import (
    ConfigFile,
    HasherFolder,
    Json,
    LayoutName,
    Parameters,
    TokenizerFile,
    VocabSize,
)
from .output import console, count, note, numbers, print_json, progress, table

if TYPE_CHECKING:
    from .. import NgramHasher
    from ..analysis.tracing import RowReader

EXAMPLES = (
    'engram-fast trace "Only Alexander the Great"',
    'engram-fast trace "Only Alexander" --tokenizer tokenizer.json --hasher checkpoint/engram --layer 1 --json',
    "engram-fast trace --row 393364 --corpus book.txt --layer 1",
)

# Pieces of a corpus that are tokenised at once: half a second at most, for Ctrl-C.
_BATCH = 8


def trace(
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="The text to trace.")] = None,
    row: Annotated[int | None, typer.Option("--row", metavar="R", help="Find the n-grams that read this row.")] = None,
    corpus: Annotated[
        list[Path] | None,
        typer.Option("--corpus", metavar="FILE", help="With --row: text to search; may be repeated."),
    ] = None,
    layers: Annotated[
        list[int] | None, typer.Option("--layer", metavar="L", help="Only this layer; may be repeated.")
    ] = None,
    bos: Annotated[
        bool, typer.Option("--bos", help="Put the tokenizer's begin-of-sentence token before TEXT.")
    ] = False,
    layout: LayoutName = None,
    config: ConfigFile = None,
    hasher: HasherFolder = None,
    tokenizer: TokenizerFile = None,
    vocab_size: VocabSize = None,
    parameters: Parameters = None,
    json: Json = False,
) -> None:
    """Show, for each position and layer, the n-gram in text, its compressed ids and its rows.

    With --row and --corpus: which n-grams of the corpus read that row. By default the layout is engram-demo-v1. A
    layout of raw ids needs --tokenizer, since ids of another tokenizer would be other rows.
    """
    from .sources import choose_tokenizer, own_tokenizer
    from .text import begin_of_sentence, open_tokenizer

    if (text is None) == (row is None) or (row is None) != (not corpus):
        raise ValueError("give either TEXT, or --row R with --corpus FILE")
    beside = config if hasher is None else hasher
    named = tokenizer is not None or own_tokenizer(beside) is not None
    if not named:
        _refuse_raw_ids(layout, config, hasher, parameters)
    tokenizer = choose_tokenizer(tokenizer, beside)
    made = _hasher(layout, config, hasher, tokenizer, vocab_size, parameters)
    if not named:
        note(f"the tokenizer is {tokenizer}; name another with --tokenizer FILE")
    chosen = list(dict.fromkeys(layers or made.layout.layer_ids))
    opened = open_tokenizer(tokenizer)
    if text is not None:
        first = begin_of_sentence(tokenizer, opened) if bos else None
        if bos and first is None:
            raise ValueError(f"--bos: no tokenizer_config.json beside {tokenizer} names a begin-of-sentence token")
        ids = opened.encode(text, add_special_tokens=False).ids
        _trace_ids(made, opened, ids if first is None else [first, *ids], chosen, json, first)
    else:
        assert row is not None
        _trace_row(made, opened, row, corpus or [], chosen, json)


def _refuse_raw_ids(layout: str | None, config: Path | None, folder: Path | None, parameters: list[str] | None) -> None:
    """Raise ValueError if the layout hashes raw ids: no tokenizer is named, and the default one has other ids."""
    from .sources import NO_TOKENIZER, NoTokenMapError, read_hasher, read_layout

    if folder is not None:
        found = read_hasher(layout=layout, config=config, hasher=folder, parameters=parameters).layout
    elif layout is not None or config is not None:
        try:
            found = read_layout(layout, config, parameters, None)
        except NoTokenMapError:
            return
    else:
        return
    if found.token_map_digest is None:
        raise ValueError(NO_TOKENIZER.format(found.name))


def _hasher(
    layout: str | None,
    config: Path | None,
    folder: Path | None,
    tokenizer: Path,
    vocab_size: int | None,
    parameters: list[str] | None,
) -> NgramHasher:
    from .. import NgramHasher
    from .sources import read_hasher, read_layout_for

    if folder is not None:
        made = read_hasher(layout=layout, config=config, hasher=folder, parameters=parameters)
        if made.token_map is None:
            return made
        # The ids of another tokenizer would be traced without a word.
        return read_hasher(layout=None, config=None, hasher=folder, tokenizer=tokenizer, vocab_size=len(made.token_map))
    name = "engram-demo-v1" if layout is None and config is None else layout
    found, token_map = read_layout_for(tokenizer, name, config, parameters, vocab_size)
    return NgramHasher(found, token_map)


def _trace_ids(
    hasher: NgramHasher, tokenizer: Any, ids: list[int], layers: list[int], json: bool, bos: int | None
) -> None:
    from .text import MISSING, show_ngram

    unknown = [layer for layer in layers if layer not in hasher.layout.layer_ids]
    if unknown:
        known = numbers(hasher.layout.layer_ids)
        raise ValueError(f"--layer: {unknown[0]} is not a layer of {hasher.layout.name}; there are {known}")
    reads = [read for read in hasher.trace(ids) if read.layer in layers]
    if json:
        entries = [
            {
                "position": read.place[0],
                "layer": read.layer,
                "order": read.order,
                "text": show_ngram(tokenizer, read.ids),
                "ids": read.ids,
                "compressed": read.values,
                "columns": read.columns,
                "rows": read.rows,
            }
            for read in reads
        ]
        print_json({"layout": hasher.layout.name, "digest": hasher.layout.digest, "ids": ids, "reads": entries})
        return
    printer = console()
    for layer in layers:
        made = table("position", "order", "n-gram", "compressed", "rows", right=("position", "order"))
        for read in reads:
            if read.layer == layer:
                made.add_row(
                    str(read.place[0]),
                    str(read.order),
                    _plain(show_ngram(tokenizer, read.ids)),
                    numbers(read.values),
                    numbers(read.rows),
                )
        printer.print(f"[bold]layer {layer}[/]: {len(ids)} tokens, {hasher.layout.name}")
        printer.print(made)
    legend = []
    if any(None in read.ids for read in reads):
        legend.append(f"{MISSING}: no token in reach, the fill {hasher.layout.fill} takes its place")
    legend.append("no begin-of-sentence token (--bos puts it first)" if bos is None else f"{bos}: begin of sentence")
    printer.print("; ".join(legend), style="dim", markup=False)


def _trace_row(
    hasher: NgramHasher, tokenizer: Any, row: int, corpus: list[Path], layers: list[int], json: bool
) -> None:
    from .text import read_pieces, show_ngram

    pieces = [piece for file in corpus for piece in read_pieces(file)]
    with progress("searching", len(pieces)) as advance:
        readers = find_row(hasher, row, _documents(tokenizer, pieces, advance), layers=layers)
    if json:
        entries = [
            {
                "layer": reader.layer,
                "order": reader.order,
                "column": reader.column,
                "text": show_ngram(tokenizer, reader.ids),
                "ids": reader.ids,
                "compressed": reader.values,
                "count": reader.count,
            }
            for reader in readers
        ]
        print_json({"layout": hasher.layout.name, "row": row, "layers": layers, "readers": entries})
        return
    printer = console()
    if not readers:
        printer.print(f"no n-gram of the corpus reads row {row} of {hasher.layout.name}, layer {numbers(layers)}")
        return
    numeric = ("layer", "order", "column", "times")
    made = table(*numeric, "n-gram", "compressed", right=numeric)
    for reader in readers:
        made.add_row(
            str(reader.layer),
            str(reader.order),
            str(reader.column),
            count(reader.count),
            _plain(show_ngram(tokenizer, reader.ids)),
            numbers(reader.values),
        )
    printer.print(made)


def _documents(tokenizer: Any, pieces: list[str], advance: Callable[[int], None]) -> Iterator[list[int]]:
    for start in range(0, len(pieces), _BATCH):
        batch = pieces[start : start + _BATCH]
        for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
            yield encoding.ids
        advance(len(batch))


def find_row(
    hasher: NgramHasher, row: int, documents: Iterable[Any], *, layers: list[int] | None = None
) -> list[RowReader]:
    """Find the n-grams of `documents` (each flat raw ids) that read row number `row`, the most frequent first.

    N-grams that are equal after compression count as one, under the raw ids that occur most often. In a layout without
    offsets, each column has a row of that number.
    """
    from ..analysis.tracing import find_row as readers_of_row

    wanted = hasher.layout.layer_ids if layers is None else layers
    found: dict[tuple[int, int, tuple[int, ...]], RowReader] = {}
    for reader in readers_of_row(documents, hasher, row, wanted):
        key = reader.layer, reader.column, reader.values
        if (first := found.get(key)) is not None:
            reader = replace(first, count=first.count + reader.count)
        found[key] = reader
    return sorted(found.values(), key=lambda reader: -reader.count)


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(text)
