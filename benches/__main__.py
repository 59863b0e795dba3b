"""All timed benchmarks one after the other, each in a fresh process: `python -m benches [--record] [--smoke]`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benches.environment import ROOT

RECORD = ROOT / "benches" / "record"
ALL = ("hash", "boundaries", "one_token", "token_map")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: verify every answer, promise no number")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a target is missed")
    parser.add_argument("--record", action="store_true", help="write the results and the picture to benches/record/")
    parser.add_argument("--baseline", type=Path, metavar="VENV", help="see bench_boundaries")
    parser.add_argument(
        "--budget", type=float, default=10.0, metavar="S", help="seconds per group of sides (default 10)"
    )
    options = parser.parse_args()
    if options.record and options.smoke:
        parser.error("a smoke run is not worth recording")
    status = 0
    for name in ALL:
        command = [sys.executable, "-m", f"benches.bench_{name}", "--budget", str(options.budget)]
        command += ["--smoke"] * options.smoke + ["--strict"] * options.strict
        if options.record:
            command += ["--json", str(RECORD / f"{name}.json")]
        if name == "boundaries" and options.baseline is not None:
            command += ["--baseline", str(options.baseline.absolute())]
        status = max(status, subprocess.run(command, cwd=ROOT).returncode)
    if options.record and (RECORD / "hash.json").exists():
        pictures = [str(RECORD / f"hash.{kind}") for kind in ("svg", "png")]
        command = [sys.executable, "-m", "benches.plot", str(RECORD / "hash.json"), *pictures]
        status = max(status, subprocess.run(command, cwd=ROOT).returncode)
    return status


if __name__ == "__main__":
    sys.exit(main())
