"""`engram-fast demo`: the whole path once, from a real tokenizer to table rows, checked against the reference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .group import examples
from .options import Json, LayoutName, Parameters, Threads, TokenizerFile, VocabSize
from .output import console, count, numbers, print_json, rate, table

if TYPE_CHECKING:
    from rich.console import Console

    from .demo_check import Checked
    from .demo_steps import Prepared, Sentence, Speed

EXAMPLES = examples(
    "engram-fast demo",
    "engram-fast demo --tokenizer tokenizer.json --layout engram-demo-v1 --text book.txt",
    "engram-fast demo --layout qwen-ple --json",
    "engram-fast demo --model --png gates.png",
)

SENTENCE = "Only Alexander the Great could tame the horse Bucephalus."
# What is shown of the sentence's rows; --json has all of them.
_POSITIONS, _HEADS = 4, 3


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

    By default: DeepSeek's tokenizer (the extra demo), the layouts engram-demo-v1 and deepseek-v4.1, and the sources
    of Python's standard library. Needs neither torch nor a network.
    """
    from . import demo_steps as steps
    from .demo_check import compare
    from .demo_report import report

    if model:
        if json or any(option is not None for option in (layout, text, vocab_size, threads, parameters or None)):
            raise ValueError("--model: takes --tokenizer and --png, none of the other options")
        from .demo_model import run_model

        run_model(tokenizer, png)
        return
    if png is not None:
        raise ValueError("--png: needs --model")
    printer = console(quiet=json)
    chosen = steps.choose_text(text)
    prepared = steps.prepare(tokenizer, vocab_size, threads)
    _print_token_map(printer, prepared)
    steps.build_layouts(prepared, layout, parameters)
    _print_layouts(printer, prepared)
    sentence = steps.hash_sentence(prepared, SENTENCE)
    _print_sentence(printer, prepared, sentence)
    _heading(printer, 4, "Real text")
    speed = steps.hash_text(prepared, chosen, printer)
    _print_speed(printer, speed)
    checked = compare(prepared, sentence, speed)
    _print_checked(printer, checked)
    if json:
        print_json(report(prepared, sentence, speed, checked))
    if not checked.equal:
        typer.echo("engram-fast: the rows differ from engram_fast.reference; please report this", err=True)
        raise typer.Exit(1)


def _heading(printer: Console, number: int, title: str) -> None:
    from rich.text import Text

    printer.print()
    printer.print(Text.assemble((f"{number} ", "bold cyan"), (title, "bold")))


def _print_token_map(printer: Console, prepared: Prepared) -> None:
    from engram_fast import __version__

    token_map = prepared.token_map
    less = 1 - token_map.size / len(token_map)
    printer.print(f"engram-fast {__version__}")
    _heading(printer, 1, "Token map")
    printer.print(f"{prepared.tokenizer_name}", markup=False, soft_wrap=True)
    sizes = f"{len(token_map)} token ids → {token_map.size} compressed ids ({less:.2%} fewer)"
    printer.print(f"{sizes}, built in {prepared.seconds:.2f} s", markup=False)


def _print_layouts(printer: Console, prepared: Prepared) -> None:
    _heading(printer, 2, "Layouts")
    made = table("layout", "layers", "orders", "heads", "table rows of each layer", right=("heads",))
    for hasher in prepared.hashers:
        layout = hasher.layout
        rows = ", ".join(count(layout.rows[layer]) for layer in layout.layer_ids)
        made.add_row(layout.name, numbers(layout.layer_ids), numbers(layout.orders), str(layout.heads), rows)
    printer.print(made)
    for name, reason in prepared.left_out.items():
        printer.print(f"{name} is left out: {reason}", markup=False)


def _print_sentence(printer: Console, prepared: Prepared, sentence: Sentence) -> None:
    from rich.text import Text

    from .ngram_text import BOS, MISSING

    _heading(printer, 3, f"“{sentence.text}”")
    printer.print(f"{len(sentence.ids)} token ids: {numbers(sentence.ids)}", markup=False)
    legend = f"{MISSING}: a look-back past the first token" + (
        f"; {BOS}: begin of sentence" if prepared.bos is not None else ""
    )
    printer.print(legend, style="dim", markup=False)
    for hasher, rows, reads in zip(prepared.hashers, sentence.rows, sentence.reads, strict=True):
        layout = hasher.layout
        for layer in layout.layer_ids:
            printer.print()
            shape = list(rows[layer].shape)
            printer.print(f"{layout.name}, layer {layer}: shape {shape}, {rows[layer].dtype}", markup=False)
            shown = min(_HEADS, layout.heads)
            title = "rows" if shown == layout.heads else f"rows (heads 0 to {shown - 1} of {layout.heads})"
            made = table("position", "order", "n-gram", title, right=("position", "order"))
            for read in reads:
                if read.layer == layer and read.place[0] < _POSITIONS:
                    some = numbers(read.rows[:shown]) + (", …" if shown < len(read.rows) else "")
                    ngram = Text(prepared.show(read.ids))
                    made.add_row(str(read.place[0]), str(read.order), ngram, some)
            printer.print(made)


def _print_speed(printer: Console, speed: Speed) -> None:
    tokens = f"{count(speed.bytes)} bytes, {count(speed.tokens)} tokens"
    printer.print(f"{speed.source}: {tokens}, {count(speed.pieces)} {speed.unit}", markup=False)
    made = table("", "speed", "", right=("speed",))
    made.add_row("tokenising", rate(speed.tokens, speed.tokenising), f"{speed.tokenising:.2f} s")
    for name, layers, seconds in speed.hashing:
        per_token = f"{seconds / max(1, speed.tokens) * 1e9:.1f} ns a token for {layers} layers"
        made.add_row(f"hashing, {name}", rate(speed.tokens, seconds), per_token)
    printer.print(made)


def _print_checked(printer: Console, checked: Checked) -> None:
    _heading(printer, 5, "Comparison with engram_fast.reference")
    for line in checked.lines:
        printer.print(line, markup=False)
    if checked.equal:
        printer.print(f"[bold green]Equal bit for bit[/], {count(checked.rows)} rows.")
        printer.print("\nNext, with torch: engram-fast demo --model", style="dim")
    else:
        printer.print("[bold red]Different.[/]")
