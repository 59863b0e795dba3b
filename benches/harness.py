"""Times several sides of a comparison in turn, in one run, and says what came out: medians, spread, ratios, targets.

pytest-benchmark finishes one test before it begins the next, so that on a shared machine its sides meet different
weather. Here every round times each side once, in a random order, and ratios compare like with like. The statistics
themselves are pytest-benchmark's.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
import timeit
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pytest_benchmark.stats import Stats

MIN_BURST_S = 0.003
"""Calls shorter than this are timed several at a time."""
WARM_BELOW_S = 0.05
"""Shorter calls are made once untimed before each burst: what ran before has emptied the caches."""
VISITS, MANY_TIMES = 5, 20
"""A side whose burst is 20 times shorter than the longest one is visited 5 times a round, and the median counts."""


@dataclass
class Side:
    """One side: `burst(n)` makes n calls and returns the nanoseconds they took."""

    name: str
    burst: Callable[[int], float]
    settle_s: float = 0.0
    """To wait after a burst: some thread pools spin on for a while and would slow down whoever comes next."""

    @classmethod
    def of(
        cls, name: str, statement: str | Callable[[], Any], setup: str = "pass", settle_s: float = 0.0, **names: Any
    ) -> Side:
        """A statement over `names`, so that what is timed has no wrapper around it, or a function of no arguments."""
        timer = timeit.Timer(statement, setup=setup, globals=names)
        return cls(name, lambda n: timer.timeit(n) * 1e9, settle_s)


@dataclass
class Timing:
    """What one side took: nanoseconds per call, one number per round."""

    name: str
    calls: int
    samples: list[float]
    stats: Stats = field(init=False)

    def __post_init__(self) -> None:
        self.stats = Stats()
        for sample in self.samples:
            self.stats.update(sample)

    @property
    def median(self) -> float:
        return float(self.stats.median)

    def to_json(self) -> dict[str, Any]:
        numbers = {
            name: round(float(getattr(self.stats, name)), 2) for name in ("median", "q1", "q3", "iqr", "min", "max")
        }
        return {"side": self.name, "rounds": len(self.samples), "calls_per_round": self.calls, "ns_per_call": numbers}


def interleave(
    sides: Iterable[Side], *, rounds: int = 25, least: int = 5, budget_s: float = 10.0, seed: int = 0
) -> dict[str, Timing]:
    """Time every side once per round: `rounds` times, or as often as `budget_s` allows, but at least `least` times."""
    sides = list(sides)
    calls: dict[str, int] = {}
    seconds: dict[str, float] = {}
    for side in sides:
        side.burst(1)
        once = side.burst(1) / 1e9
        calls[side.name] = max(1, min(1_000_000, round(MIN_BURST_S / max(once, 1e-9))))
        seconds[side.name] = calls[side.name] * once + (once if once < WARM_BELOW_S else 0) + side.settle_s
        time.sleep(side.settle_s)
    warm = {side.name for side in sides if seconds[side.name] / calls[side.name] < 2 * WARM_BELOW_S}
    longest = max(seconds.values())
    visits = {name: VISITS if each * MANY_TIMES < longest else 1 for name, each in seconds.items()}
    rounds = max(least, min(rounds, round(budget_s / sum(each * visits[name] for name, each in seconds.items()))))
    samples: dict[str, list[float]] = {side.name: [] for side in sides}
    order = random.Random(seed)
    schedule = [side for side in sides for _ in range(visits[side.name])]
    for _ in range(rounds):
        order.shuffle(schedule)
        gc.collect()
        taken: dict[str, list[float]] = {side.name: [] for side in sides}
        for side in schedule:
            if side.name in warm:
                side.burst(1)
            taken[side.name].append(side.burst(calls[side.name]) / calls[side.name])
            time.sleep(side.settle_s)
        for name, numbers in taken.items():
            samples[name].append(statistics.median(numbers))
    return {name: Timing(name, calls[name], numbers) for name, numbers in samples.items()}


@dataclass
class Ratio:
    """How many times longer one side takes than another."""

    value: float
    """Of the medians."""
    spread: tuple[float, float]
    """Quartiles of the ratio within each round."""
    of_minima: float

    @classmethod
    def of(cls, above: Timing, below: Timing) -> Ratio:
        within = np.array(above.samples) / np.array(below.samples)
        low, high = np.quantile(within, [0.25, 0.75])
        return cls(above.median / below.median, (float(low), float(high)), above.stats.min / below.stats.min)


@dataclass
class Target:
    """A promise: a number, its bound, and whether it holds."""

    name: str
    bound: float
    at_least: bool
    aim: float | None = None
    ratio: Ratio | None = None
    note: str = ""
    """Why there is no number, or why it does not count."""

    @property
    def verdict(self) -> str:
        if self.ratio is None:
            return "not measured"
        if self.note:
            return "does not apply"
        holds = self.ratio.value >= self.bound if self.at_least else self.ratio.value <= self.bound
        return "pass" if holds else "FAIL"

    def to_json(self) -> dict[str, Any]:
        numbers = (
            {}
            if self.ratio is None
            else {
                "value": round(self.ratio.value, 3),
                "spread": [round(x, 3) for x in self.ratio.spread],
                "of_minima": round(self.ratio.of_minima, 3),
            }
        )
        bound = {"at_least" if self.at_least else "at_most": self.bound, "aim": self.aim}
        return {"name": self.name, **bound, **numbers, "verdict": self.verdict, "note": self.note}


def at_least(name: str, bound: float, **rest: Any) -> Target:
    return Target(name, bound, True, **rest)


def at_most(name: str, bound: float, **rest: Any) -> Target:
    return Target(name, bound, False, **rest)


def must_equal(what: str, ours: np.ndarray, theirs: np.ndarray) -> None:
    """Refuse to time sides that do not agree: same shape, same numbers; the integer type may differ."""
    if ours.shape != theirs.shape:
        raise AssertionError(f"{what}: shape {theirs.shape}, expected {ours.shape}")
    if not np.array_equal(ours, theirs):
        place = tuple(int(i) for i in np.argwhere(ours != theirs)[0])
        raise AssertionError(f"{what}: {theirs[place]} at {place}, expected {ours[place]}")
