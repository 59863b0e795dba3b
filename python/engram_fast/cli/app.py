"""The command's entry: its subcommands, registered."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from . import bench, demo, hash, layout, token_map, trace
from .group import Group, command, examples

app = typer.Typer(
    name="engram-fast",
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Exact, fast hashed n-gram memory: from token ids to embedding table rows.",
    epilog=examples("engram-fast demo", "engram-fast hash --help"),
)
command(app, *demo.EXAMPLES)(demo.demo)
app.add_typer(token_map.app, name="token-map")
app.add_typer(layout.app, name="layout")
command(app, *hash.EXAMPLES)(hash.hash)
command(app, *trace.EXAMPLES)(trace.trace)
command(app, *bench.EXAMPLES)(bench.bench)


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


def _stop(number: int, frame: object) -> None:
    sys.exit(128 + number)


def main() -> None:
    """Run `engram-fast` with the arguments of this process."""
    for name in ("SIGTERM", "SIGHUP"):
        # As for Ctrl-C, the command removes its temporary files before it ends.
        if (number := getattr(signal, name, None)) is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _stop)
    app(prog_name="engram-fast")
