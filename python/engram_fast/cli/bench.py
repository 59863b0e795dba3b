"""`engram-fast bench`: a quick measurement on this machine, against the plain NumPy formula, both verified equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Json, Threads
from .output import console, count, print_json, progress, rate, table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .. import HashLayout, NgramHasher

EXAMPLES = (
    "engram-fast bench",
    "engram-fast bench --batch 1 --length 1000000 --rounds 3",
    "engram-fast bench --order 4 --threads 2 --json",
)

# DeepSeek V4's numbers of raw and compressed ids: the size of the look-up table decides how well it caches.
_RAW, _COMPRESSED = 129280, 99092


def bench(
    batch: Annotated[int, typer.Option("--batch", metavar="B", help="Rows of the batch.", min=1)] = 8,
    length: Annotated[int, typer.Option("--length", metavar="T", help="Tokens of a row.", min=1)] = 2048,
    order: Annotated[int, typer.Option("--order", metavar="N", help="The largest n-gram order.", min=2, max=8)] = 3,
    heads: Annotated[int, typer.Option("--heads", metavar="H", help="Heads of each order.", min=1, max=64)] = 8,
    layers: Annotated[int, typer.Option("--layers", metavar="L", help="Layers.", min=1, max=64)] = 2,
    threads: Threads = 1,
    rounds: Annotated[int, typer.Option("--rounds", metavar="R", help="Interleaved runs of each side.", min=1)] = 15,
    json: Json = False,
) -> None:
    """Measure tokens per second of hash_batch and of the plain NumPy formula: medians of interleaved runs.

    Token map included, all layers counted as one token. The two results are compared bit for bit first.
    """
    import numpy as np

    ids = np.random.default_rng(0).integers(0, _RAW, (batch, length))
    hasher = _hasher(order, heads, layers)
    out = hasher.hash_batch(ids, num_threads=threads)
    if not np.array_equal(out, plain_numpy(hasher.layout, _lookup(hasher), ids)):
        typer.echo("engram-fast: hash_batch and the NumPy formula differ; please report this", err=True)
        raise typer.Exit(1)
    fast, plain = _measure(hasher, ids, out, threads, rounds)
    report: dict[str, Any] = {
        "batch": batch,
        "length": length,
        "order": order,
        "heads": heads,
        "layers": layers,
        "threads": threads,
        "rounds": rounds,
        "kernel": hasher.kernel,
        "verified_equal": True,
        "hash_batch": _figures(fast, ids.size, layers),
        "numpy": _figures(plain, ids.size, layers),
        "times_faster": plain / fast,
    }
    if json:
        print_json(report)
        return
    printer = console()
    shape = f"{batch} x {length} tokens, {layers} layers, orders 2 to {order}, {heads} heads"
    printer.print(f"{shape}; kernel {hasher.kernel}, {threads} thread{'s' if threads != 1 else ''}", markup=False)
    made = table("", "median", "speed", "per token and layer", right=("median", "speed", "per token and layer"))
    for name, seconds in ((f"hash_batch ({out.dtype})", fast), ("plain NumPy (int64)", plain)):
        per_token = f"{seconds / ids.size / layers * 1e9:.1f} ns"
        made.add_row(name, f"{seconds * 1e3:.2f} ms", rate(ids.size, seconds), per_token)
    printer.print(made)
    printer.print(f"{plain / fast:.1f} times faster; {count(out.size)} rows equal bit for bit, {rounds} rounds each")


def plain_numpy(layout: HashLayout, lookup: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute the rows, int64 [L, B, T, C], by the published demo's formula with whole-array operations."""
    import numpy as np

    compressed = lookup[ids]
    windows = [compressed]
    for k in range(1, layout.max_order):
        shifted = np.full_like(compressed, layout.fill)
        shifted[:, k:] = compressed[:, :-k]
        windows.append(shifted)
    layers = []
    for layer in layout.layer_ids:
        multipliers, moduli = layout.multipliers[layer], layout.moduli[layer].tolist()
        mixed = windows[0] * multipliers[0]
        columns = []
        for order in layout.orders:
            mixed = mixed ^ (windows[order - 1] * multipliers[order - 1])
            start = (order - 2) * layout.heads
            columns += [mixed % modulus for modulus in moduli[start : start + layout.heads]]
        layers.append(np.stack(columns, axis=-1))
    return np.stack(layers)


def _hasher(order: int, heads: int, layers: int) -> NgramHasher:
    import numpy as np

    from .. import EngramConfig, HashLayout, NgramHasher, TokenMap

    lookup = np.random.default_rng(1).integers(0, _COMPRESSED, _RAW)
    lookup[-1] = _COMPRESSED - 1
    token_map = TokenMap.from_lookup(lookup)
    layout = HashLayout.preset(
        "engram-demo-v1",
        token_map=token_map,
        engram_vocab_size=EngramConfig().engram_vocab_size[:1] * (order - 1),
        max_ngram_size=order,
        n_head_per_ngram=heads,
        layer_ids=list(range(layers)),
    )
    return NgramHasher(layout, token_map)


def _lookup(hasher: NgramHasher) -> NDArray[np.int64]:
    import numpy as np

    assert hasher.token_map is not None, "the bench's layout hashes compressed ids"
    return np.asarray(hasher.token_map.lookup, dtype=np.int64)


def _measure(
    hasher: NgramHasher, ids: NDArray[np.int64], out: NDArray[Any], threads: int | None, rounds: int
) -> tuple[float, float]:
    from statistics import median
    from time import perf_counter

    lookup = _lookup(hasher)
    fast, plain = [], []
    with progress("measuring", rounds) as advance:
        for _ in range(rounds):
            start = perf_counter()
            hasher.hash_batch(ids, out=out, num_threads=threads)
            middle = perf_counter()
            plain_numpy(hasher.layout, lookup, ids)
            fast.append(middle - start)
            plain.append(perf_counter() - middle)
            advance(1)
    return median(fast), median(plain)


def _figures(seconds: float, tokens: int, layers: int) -> dict[str, float]:
    return {
        "median_seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "ns_per_token_and_layer": seconds / tokens / layers * 1e9,
    }
