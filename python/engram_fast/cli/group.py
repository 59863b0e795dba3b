"""Rules of all commands: help without arguments, and one sentence with exit code 2 for wrong input."""

from __future__ import annotations

import errno
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import typer
from typer.core import TyperGroup

# What the library raises for a bad value, id, type or file. Anything else is a fault of ours and keeps its traceback;
# with ENGRAM_FAST_TRACEBACK=1 these do as well.
_WRONG_INPUT = (ValueError, IndexError, TypeError, OSError, ImportError)


F = TypeVar("F", bound=Callable[..., Any])


class Group(TyperGroup):
    """A group of commands; without arguments it shows its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse `args`; without any, show the help."""
        return super().parse_args(ctx, args or ["--help"])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command and end the process with its exit code; an error becomes one line on stderr."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        for stream in (sys.stdout, sys.stderr):
            # A token's text may hold what the terminal's encoding lacks; that must not end the command.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
            if sys.stdout is not None:
                sys.stdout.flush()
        except (typer.Abort, KeyboardInterrupt):
            typer.echo("engram-fast: stopped", err=True)
            code = 130
        except Exception as error:
            if getattr(error, "errno", None) == errno.EPIPE:
                _close_stdout()
                sys.exit(1)
            sentence = _sentence(error)
            if sentence is None or os.environ.get("ENGRAM_FAST_TRACEBACK"):
                raise
            typer.echo(f"engram-fast: {sentence}", err=True)
            code = 2
        sys.exit(code if isinstance(code, int) else 0)


def command(app: typer.Typer, *lines: str) -> Callable[[F], F]:
    """Return a decorator that makes a function a command of `app`, with its examples.

    A help page wraps its paragraphs by the width of the terminal, not at the line ends of the docstring.
    """

    def register(function: F) -> F:
        text = inspect.getdoc(function) or ""
        paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
        app.command(help="\n\n".join(paragraphs), epilog=examples(*lines))(function)
        return function

    return register


def examples(*lines: str) -> str:
    """Return the last part of a help page: one example a line."""
    return "\n\n".join(["Examples:", *lines])


def _sentence(error: Exception) -> str | None:
    """Return the error in one line, or None if it is a fault of ours."""
    if hasattr(error, "format_message"):
        # A usage error, whichever package typer takes the class from.
        command = getattr(getattr(error, "ctx", None), "command_path", None)
        hint = f" (see {command} --help)" if command else ""
        return _one_line(error.format_message()).rstrip(".") + hint
    if not isinstance(error, _WRONG_INPUT):
        return None
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        reason = error.strerror[:1].lower() + error.strerror[1:]
        return _one_line(f"{os.fsdecode(error.filename)}: {reason}")
    return _one_line(str(error)) or type(error).__name__


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _close_stdout() -> None:
    # The reader has gone; what is left in the buffer must not raise again at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
