"""Ours against everything a user would take instead, and against the memory's own limit: N=3 and N=4, five sizes.

python -m benches.bench_hash --json benches/record/hash.json
"""

from __future__ import annotations

import contextlib
import sys
from types import ModuleType

from benches import cases, peers, sides
from benches.cases import DEMO, V41, Case
from benches.harness import Ratio, Side, Target, Timing, at_least, at_most, interleave
from benches.report import Group, Report, arguments
from benches.workers import Unavailable, Worker

KERNELS = ("scalar", "avx2", "avx512")
KERNEL_SIZES = ("8x2048", "1M")
OUT = "ours, into out="
DEMO_NUMPY, TORCH, ONNX = "the demo's NumPy", "torch eager", "ONNX Runtime"


def on(name: str, threads: int) -> str:
    return f"{name}, {threads} threads" if threads > 1 else name


class Sides:
    """The sides of one batch: what to time, what one call amounts to, and which side of ours each is compared with."""

    def __init__(self, report: Report, case: Case, size: str, shape: tuple[int, int]) -> None:
        self.report, self.case, self.size, self.shape = report, case, size, shape
        self.order = case.numbers["max_order"]
        self.ids, self.out = case.ids(shape), case.buffer(shape)
        self.expected = case.expected(self.ids)
        self.made: dict[str, Side] = {}
        self.units: dict[str, int] = {}
        self.reference: dict[str, str] = {}

    def add(self, side: Side, case: Case, against: str | None = None) -> None:
        self.made[side.name] = side
        self.units[side.name] = self.ids.size * len(case.layout.layer_ids)
        if against is not None:
            self.reference[side.name] = against
        self.report.verified.append(f"{side.name}: N={self.order}, {self.shape[0]}x{self.shape[1]}")

    def add_ours(self) -> None:
        """Ours and the limit, on the same buffer."""
        case, ids, out = self.case, self.ids, self.out
        for threads in (1, 2):
            name = on(OUT, threads)
            self.add(sides.ours(name, case, ids, out=out, threads=threads, expected=self.expected), case)
            for fill, temporal in (("plain fill", True), ("non-temporal fill", False)):
                self.add(sides.fill(on(fill, threads), out, temporal=temporal, threads=threads), case, name)
        self.add(sides.ours("ours, new array", case, ids, out=None, expected=self.expected), case, OUT)

    def add_peer(self, module: ModuleType) -> None:
        """A peer, and ours on its layout where it has one of its own."""
        own = module.case(self.case)
        if own is None or self.ids.size > getattr(module, "MAX_TOKENS", self.ids.size):
            return
        ids, name = self.ids, None
        if own.preset != self.case.preset:
            ids, name = own.ids(self.shape), f"ours, {own.preset}"
            self.add(sides.ours(name, own, ids, out=own.buffer(self.shape)), own)
        for threads in module.THREADS:
            side = sides.peer(on(module.NAME, threads), module, own, ids, threads)
            self.add(side, own, name or on(OUT, threads))

    def add_kernel(self, kernel: str, worker: Worker) -> None:
        for threads in (1, 2):
            side, _ = worker.side(on(f"ours, {kernel} kernel", threads), self.case, self.ids, threads)
            self.add(side, self.case, on(OUT, threads))

    def time(self, budget: float) -> dict[str, Timing]:
        timings = interleave(self.made.values(), budget_s=budget, rounds=5 if self.report.smoke else 31)
        timings = {name: timings[name] for name in self.made}
        about = {"order": self.order, "size": self.size, "shape": list(self.shape), "layout": self.case.preset}
        title = f"N={self.order}, {self.shape[0]}x{self.shape[1]} tokens, H=8, 2 layers, int32"
        self.report.add(Group(title, "ns per token and layer", timings, self.units, self.reference, about))
        return timings


