"""What holds for every command: help with examples, quick start, exit codes, one sentence for wrong input."""

from __future__ import annotations

import os
import subprocess

import engram_fast
import pytest
from cli_tools import refuse, run, start
from engram_fast.cli import app, group
from typer.testing import CliRunner

COMMANDS = [
    ("demo",),
    ("hash",),
    ("trace",),
    ("bench",),
    ("token-map", "build"),
    ("token-map", "show"),
    ("token-map", "diff"),
    ("layout", "show"),
    ("layout", "check"),
]


@pytest.mark.parametrize("command", [(), *COMMANDS], ids=" ".join)
def test_help_has_examples(command):
    result = run(*command, "--help")
    assert "Usage: engram-fast" in result.stdout.replace("root", "engram-fast")
    assert "Examples:" in result.stdout
    assert f"engram-fast {' '.join(command)}".strip() in result.stdout


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != ("bench",)], ids=" ".join)
def test_every_command_that_prints_has_json(command):
    assert "--json" in run(*command, "--help").stdout


@pytest.mark.parametrize("command", [(), ("token-map",), ("layout",)], ids=" ".join)
def test_without_arguments_there_is_help(command):
    assert run(*command).stdout == run(*command, "--help").stdout


def test_version():
    assert run("--version").stdout == f"engram-fast {engram_fast.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nope"], "No such command 'nope'"),
        (["layout", "nope"], "No such command 'nope'"),
        (["hash"], "Missing argument"),
        (["hash", "x.npy"], "Missing option"),
        (["bench", "--nope"], "No such option"),
        (["bench", "--length", "many"], "--length"),
        (["bench", "--length", "0"], "--length"),
        (["bench", "--order", "9"], "--order"),
        (["token-map", "show"], "Missing argument"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments, says):
    assert says in refuse(*arguments)


def test_the_module_runs_like_the_command(tmp_path):
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(__import__("sys").path)}
    command = [__import__("sys").executable, "-m", "engram_fast.cli"]
    done = subprocess.run([*command, "--version"], env=here, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"engram-fast {engram_fast.__version__}\n")
    done = subprocess.run(
        [*command, "token-map", "show", tmp_path / "no.json"], env=here, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"engram-fast: {tmp_path / 'no.json'}: no such file or directory\n"


def test_starting_loads_nothing_heavy():
    heavy = "{'torch', 'transformers', 'tokenizers', 'tiktoken', 'rich.progress', 'engram_fast.reference'}"
    done = start("layout", "show", before=f"import atexit; atexit.register(lambda: print({heavy} & set(sys.modules)))")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "set()"


def test_a_reader_that_leaves_is_no_error():
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as gone:
        done = start("layout", "show", "qwen-ple", "--json", stdout=gone)
    assert done.returncode == 1
    assert done.stderr == ""


def test_without_any_stdout_it_still_works(tmp_path):
    done = start("layout", "show", "qwen-ple", before="sys.stdout = None")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_without_unicode_gets_question_marks():
    done = start("layout", "show", "qwen-ple", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    done = start("--help", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr


def test_a_fault_of_ours_keeps_its_traceback(monkeypatch):
    def broken():
        raise KeyError("a fault")

    monkeypatch.setattr(engram_fast, "presets", broken)
    result = CliRunner().invoke(app, ["layout", "show"])
    assert isinstance(result.exception, KeyError)


def test_a_variable_shows_the_traceback_of_wrong_input(monkeypatch):
    monkeypatch.setenv("ENGRAM_FAST_TRACEBACK", "1")
    assert isinstance(CliRunner().invoke(app, ["layout", "show", "nope"]).exception, ValueError)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ValueError("two\n  lines"), "two lines"),
        (ValueError(), "ValueError"),
        (FileNotFoundError(2, "No such file or directory", b"a/b"), "a/b: no such file or directory"),
        (OSError("x: no room"), "x: no room"),
        (KeyError("a"), None),
    ],
)
def test_sentences(error, sentence):
    assert group._sentence(error) == sentence
