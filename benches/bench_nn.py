"""Engram layers on the CPU: the demo's formulation against engram_fast.nn, same weights and inputs, one run.

    python benches/bench_nn.py [--dtype float32|bfloat16] [--compile] [--repeats 7] [--threads 2] [--cpu-time]

All sides get ready row ids. Outputs and all gradients are compared first; ratios are those of the medians, the sides
taking turns. "products alone" are the projections' matrix products, which every formulation needs: the demo's time over
theirs is what no formulation can pass. Peak memory is what a fresh process holds above the weights and inputs.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from engram_fast.nn import Engram
from torch import Tensor, nn

D, M, HEADS, HEAD_DIM, BATCH, LENGTH, LAYERS = 1024, 4, 16, 64, 4, 512, 2


class PlainShortConv(nn.Module):
    """Norms, one grouped causal convolution over M*D channels, SiLU, as the paper's demo writes it."""

    def __init__(self, hidden_size: int, branches: int, kernel_size: int, dilation: int) -> None:
        super().__init__()
        channels = hidden_size * branches
        self.conv = nn.Conv1d(
            channels,
            channels,
            kernel_size,
            groups=channels,
            bias=False,
            padding=(kernel_size - 1) * dilation,
            dilation=dilation,
        )
        self.norms = nn.ModuleList(nn.RMSNorm(hidden_size, eps=1e-5) for _ in range(branches))

    def forward(self, x: Tensor) -> Tensor:
        normed = torch.cat([norm(x[:, :, m]) for m, norm in enumerate(self.norms)], -1)
        mixed = F.silu(self.conv(normed.transpose(1, 2))[..., : x.shape[1]])
        return mixed.transpose(1, 2).view(x.shape)


class PlainEngram(nn.Module):
    """The formulation of the paper's demo: a projection, two norms and a gate for each branch in turn."""

    def __init__(self, hidden_size: int, branches: int, sizes: list[int], head_dim: int) -> None:
        super().__init__()
        self.multi_head_embedding = nn.Module()
        self.multi_head_embedding.embedding = nn.Embedding(sum(sizes), head_dim)
        offsets = torch.tensor([0, *sizes[:-1]]).cumsum(0)
        self.multi_head_embedding.register_buffer("offsets", offsets)
        width = len(sizes) * head_dim
        self.short_conv = PlainShortConv(hidden_size, branches, 4, 3)
        self.value_proj = nn.Linear(width, hidden_size)
        self.key_projs = nn.ModuleList(nn.Linear(width, hidden_size) for _ in range(branches))
        self.norm1 = nn.ModuleList(nn.RMSNorm(hidden_size) for _ in range(branches))
        self.norm2 = nn.ModuleList(nn.RMSNorm(hidden_size) for _ in range(branches))

    def forward(self, hidden_states: Tensor, rows: Tensor) -> Tensor:
        table = self.multi_head_embedding
        embedded = table.embedding(rows + table.offsets).flatten(-2)
        gates = []
        for branch, project in enumerate(self.key_projs):
            key = self.norm1[branch](project(embedded))
            query = self.norm2[branch](hidden_states[:, :, branch])
            score = (key * query).sum(-1) / math.sqrt(hidden_states.shape[-1])
            score = score.abs().clamp_min(1e-6).sqrt() * score.sign()
            gates.append(score.sigmoid()[..., None])
        value = torch.stack(gates, 2) * self.value_proj(embedded)[:, :, None]
        return value + self.short_conv(value)


def build(side: str, dtype: torch.dtype, batch: int = BATCH) -> tuple[nn.ModuleList, Tensor, list[Tensor], Tensor]:
    """Layers, hidden states, rows of each layer, and the weight of the loss."""
    torch.manual_seed(0)
    sizes = [4001] * HEADS
    plain = nn.ModuleList(PlainEngram(D, M, sizes, HEAD_DIM) for _ in range(LAYERS)).to(dtype)
    hidden = torch.randn(batch, LENGTH, M, D, dtype=dtype).requires_grad_()
    rows = [torch.randint(0, 4001, (batch, LENGTH, HEADS)) for _ in range(LAYERS)]
    weight = torch.randn(hidden.shape, dtype=dtype)
    if side == "plain":
        return plain, hidden, rows, weight
    ours = nn.ModuleList(
        Engram(hidden_size=D, hc_mult=M, sizes=sizes, head_dim=HEAD_DIM, dilation=3, init_std=0.0)
        for _ in range(LAYERS)
    ).to(dtype)
    ours.load_state_dict(plain.state_dict())
    return ours, hidden, rows, weight


def forward(layers: nn.ModuleList, hidden: Tensor, rows: list[Tensor]) -> Tensor:
    """The hidden states after all layers; each adds its contribution."""
    for layer, layer_rows in zip(layers, rows, strict=True):
        hidden = hidden + layer(hidden, layer_rows)
    return hidden


def only_forward(layers: nn.ModuleList, hidden: Tensor, rows: list[Tensor], _weight: Tensor) -> None:
    """Forward without gradients."""
    with torch.no_grad():
        forward(layers, hidden, rows)


def train(layers: nn.ModuleList, hidden: Tensor, rows: list[Tensor], weight: Tensor) -> None:
    """Forward and backward."""
    hidden.grad = None
    layers.zero_grad(set_to_none=True)
    (forward(layers, hidden, rows) * weight).sum().backward()


def results_of(layers: nn.ModuleList, hidden: Tensor, rows: list[Tensor], weight: Tensor) -> dict[str, Tensor]:
    """Output and all gradients."""
    with torch.no_grad():
        out = forward(layers, hidden, rows)
    train(layers, hidden, rows, weight)
    return {"output": out, "hidden": hidden.grad, **{n: p.grad for n, p in layers.named_parameters()}}


