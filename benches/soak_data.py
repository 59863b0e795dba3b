"""Hours of loading in minutes: many small batches through workers; memory must stay flat and nothing may hang.

    python benches/soak_data.py [--batches 200000] [--workers 4] [--methods spawn,fork] [--timeout 60]

Half of the batches run through `EngramCollator` in the workers and half through `with_rows`; every 50th is compared
with the rows of one process. The resident memory of this process and of each worker is read along the way.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from engram_fast import HashLayout, NgramHasher, TokenMap
from engram_fast.data import EngramCollator, TokenDataset, with_rows
from torch.utils.data import DataLoader

VOCABULARY, LENGTH, BATCH = 1000, 32, 4
GROWTH = 32 << 20  # bytes a process may gain between the first tenth and the end


def resident(pid: int) -> int:
    """Bytes of private resident memory of a process."""
    with open(f"/proc/{pid}/statm") as file:
        _, pages, shared, *_ = (int(value) for value in file.read().split())
    return (pages - shared) * os.sysconf("SC_PAGE_SIZE")


def run(method: str, side: str, batches: int, workers: int, timeout: float, path: Path, hasher: NgramHasher) -> None:
    """One loader of one start method; raises if a batch is wrong, a process grows, or no batch comes for `timeout`."""
    dataset = TokenDataset(path, dtype="uint16", seq_len=LENGTH, eod_id=0)
    sampler = torch.utils.data.RandomSampler(dataset, replacement=True, num_samples=batches * BATCH)
    in_workers = side == "collator"
    loader = DataLoader(
        dataset,
        batch_size=BATCH,
        sampler=sampler,
        num_workers=workers,
        multiprocessing_context=method,
        collate_fn=EngramCollator(hasher) if in_workers else None,
        timeout=timeout,
    )
    iterator = iter(loader)
    # The iterator is made first, so that its workers are known; `with_rows` takes any iterable.
    stream = iterator if in_workers else iter(with_rows(iterator, hasher))
    processes = [os.getpid(), *(worker.pid for worker in iterator._workers)]
    start, before, descriptors = time.monotonic(), [], 0
    for index, batch in enumerate(stream, 1):
        if index % 50 == 1:
            where = {"segment_ids": batch["segment_ids"].numpy()}
            want = hasher.hash_batch(batch["input_ids"].numpy(), layer_axis=1, num_threads=2, **where)
            if not np.array_equal(batch["engram_rows"], want):
                raise RuntimeError(f"batch {index} of {method}, {side} has other rows than one process")
        if index == max(batches // 10, 1):
            before = [resident(pid) for pid in processes]
            descriptors = len(os.listdir("/proc/self/fd"))
        if index == batches - 2:  # one is read ahead, and at the end the workers are gone
            after = [resident(pid) for pid in processes]
            opened = len(os.listdir("/proc/self/fd")) - descriptors
    if index != batches:
        raise RuntimeError(f"{index} batches came, {batches} were asked for")
    gained = [b - a for a, b in zip(before, after, strict=True)]
    seconds = time.monotonic() - start
    print(
        f"{method:10} {side:10} {batches} batches in {seconds:6.1f} s, {batches / seconds:6.0f}/s; "
        f"KiB gained by each process {[gain >> 10 for gain in gained]}, descriptors {opened:+d}",
        flush=True,
    )
    if max(gained) > GROWTH or opened > 64:
        raise RuntimeError("memory or descriptors grow")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=200_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--methods", default="spawn,fork")
    parser.add_argument("--timeout", type=float, default=60)
    arguments = parser.parse_args()
    if not Path("/proc/self/statm").exists():
        sys.exit("memory is read from /proc, which this system does not have")
    token_map = TokenMap.identity(VOCABULARY)
    layout = HashLayout.preset("engram-demo-v1", token_map=token_map, engram_vocab_size=[9973, 9973])
    hasher = NgramHasher(layout, token_map)
    hasher.hash_batch(np.zeros((64, 1024), np.int64), num_threads=2)  # the pool has been used before any fork
    methods = arguments.methods.split(",")
    each = arguments.batches // (2 * len(methods))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokens.bin"
        np.random.default_rng(0).integers(0, VOCABULARY, 1_000_000).astype(np.uint16).tofile(path)
        for method in methods:
            for side in ("collator", "with_rows"):
                run(method, side, each, arguments.workers, arguments.timeout, path, hasher)
    print("no hang, no growth")


if __name__ == "__main__":
    main()
