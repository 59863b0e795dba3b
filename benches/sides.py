"""Makes sides for one batch, each verified before it may be timed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from engram_fast import _core

from benches.cases import Case
from benches.harness import Side, must_equal

FILLED = np.frombuffer(b"\xa5" * 4, dtype=np.int32)[0]


def ours(
    name: str,
    case: Case,
    ids: np.ndarray,
    *,
    out: np.ndarray | None,
    threads: int | None = 1,
    expected: np.ndarray | None = None,
    **where: Any,
) -> Side:
    """`hash_batch` into `out`, or into an array of its own; verified against the oracle, or what it said before."""
    if expected is None:
        expected = case.expected(ids, **where)
    call = "hash_batch(ids, num_threads=num_threads" + "".join(f", {key}={key}" for key in where)
    names = {"hash_batch": case.hasher.hash_batch, "ids": ids, "num_threads": threads, **where}
    if out is not None:
        out.fill(-1)
        names["out"] = out
        call += ", out=out"
    must_equal(name, eval(f"{call})", {}, names), expected)
    return Side.of(name, f"{call})", **names)


def fill(name: str, out: np.ndarray, *, temporal: bool, threads: int) -> Side:
    """Writing as many bytes as the result has, and nothing else."""
    out.fill(-1)
    _core.fill_bytes(out, temporal, threads)
    must_equal(name, np.full_like(out, FILLED), out)
    call = f"fill_bytes(out, {temporal}, {threads})"
    return Side.of(name, call, fill_bytes=_core.fill_bytes, out=out)


def peer(name: str, module: ModuleType, case: Case, ids: np.ndarray, threads: int) -> Side:
    """A peer, its whole answer compared with ours on the same layout."""
    made = module.make(case, ids, threads)
    expected = case.hasher.hash_batch(ids, dtype=np.int64, add_offsets=made.adds_offsets)
    must_equal(name, expected, made.arrange(made.run()))
    return Side.of(name, "run()", made.setup, getattr(module, "SETTLE_S", 0.0), run=made.run, peer=made)
