"""The command's entry: its subcommands, registered."""

from __future__ import annotations

from typing import Annotated

import typer

from . import bench, demo, hash, layout, token_map, trace
from .group import Group, examples

app = typer.Typer(
    name="engram-fast",
    cls=Group,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Exact, fast hashed n-gram memory: from token ids to embedding table rows.",
    epilog=examples("engram-fast demo", "engram-fast hash --help"),
)
app.command(epilog=demo.EXAMPLES)(demo.demo)
app.add_typer(token_map.app, name="token-map")
app.add_typer(layout.app, name="layout")
app.command(epilog=hash.EXAMPLES)(hash.hash)
app.command(epilog=trace.EXAMPLES)(trace.trace)
app.command(epilog=bench.EXAMPLES)(bench.bench)


def _print_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(f"engram-fast {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run `engram-fast` with the arguments of this process."""
    app(prog_name="engram-fast")
