"""The result of a benchmark: tables on the screen, JSON in a file."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benches.environment import environment, load_average
from benches.harness import Target, Timing

FORMAT, VERSION = "engram-fast-benchmark", 1


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--smoke", action="store_true", help="tiny sizes, few rounds: verify every answer, promise no number"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result to FILE")
    parser.add_argument(
        "--budget", type=float, default=10.0, metavar="S", help="seconds per group of sides (default 10)"
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 where a target is missed")
    return parser


def figure(x: float) -> str:
    """Three digits, whatever the size."""
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


@dataclass
class Group:
    """Sides that were timed in one run; `units` is what one call amounts to (tokens times layers, or 1)."""

    title: str
    unit: str
    timings: dict[str, Timing]
    units: dict[str, int]
    reference: dict[str, str]
    """For each side, the side of ours that its ratio is against."""
    about: dict[str, Any] = field(default_factory=dict)

    def per_unit(self, side: str) -> float:
        return self.timings[side].median / self.units[side]

    def table(self) -> Table:
        table = Table(title=self.title, title_justify="left")
        table.add_column("side")
        for name in (self.unit, "quartiles", "of ours", "rounds"):
            table.add_column(name, justify="right")
        for name, timing in self.timings.items():
            low, high = (figure(x / self.units[name]) for x in (timing.stats.q1, timing.stats.q3))
            ours = self.reference.get(name)
            ratio = f"{figure(self.per_unit(name) / self.per_unit(ours))} x" if ours in self.timings else ""
            table.add_row(name, figure(self.per_unit(name)), f"{low} … {high}", ratio, str(len(timing.samples)))
        return table

    def to_json(self) -> dict[str, Any]:
        rows = [
            {**timing.to_json(), "units_per_call": self.units[name], "ns_per_unit": round(self.per_unit(name), 4)}
            for name, timing in self.timings.items()
        ]
        return {"title": self.title, "unit": self.unit, **self.about, "sides": rows}


@dataclass
class Report:
    """Everything one benchmark found."""

    bench: str
    smoke: bool
    kernel: str | None = None
    groups: list[Group] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    verified: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """Sides that could not be had, and why."""
    environment: dict[str, Any] = field(init=False)
    console: Console = field(default_factory=lambda: Console(width=None if sys.stdout.isatty() else 150))

    def __post_init__(self) -> None:
        self.environment = environment(self.kernel)

    def add(self, group: Group) -> None:
        self.groups.append(group)
        self.console.print(group.table())

    def finish(self, options: argparse.Namespace) -> int:
        """Print the targets, write the file; the exit status."""
        for name, reason in self.missing.items():
            self.console.print(f"{name}: {reason}", highlight=False)
        for target in self.targets:
            if self.smoke:
                target.note = "a smoke run"
        if self.targets:
            self.console.print(self._targets())
        if options.json is not None:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        missed = any(target.verdict == "FAIL" for target in self.targets)
        return int(missed and options.strict)

    def _targets(self) -> Table:
        table = Table(title="targets", title_justify="left")
        table.add_column("ratio of medians")
        for name in ("value", "quartiles", "of minima", "bound", "aim"):
            table.add_column(name, justify="right")
        table.add_column("verdict")
        colours = {"pass": "green", "FAIL": "red"}
        for target in self.targets:
            sign = "≥" if target.at_least else "≤"
            numbers = ["", "", ""]
            if target.ratio is not None:
                low, high = map(figure, target.ratio.spread)
                numbers = [figure(target.ratio.value), f"{low} … {high}", figure(target.ratio.of_minima)]
            aim = "" if target.aim is None else f"{sign} {target.aim:g}"
            verdict = target.verdict + (f": {target.note}" if target.verdict == "does not apply" else "")
            colour = colours.get(target.verdict, "yellow")
            table.add_row(target.name, *numbers, f"{sign} {target.bound:g}", aim, f"[{colour}]{verdict}[/]")
        return table

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "bench": self.bench,
            "command": f"python -m benches.bench_{self.bench}",
            "smoke": self.smoke,
            "environment": {**self.environment, "load_average_at_end": load_average()},
            "verified": self.verified,
            "missing": self.missing,
            "targets": [target.to_json() for target in self.targets],
            "groups": [group.to_json() for group in self.groups],
        }