def targets(order: int, groups: dict[str, dict[str, Timing]], missing: dict[str, str]) -> list[Target]:
    """The promises, as ratios within one group."""

    def ratio(size: str, above: str, below: str) -> Ratio | None:
        timings = groups.get(size, {})
        return Ratio.of(timings[above], timings[below]) if above in timings and below in timings else None

    def promise(make, text: str, bound: float, size: str, above: str, below: str, **rest) -> Target:
        return make(f"N={order}, {size}: {text}", bound, ratio=ratio(size, above, below), **rest)

    result = []
    for threads in (1, 2):
        fill, ours = on("non-temporal fill", threads), on(OUT, threads)
        text = f"{fill} / ours on {threads}"
        result.append(promise(at_least, text, 0.75, "1M", fill, ours, aim=0.9 if threads == 1 else None))
    result.append(promise(at_most, "ours / plain fill", 3.5, "8x2048", OUT, "plain fill", aim=2.5))
    two = promise(at_least, "ours on 1 / on 2 threads", 1.6, "8x2048", OUT, on(OUT, 2))
    scaling = ratio("8x2048", "plain fill", on("plain fill", 2))
    if scaling is not None and scaling.value < 1.6:
        two.note = f"the fill itself scales by {scaling.value:.2f}"
    result.append(two)
    result.append(promise(at_least, f"{DEMO_NUMPY} / ours", 15, "8x2048", DEMO_NUMPY, OUT))
    result.append(promise(at_least, f"{DEMO_NUMPY} / ours", 40, "1M", DEMO_NUMPY, OUT))
    for threads in (1, 2):
        result.append(
            promise(at_least, f"{on(ONNX, threads)} / ours on {threads}", 10, "1M", on(ONNX, threads), on(OUT, threads))
        )
    for size in KERNEL_SIZES:
        result.append(promise(at_least, f"{TORCH} / ours", 30, size, TORCH, OUT))
    scalar = "ours, scalar kernel"
    for size in KERNEL_SIZES:
        result.append(promise(at_least, "scalar / avx2 kernel", 2.5, size, scalar, "ours, avx2 kernel"))
    if order == 3:
        result.append(promise(at_least, f"{DEMO_NUMPY} / scalar kernel", 6, "8x2048", DEMO_NUMPY, scalar))
        result.append(promise(at_least, f"{DEMO_NUMPY} / scalar kernel", 10, "1M", DEMO_NUMPY, scalar))
        for size in KERNEL_SIZES:
            result.append(promise(at_least, "scalar kernel on 1 / on 2 threads", 1.7, size, scalar, on(scalar, 2)))
    for target in result:
        if target.ratio is None:
            target.note = "; ".join(f"{name}: {why}" for name, why in missing.items() if name in target.name)
    return result


def kernel_workers(stack: contextlib.ExitStack, missing: dict[str, str]) -> dict[str, Worker]:
    """A process for each kernel that this processor has."""
    workers = {}
    for kernel in KERNELS:
        worker = stack.enter_context(Worker(kernel=kernel))
        try:
            worker.side("trial", DEMO, DEMO.ids((1, 1)))
        except Unavailable as error:
            missing[f"{kernel} kernel"] = str(error)
        else:
            workers[kernel] = worker
    return workers


def main(arguments_given: list[str] | None = None) -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--size", action="append", choices=list(cases.SIZES), help="only this size (may be repeated)")
    parser.add_argument("--order", action="append", type=int, choices=[3, 4], help="only this N (may be repeated)")
    options = parser.parse_args(arguments_given)
    report = Report("hash", options.smoke, DEMO.hasher.kernel)
    found, report.missing = peers.load()
    sizes = cases.SMOKE_SIZES if options.smoke else cases.SIZES
    sizes = {size: shape for size, shape in sizes.items() if not options.size or size in options.size}
    budget = 0.0 if options.smoke else options.budget
    with contextlib.ExitStack() as stack:
        workers = kernel_workers(stack, report.missing)
        for order, case in ((3, DEMO), (4, V41)):
            if options.order and order not in options.order:
                continue
            groups = {}
            for size, shape in sizes.items():
                batch = Sides(report, case, size, shape)
                batch.add_ours()
                for module in found:
                    batch.add_peer(module)
                for kernel, worker in workers.items() if size in KERNEL_SIZES else ():
                    batch.add_kernel(kernel, worker)
                groups[size] = batch.time(budget)
            report.targets += targets(order, groups, report.missing)
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
