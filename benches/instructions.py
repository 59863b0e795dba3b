"""Counts the instructions of a fixed piece of hashing under callgrind and compares them with the recorded ones.

    python -m benches.instructions             # compare: exit 1 where a count is more than 2 % above or below
    python -m benches.instructions --update    # record anew

A count does not depend on how busy the machine is, so it guards the kernels where timing cannot. What is counted is the
function `hash_fixed_work` of `rust/examples/hash_fixed.rs` on one thread: a binary without Python, because callgrind
slows everything down fifty times. Valgrind knows no AVX-512, so that kernel is not counted. Another compiler makes
other code: counts of another rustc are shown and not judged.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benches.environment import ROOT

RECORD = Path(__file__).with_name("record") / "instructions.json"
KERNELS, ORDERS = ("scalar", "avx2"), (3, 4)
TOLERANCE = 0.02
WORK = "hash_fixed_work"
NO_KERNEL = "is not a kernel this processor can run"


class Failed(RuntimeError):
    """Something that has to be there is not, in one sentence."""


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment})


def build() -> Path:
    """The example, in release mode."""
    if shutil.which("cargo") is None:
        raise Failed("cargo is not installed: get a Rust toolchain from https://rustup.rs")
    command = ["cargo", "build", "--release", "--example", "hash_fixed", "--message-format", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode:
        raise Failed("the example hash_fixed does not build")
    messages = (json.loads(line) for line in done.stdout.splitlines())
    built = [
        m["executable"] for m in messages if m.get("target", {}).get("name") == "hash_fixed" and m.get("executable")
    ]
    return Path(built[-1])


def rustc() -> str:
    return run(["rustc", "--version"]).stdout.strip()


def count(binary: Path, kernel: str, order: int) -> dict[str, Any] | None:
    """Instructions of one call, and the checksum of its rows; None where the processor lacks the kernel."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "callgrind.out"
        options = [f"--toggle-collect={WORK}", f"--callgrind-out-file={file}", "--collect-atstart=no"]
        command = ["valgrind", "--tool=callgrind", *options, str(binary), str(order)]
        done = run(command, ENGRAM_FAST_KERNEL=kernel)
        if NO_KERNEL in done.stderr:
            return None
        collected = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
        if done.returncode or collected is None:
            raise Failed(f"valgrind ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    used, tokens, checksum = done.stdout.split()
    if used != kernel:
        raise Failed(f"asked for the kernel {kernel}, got {used}")
    # The work is done twice; what the first call sets up is too little to tell them apart.
    each = int(collected[1]) / 2
    return {"instructions": round(each), "per_token_and_layer": round(each / int(tokens), 2), "checksum": checksum}


def measure() -> dict[str, dict[str, Any]]:
    if shutil.which("valgrind") is None:
        raise Failed("valgrind is not installed: get it from your distribution (apt install valgrind)")
    binary = build()
    found = {f"N={order}, {kernel}": count(binary, kernel, order) for order in ORDERS for kernel in KERNELS}
    found = {name: numbers for name, numbers in found.items() if numbers is not None}
    for order in ORDERS:
        answers = {numbers["checksum"] for name, numbers in found.items() if name.startswith(f"N={order},")}
        if len(answers) != 1:
            raise Failed(f"N={order}: the kernels disagree: checksums {', '.join(sorted(answers))}")
    return found


def compare(found: dict[str, dict[str, Any]], console: Console, compiler: str) -> int:
    """Print old and new; 1 where a count moved or a checksum differs."""
    if not RECORD.exists():
        raise Failed(f"nothing is recorded in benches/record/{RECORD.name}: run with --update first")
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    same_compiler = record["rustc"] == compiler
    table = Table(title="instructions per token and layer", title_justify="left")
    for name in ("work", "recorded", "now", "change", "verdict"):
        table.add_column(name, justify="left" if name in ("work", "verdict") else "right")
    status = 0
    for name in sorted({*record["counts"], *found}):
        old, new = record["counts"].get(name), found.get(name)
        if old is None:
            table.add_row(name, "", str(new["per_token_and_layer"]), "", "not recorded")
            continue
        if new is None:
            table.add_row(name, str(old["per_token_and_layer"]), "", "", "skipped: this processor lacks the kernel")
            continue
        change = new["instructions"] / old["instructions"] - 1
        moved = abs(change) > TOLERANCE
        if new["checksum"] != old["checksum"]:
            verdict, status = "FAIL: other rows", 1
        elif moved and not same_compiler:
            verdict = f"not judged: recorded with {record['rustc']}"
        elif moved:
            verdict, status = "FAIL: slower" if change > 0 else "FAIL: better than recorded, use --update", 1
        else:
            verdict = "pass"
        table.add_row(name, *(str(n["per_token_and_layer"]) for n in (old, new)), f"{change:+.2%}", verdict)
    console.print(table)
    return status


def main(arguments_given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="record the counts instead of comparing them")
    options = parser.parse_args(arguments_given)
    console = Console(width=None if sys.stdout.isatty() else 150)
    try:
        found, compiler = measure(), rustc()
        if not options.update:
            return compare(found, console, compiler)
    except Failed as error:
        print(error, file=sys.stderr)
        return 2
    valgrind = run(["valgrind", "--version"]).stdout.strip()
    record = {"rustc": compiler, "valgrind": valgrind, "counts": found}
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for name, numbers in found.items():
        console.print(f"{name}: {numbers['per_token_and_layer']} per token and layer")
    return 0


if __name__ == "__main__":
    sys.exit(main())
