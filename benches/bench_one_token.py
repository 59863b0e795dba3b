"""Decoding: one token per sequence, both layers, from Python into a buffer, against the cost of calling NumPy at all.

python -m benches.bench_one_token --json benches/record/one_token.json
"""

from __future__ import annotations

import sys

import numpy as np

from benches import sides
from benches.cases import DEMO, V41, Case
from benches.harness import Ratio, Side, at_most, interleave, must_equal
from benches.peers import numpy_demo
from benches.report import Group, Report, arguments

ADD, HASH, STEP, STEP_NEW = "numpy.add(a, b, out=c)", "hash_batch into out=", "step into out=", "step, new array"


def numpy_add(case: Case, shape: tuple[int, int]) -> Side:
    """The least that a call on arrays of the result's size costs."""
    a, b, c = (case.buffer(shape) for _ in range(3))
    return Side.of(ADD, "add(a, b, out=c)", add=np.add, a=a, b=b, c=c)


def step_sides(case: Case, ids: np.ndarray, out: np.ndarray) -> list[Side]:
    """A decoder's call; verified over several tokens, and the timed state goes on and on."""
    hasher, rows = case.hasher, len(ids)
    text = case.ids((rows, 7), seed=1)
    state = hasher.new_state(rows)
    steps = [hasher.step(np.ascontiguousarray(text[:, t : t + 1]), state, out=out).copy() for t in range(7)]
    must_equal(STEP, case.expected(text), np.concatenate(steps, axis=2))
    names = {"step": hasher.step, "ids": ids, "state": state, "out": out}
    return [Side.of(STEP, "step(ids, state, out=out)", **names), Side.of(STEP_NEW, "step(ids, state)", **names)]


def group(report: Report, case: Case, rows: int, budget: float, rounds: int) -> None:
    order, shape = case.numbers["max_order"], (rows, 1)
    ids, out = case.ids(shape), case.buffer(shape)
    # num_threads=None as a user would leave it.
    hash_side = sides.ours(HASH, case, ids, out=out, threads=None)
    made = [numpy_add(case, shape), hash_side, *step_sides(case, ids, out)]
    made.append(sides.peer(numpy_demo.NAME, numpy_demo, case, ids, 1))
    report.verified += [f"{side.name}: N={order}, {rows} rows" for side in made[1:]]
    timings = interleave(made, budget_s=budget, rounds=rounds)
    timings = {side.name: timings[side.name] for side in made}
    title = f"N={order}, {rows} sequences, one token each, H=8, 2 layers, int32"
    reference = {name: HASH for name in timings if name != HASH}
    about = {"order": order, "rows": rows}
    report.add(Group(title, "ns per call", timings, dict.fromkeys(timings, 1), reference, about))
    if rows > 1:
        return
    for name in (HASH, STEP):
        above_add = Ratio.of(timings[name], timings[ADD])
        report.targets.append(at_most(f"N={order}, one token: {name} / numpy.add", 4, ratio=above_add))
        above_demo = Ratio.of(timings[name], timings[numpy_demo.NAME])
        report.targets.append(at_most(f"N={order}, one token: {name} / the demo's NumPy", 0.1, ratio=above_demo))


def main(arguments_given: list[str] | None = None) -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args(arguments_given)
    report = Report("one_token", options.smoke, V41.hasher.kernel)
    for case in (V41, DEMO):
        for rows in (1, 8) if options.smoke else (1, 8, 64):
            group(report, case, rows, 0.0 if options.smoke else options.budget, 5 if options.smoke else 41)
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