def verify(plain: tuple, ours: tuple) -> str:
    """In float32: each result within 1e-3 of its largest value. In bfloat16: ours as near to float32 as the demo's.

    Near a score of zero the root's slope reaches 500, so gradients behind a gate differ by far more than one rounding.
    In bfloat16 they are noise for such tokens, so the output and the last convolution's gradients, which
    no gate is behind, are compared there, by the norm of the error.
    """
    want, got = results_of(*plain), results_of(*ours)
    if plain[1].dtype == torch.float32:
        off = {n: float((got[n] - want[n]).abs().max() / want[n].abs().max()) for n in want}
        name = max(off, key=off.get)
        if not off[name] <= 1e-3:
            raise SystemExit(f"{name} differs by {off[name]:.3g} of its largest value; the bound is 1e-3")
        return f"equal to {off[name]:.2g} of the largest value, output and all gradients (bound 1e-3)"
    layers, hidden, rows, weight = plain
    exact = (copy.deepcopy(layers).float(), hidden.detach().float().requires_grad_(), rows, weight.float())
    truth = results_of(*exact)
    names = [n for n in truth if n == "output" or n.startswith(f"{LAYERS - 1}.short_conv")]
    errors = [{n: float((r[n].float() - truth[n]).norm() / truth[n].norm()) for n in names} for r in (want, got)]
    for name, of_plain in errors[0].items():
        of_ours = errors[1][name]
        if not of_ours <= 2 * of_plain + 1e-2:
            raise SystemExit(f"{name}: off by {of_ours:.3g} from float32, the demo's formulation by {of_plain:.3g}")
    worst = [max(error.values()) for error in errors]
    return f"as near to float32 as the demo's formulation: worst {worst[1]:.2g} against {worst[0]:.2g} (norms)"


def products(tokens: int, dtype: torch.dtype, backward: bool) -> Callable[[], None]:
    """A function that does the projections' products of all layers and nothing else, into memory that it has."""
    width = HEADS * HEAD_DIM
    embedded, weight = (torch.randn(count, width, dtype=dtype) for count in (tokens, (M + 1) * D))
    projected = torch.empty((tokens, (M + 1) * D), dtype=dtype)
    grads = torch.empty_like(embedded), torch.empty_like(weight)

    def run() -> None:
        for _ in range(LAYERS):
            torch.mm(embedded, weight.t(), out=projected)
            if backward:
                torch.mm(projected, weight, out=grads[0])
                torch.mm(projected.t(), embedded, out=grads[1])

    return run


def compiled(side: tuple) -> tuple:
    """The same parts, the layers compiled; what they share with the eager side are the parameters."""
    layers = nn.ModuleList(copy.copy(layer) for layer in side[0])
    for layer in layers:
        layer.compile(fullgraph=True)
    return (layers, *side[1:])


def measure(works: dict[str, Callable[[], None]], repeats: int, clock: Callable[[], float]) -> dict[str, float]:
    """Median seconds of each; they take turns, after one turn that does not count."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            start = clock()
            work()
            if turn:
                times[name].append(clock() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def peak(side: str, options: argparse.Namespace) -> float:
    """MiB above weights and inputs at the height of a training step, in a process of its own."""
    command = [sys.executable, __file__, "--peak", side, "--dtype", options.dtype]
    command += ["--threads", str(options.threads), "--batch", str(options.batch)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def print_peak(side: str, dtype: torch.dtype, batch: int) -> None:
    """Highest resident memory of two steps, above that of weights and inputs; the gradients are in it on both sides."""

    def status(name: str) -> int:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(name))

    parts = build(side, dtype, batch)
    with open("/proc/self/clear_refs", "w") as reset:
        reset.write("5")
    before = status("VmRSS")
    train(*parts)
    train(*parts)
    print(f"{(status('VmHWM') - before) / 1024:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--compile", action="store_true", help="also both sides under torch.compile, in the same run")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true", help="processor time: for a machine that others use")
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--peak", choices=["plain", "ours"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    dtype = getattr(torch, options.dtype)
    clock = time.process_time if options.cpu_time else time.perf_counter
    if options.peak:
        print_peak(options.peak, dtype, options.batch)
        return
    sides = {name: build(name, dtype, options.batch) for name in ("plain", "ours")}
    print(verify(sides["plain"], sides["ours"]))
    if options.compile:
        sides |= {f"{name} compiled": compiled(side) for name, side in sides.items()}
        print("compiled:", verify(sides["plain"], sides["ours compiled"]))

    record = {
        "dtype": options.dtype,
        "compile": options.compile,
        "threads": options.threads,
        "batch": options.batch,
        "clock": "processor" if options.cpu_time else "wall",
        "torch": torch.__version__,
    }
    for label, work in (("forward", only_forward), ("forward+backward", train)):
        works = {name: functools.partial(work, *side) for name, side in sides.items()}
        works["products alone"] = products(options.batch * LENGTH, dtype, work is train)
        seconds = measure(works, options.repeats, clock)
        record[label] = {name: round(value, 4) for name, value in seconds.items()}
        print(label)
        for name, value in seconds.items():
            print(f"    {name:15} {value:.3f} s   {seconds['plain'] / value:.2f} times as fast as plain")
    memory = {side: peak(side, options) for side in ("plain", "ours")}
    record["peak_mib"] = memory
    print(f"peak of a step: plain {memory['plain']:.0f} MiB, ours {memory['ours']:.0f} MiB")
    print(json.dumps(record))


if __name__ == "__main__":
    main()
