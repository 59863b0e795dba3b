"""What boundaries cost: masks, segments, packed sequences and state against the plain call; and plain against an
earlier wheel.

    python -m benches.bench_boundaries --baseline /path/to/venv --json benches/record/boundaries.json

`--baseline` is a virtual environment with that wheel (a release build): its process and one of this tree are fed
in turn.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benches import sides
from benches.cases import DEMO, SIZES, V41, Case
from benches.harness import Ratio, Side, at_most, interleave, must_equal
from benches.report import Group, Report, arguments
from benches.workers import Worker

PLAIN, STATE = "plain", "step with state"
DOCUMENT = 300
"""Mean length of the documents in a row, tokens."""


def starts(count: int, rng: np.random.Generator) -> np.ndarray:
    """Where documents begin: bool [count], about every 300 tokens."""
    begins = rng.random(count) < 1 / DOCUMENT
    begins[0] = True
    return begins


def boundaries(shape: tuple[int, int]) -> dict[str, dict[str, Any]]:
    """The boundary options to time, by name; the last is for flat ids."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(shape[1] // 2, shape[1] + 1, shape[0])
    right = np.arange(shape[1]) < lengths[:, None]
    segments = np.stack([np.cumsum(starts(shape[1], rng)) for _ in range(shape[0])]).astype(np.int32)
    size = shape[0] * shape[1]
    cuts = np.append(np.flatnonzero(starts(size, rng)), size)
    return {
        "mask, right padding": {"mask": right},
        "mask, left padding": {"mask": np.ascontiguousarray(right[:, ::-1])},
        "mask, all true": {"mask": np.ones(shape, dtype=bool)},
        "segment_ids": {"segment_ids": segments},
        "mask and segment_ids": {"mask": right, "segment_ids": segments},
        "cu_seqlens": {"cu_seqlens": cuts},
    }


def state_side(case: Case, ids: np.ndarray, out: np.ndarray) -> Side:
    """`step` on whole rows; verified to give the rows of its tokens when it has seen the ones before."""
    hasher = case.hasher
    before, half = hasher.new_state(ids.shape[0]), ids.shape[1] // 2
    parts = [hasher.step(part, before, num_threads=1) for part in (ids[:, :half], ids[:, half:])]
    must_equal(STATE, case.expected(ids), np.concatenate(parts, axis=2))
    state = hasher.new_state(ids.shape[0])
    return Side.of(STATE, "step(ids, state, out=out, num_threads=1)", step=hasher.step, ids=ids, state=state, out=out)


def within(report: Report, case: Case, shape: tuple[int, int], budget: float, rounds: int) -> None:
    """Every boundary against the plain call."""
    order, ids, out = case.numbers["max_order"], case.ids(shape), case.buffer(shape)
    flat, flat_out = ids.reshape(-1), out.reshape(out.shape[0], -1, out.shape[-1])
    plain_flat = f"{PLAIN}, flat ids"
    made = {
        PLAIN: sides.ours(PLAIN, case, ids, out=out),
        plain_flat: sides.ours(plain_flat, case, flat, out=flat_out),
        STATE: state_side(case, ids, out),
    }
    reference = {plain_flat: PLAIN, STATE: PLAIN}
    for name, where in boundaries(shape).items():
        packed = "cu_seqlens" in where
        made[name] = sides.ours(name, case, flat if packed else ids, out=flat_out if packed else out, **where)
        reference[name] = plain_flat if packed else PLAIN
        report.verified.append(f"{name}: N={order}")
    timings = interleave(made.values(), budget_s=budget, rounds=rounds)
    timings = {name: timings[name] for name in made}
    units = dict.fromkeys(made, ids.size * len(case.layout.layer_ids))
    title = f"N={order}, {shape[0]}x{shape[1]} tokens, H=8, 2 layers, int32, one thread"
    report.add(
        Group(title, "ns per token and layer", timings, units, reference, {"order": order, "shape": list(shape)})
    )
    for name, against in reference.items():
        if name != plain_flat:
            ratio = Ratio.of(timings[name], timings[against])
            report.targets.append(at_most(f"N={order}: {name} / {against}", 1.5, ratio=ratio))


def against_baseline(
    report: Report, python: Path, budget: float, rounds: int, sizes: dict[str, tuple[int, int]]
) -> None:
    """The plain call of this tree against that of another installation."""
    with contextlib.ExitStack() as stack:
        now = stack.enter_context(Worker())
        then = stack.enter_context(Worker(python=python))
        for case in (DEMO, V41):
            for size, shape in sizes.items():
                order, ids = case.numbers["max_order"], case.ids(shape)
                made, proofs = {}, {}
                for name, worker in (("now", now), ("baseline", then)):
                    made[name], proofs[name] = worker.side(name, case, ids)
                timings = interleave(made.values(), budget_s=budget, rounds=rounds)
                units = dict.fromkeys(made, ids.size * len(case.layout.layer_ids))
                about = {"order": order, "shape": list(shape), "kernels": {k: v["kernel"] for k, v in proofs.items()}}
                title = f"N={order}, {size} tokens: this tree and the baseline, plain, one thread"
                ordered = {name: timings[name] for name in made}
                report.add(Group(title, "ns per token and layer", ordered, units, {"baseline": "now"}, about))
                ratio = Ratio.of(timings["now"], timings["baseline"])
                report.targets.append(at_most(f"N={order}, {size}: now / baseline", 1.05, ratio=ratio))


def main(arguments_given: list[str] | None = None) -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--baseline", type=Path, metavar="VENV", help="a virtual environment with an earlier wheel")
    options = parser.parse_args(arguments_given)
    report = Report("boundaries", options.smoke, DEMO.hasher.kernel)
    budget, rounds = (0.0, 5) if options.smoke else (options.budget, 41)
    shape = (3, 40) if options.smoke else SIZES["8x2048"]
    for case in (DEMO, V41):
        within(report, case, shape, budget, rounds)
    if options.baseline is None:
        report.missing["baseline"] = "not given (--baseline VENV)"
    else:
        folder = "Scripts" if sys.platform == "win32" else "bin"
        # Not resolved: the link is what makes it that environment's interpreter.
        python = options.baseline.absolute() / folder / "python"
        sizes = {"3x40": (3, 40)} if options.smoke else {size: SIZES[size] for size in ("8x2048", "1M")}
        against_baseline(report, python, budget, rounds, sizes)
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
