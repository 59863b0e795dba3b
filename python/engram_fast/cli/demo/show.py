"""What the demo shows: each step's result for people, or all of it as one JSON value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..output import count, numbers, rate, table
from ..text import BOS, MISSING

if TYPE_CHECKING:
    from rich.console import Console

    from .check import Checked
    from .steps import Prepared, Sentence, Speed

# The part of the sentence's rows that people see; --json has all of them.
_POSITIONS, _HEADS = 4, 3


def heading(printer: Console, number: int, title: str) -> None:
    """Print the heading of a step."""
    from rich.text import Text

    printer.print()
    printer.print(Text.assemble((f"{number} ", "bold cyan"), (title, "bold")))


def print_token_map(printer: Console, prepared: Prepared) -> None:
    """Print the version, the tokenizer and the sizes of its token map."""
    from ... import __version__

    token_map = prepared.token_map
    less = 1 - token_map.size / len(token_map)
    printer.print(f"engram-fast {__version__}")
    heading(printer, 1, "Token map")
    printer.print(f"{prepared.tokenizer_name}", markup=False, soft_wrap=True)
    sizes = f"{len(token_map)} token ids → {token_map.size} compressed ids ({less:.2%} fewer)"
    printer.print(f"{sizes}, built in {prepared.seconds:.2f} s", markup=False)


def print_layouts(printer: Console, prepared: Prepared) -> None:
    """Print a table of the layouts, and why a layout was left out."""
    heading(printer, 2, "Layouts")
    made = table("layout", "layers", "orders", "heads", "table rows of each layer", right=("heads",))
    for hasher in prepared.hashers:
        layout = hasher.layout
        rows = ", ".join(count(layout.rows[layer]) for layer in layout.layer_ids)
        made.add_row(layout.name, numbers(layout.layer_ids), numbers(layout.orders), str(layout.heads), rows)
    printer.print(made)
    for name, reason in prepared.left_out.items():
        printer.print(f"{name} is left out: {reason}", markup=False)


def print_sentence(printer: Console, prepared: Prepared, sentence: Sentence) -> None:
    """Print the sentence's token ids, and for each layer the n-grams and rows of the first positions."""
    from rich.text import Text

    heading(printer, 3, f"“{sentence.text}”")
    printer.print(f"{len(sentence.ids)} token ids: {numbers(sentence.ids)}", markup=False)
    if prepared.bos is not None:
        text_tokens = f"The text has {len(sentence.ids) - 1} tokens; the demo puts the begin-of-sentence token"
        printer.print(f"{text_tokens} {prepared.bos} before them.", markup=False)
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


def print_speed(printer: Console, speed: Speed) -> None:
    """Print how fast the text was tokenised, and hashed by each layout."""
    tokens = f"{count(speed.bytes)} bytes, {count(speed.tokens)} tokens"
    printer.print(f"{speed.source}: {tokens}, {count(speed.pieces)} {speed.unit}", markup=False)
    made = table("", "speed", "", right=("speed",))
    made.add_row("tokenising", rate(speed.tokens, speed.tokenising), f"{speed.tokenising:.2f} s")
    for name, layers, seconds in speed.hashing:
        per_token = f"{seconds / max(1, speed.tokens) * 1e9:.1f} ns a token for {layers} layers"
        made.add_row(f"hashing, {name}", rate(speed.tokens, seconds), per_token)
    printer.print(made)


def print_checked(printer: Console, checked: Checked) -> None:
    """Print the result of the comparison."""
    heading(printer, 5, "Comparison with engram_fast.reference")
    for line in checked.lines:
        printer.print(line, markup=False)
    if checked.equal:
        printer.print(f"[bold green]Equal bit for bit[/], {count(checked.rows)} rows.")
        printer.print("\nNext, with torch: engram-fast demo --model", style="dim")
    else:
        printer.print("[bold red]Different.[/]")


def report(prepared: Prepared, sentence: Sentence, speed: Speed, checked: Checked) -> dict[str, Any]:
    """Return all results as one JSON value."""
    layouts = []
    for n, hasher in enumerate(prepared.hashers):
        layout, (_, _, seconds) = hasher.layout, speed.hashing[n]
        layers = {
            str(layer): {"shape": list(rows.shape), "dtype": str(rows.dtype), "rows": rows.tolist()}
            for layer, rows in sentence.rows[n].items()
        }
        ngrams = [
            {"position": read.place[0], "order": read.order, "text": prepared.show(read.ids), "ids": read.ids}
            for read in sentence.reads[n]
            if read.layer == layout.layer_ids[0]
        ]
        layouts.append(
            {
                "name": layout.name,
                "digest": layout.digest,
                "table_rows": list(layout.rows.values()),
                "sentence": {"layers": layers, "ngrams": ngrams},
                "hash_seconds": seconds,
                "hash_tokens_per_second": speed.tokens / max(seconds, 1e-9),
            }
        )
    token_map = prepared.token_map
    return {
        "tokenizer": str(prepared.path),
        "token_map": {"length": len(token_map), "size": token_map.size, "digest": token_map.digest},
        "token_map_seconds": prepared.seconds,
        "sentence": {"text": sentence.text, "ids": sentence.ids},
        "text": {
            "source": speed.source,
            "bytes": speed.bytes,
            "pieces": speed.pieces,
            "tokens": speed.tokens,
            "tokenise_seconds": speed.tokenising,
            "tokenise_tokens_per_second": speed.tokens / max(speed.tokenising, 1e-9),
        },
        "layouts": layouts,
        "left_out": prepared.left_out,
        "compared": {"equal": checked.equal, "tokens": checked.tokens, "rows": checked.rows},
    }
