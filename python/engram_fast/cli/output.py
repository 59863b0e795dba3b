"""Printing: tables and lines for people, or one JSON value for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def console(*, quiet: bool = False, err: bool = False) -> Console:
    """Return the console for people, on stdout or stderr; colours and width follow the terminal, NO_COLOR, COLUMNS."""
    from rich.console import Console

    # Without `highlight`, numbers keep the colour of their line; `soft_wrap` is left to each print.
    return Console(quiet=quiet, stderr=err, highlight=False)


def print_json(value: Any, *, err: bool = False) -> None:
    """Print one JSON value on one line, on stdout or stderr."""
    typer.echo(json.dumps(value, ensure_ascii=True, allow_nan=False), err=err)


def note(text: str) -> None:
    """Print a line on stderr about a choice that the command made."""
    typer.echo(f"engram-fast: {text}", err=True)


@contextmanager
def progress(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that moves a progress bar on stderr; without a terminal there, it does nothing."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console(err=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda amount: bar.update(task, advance=amount)


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """Return a table without a frame; the columns named in `right` hold numbers and never wrap."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        number = column in right
        made.add_column(column, justify="right" if number else "left", no_wrap=number)
    return made


def fields(pairs: dict[str, Any]) -> Table:
    """Return a table of names and values, one pair a line."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs.items():
        made.add_row(Text(name), Text(str(value)))
    return made


def count(value: int) -> str:
    """Write an integer with spaces between its thousands."""
    return f"{value:,}".replace(",", " ")


def rate(tokens: int, seconds: float) -> str:
    """Write tokens per second with three digits."""
    per_second = tokens / max(seconds, 1e-9)
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if per_second >= unit:
            return f"{per_second / unit:.3g}{name} tokens/s"
    return f"{per_second:.3g} tokens/s"


def numbers(values: Any) -> str:
    """Write integers in one line, with commas."""
    return ", ".join(str(int(value)) for value in values)
