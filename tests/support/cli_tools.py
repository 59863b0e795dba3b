"""For the tests of the command line: running it, in this process or another, and a small tokenizer on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from engram_fast.cli import app
from typer.testing import CliRunner

WORDS = ["<u>", "<s>", "<pad>", "The", "the", "dog", "Dog", "saw", "a", "cat", "."]
"""`small_tokenizer`'s vocabulary: "The" and "the", "dog" and "Dog" share a compressed id."""


def run(*arguments: Any, code: int = 0) -> Any:
    """The result of the command in this process; its exit code must be `code`."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


def run_json(*arguments: Any, code: int = 0) -> Any:
    """What the command prints with --json: one line, and nothing else on either stream."""
    result = run(*arguments, "--json", code=code)
    assert result.stderr == ""
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


def refuse(*arguments: Any) -> str:
    """The sentence with which the command refuses wrong input: exit code 2, one line, nothing on stdout."""
    result = run(*arguments, code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("engram-fast: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    return result.stderr[len("engram-fast: ") :].rstrip("\n")


def start(*arguments: Any, before: str = "pass", **options: Any) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, after the statements `before`; without a terminal."""
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1", **options.pop("env", {})}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    statements = f"import sys; {before}; from engram_fast.cli import main; main()"
    arguments = [sys.executable, "-c", statements, *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    return subprocess.run(arguments, text=True, encoding="utf-8", env=environment, **{**streams, **options})


def small_tokenizer(folder: Path, words: list[str] = WORDS, bos: str | None = "<s>") -> Path:
    """Writes a word-level tokenizer into `folder`; its tokenizer.json."""
    tokenizers = pytest.importorskip("tokenizers", reason="needs the package tokenizers")
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token=words[0]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    if bos is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": bos}))
    return folder / "tokenizer.json"


def listing(folder: Path) -> dict[str, bytes]:
    """Every file below `folder` and its content, to see that nothing changed."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
