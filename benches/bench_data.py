"""What hashing costs in a DataLoader, against loading ids alone, against carrying the bytes, against engram-peft.

    python benches/bench_data.py [--tokens 20000000] [--rounds 7] [--batches 150] [--only loader,peft,text]

Every side runs in the same process, interleaved, `--rounds` times; medians are reported, and answers are compared
before any time is printed.
"""

from __future__ import annotations

import argparse
import functools
import json
import pickle
import platform
import statistics
import time
import typing
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import torch
from data_corpus import END, texts, token_file, tokenizer_path
from engram_fast import HashLayout, NgramHasher, TokenMap
from engram_fast.data import EngramCollator, TokenDataset, hash_texts, with_rows
from engram_fast.data.text import CHUNK, _chunks, _ids
from torch.utils.data import DataLoader, default_collate

BATCH, LENGTH, WORKERS = 8, 2048, 2


class CarryRows:
    """Ids, and a tensor of the rows' size and dtype that is written once, in shared memory, and not hashed."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def __call__(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        batch = default_collate(examples)
        size = int(np.prod(self.shape))
        storage = torch.UntypedStorage._new_shared(size * 4)
        batch["engram_rows"] = torch.empty(0, dtype=torch.int32).set_(storage, 0, self.shape).fill_(7)
        return batch


def interleaved(sides: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each side, one of each per round, in an order that rotates."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            times[name].append(sides[name]())
    return times


def report(title: str, times: dict[str, list[float]], unit: float, what: str) -> dict[str, float]:
    """Print and return the medians, each with the spread of its rounds."""
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"\n{title}")
    for name, values in times.items():
        low, high = min(values) * unit, max(values) * unit
        print(f"  {name:28} {medians[name] * unit:9.3f} {what}   ({low:.3f} .. {high:.3f})")
    return medians


def bench_loader(hasher: NgramHasher, dataset: TokenDataset, rounds: int, batches: int) -> None:
    """(a) to (d): ms per batch as the consumer sees it, first batch to last."""
    collate = EngramCollator(hasher)
    shape = tuple(collate([dataset[0]] * BATCH)["engram_rows"].shape)
    options = {"batch_size": BATCH, "num_workers": WORKERS, "persistent_workers": True, "drop_last": True}
    subset = torch.utils.data.Subset(dataset, range(BATCH * (batches + 20)))
    loaders = {
        "a ids alone": DataLoader(subset, **options),
        "b ids and carried bytes": DataLoader(subset, collate_fn=CarryRows(shape), **options),
        "c EngramCollator in workers": DataLoader(subset, collate_fn=collate, **options),
        "d with_rows": with_rows(DataLoader(subset, **options), hasher),
    }
    for one, other in zip(islice(loaders["c EngramCollator in workers"], 20), loaders["d with_rows"], strict=False):
        want = hasher.hash_batch(one["input_ids"].numpy(), layer_axis=1)
        assert one["engram_rows"].dtype == torch.int32
        assert np.array_equal(one["engram_rows"], want)
        assert np.array_equal(other["engram_rows"], want)

    def run(loader: Any) -> float:
        iterator = iter(loader)
        for _ in range(10):
            next(iterator)
        count, start = 0, time.perf_counter()
        for batch in islice(iterator, batches):
            count += batch["input_ids"].shape[0]
        seconds = time.perf_counter() - start
        assert count == BATCH * batches
        for _ in iterator:
            pass
        return seconds / batches

    times = interleaved({name: lambda loader=loader: run(loader) for name, loader in loaders.items()}, rounds)
    title = f"DataLoader, {WORKERS} workers, {BATCH}x{LENGTH}, rows {list(shape)} int32"
    medians = list(report(title, times, 1e3, "ms/batch").values())
    print(f"  c / b = {medians[2] / medians[1]:.3f} (at most 1.15)")
    print(f"  d / a = {medians[3] / medians[0]:.3f} (at most 1.35)")


def bench_peft(token_map: TokenMap, dataset: TokenDataset, rounds: int) -> None:
    """The hashing part of both collators on the same batches, same layout, answers equal."""
    if not hasattr(typing, "override"):  # engram-peft names it, and Python 3.11 lacks it
        typing.override = lambda function: function  # type: ignore[attr-defined]
    from engram_peft.compression import CompressedTokenizer
    from engram_peft.hashing import create_hash_mapping

    compressor = CompressedTokenizer.__new__(CompressedTokenizer)  # its own table builder would read a tokenizer again
    compressor.lookup = torch.from_numpy(np.array(token_map.lookup, np.int64))
    sizes, layers = [2262400 // 2, 2262400 // 2], [1, 14]
    mapping = create_hash_mapping(
        engram_vocab_size_per_ngram=sizes,
        ngram_sizes=[2, 3],
        n_head_per_ngram=8,
        layer_ids=layers,
        compressed_vocab_size=token_map.size,
        pad_id=compressor.map_id(2),
        seed=0,
        engine="deepseek",
        table_spec=None,
        prime_sizes=None,
    )
    layout = HashLayout.preset(
        "engram-peft",
        token_map=token_map,
        engram_vocab_size_per_ngram=sizes,
        ngram_sizes=[2, 3],
        layer_ids=layers,
        pad_id=2,
    )
    hasher = NgramHasher(layout, token_map)
    batches = [default_collate([dataset[i] for i in range(k * BATCH, (k + 1) * BATCH)])["input_ids"] for k in range(4)]

    def theirs(ids: torch.Tensor) -> torch.Tensor:
        hashes = mapping.hash(compressor.compress(ids))
        return torch.stack([torch.from_numpy(hashes[layer]) for layer in layers], dim=2)

    collate = {
        threads: EngramCollator(hasher, lambda batch: batch, layer_axis=-2, num_threads=threads) for threads in (1, 2)
    }
    for ids in batches:
        assert np.array_equal(theirs(ids), collate[1]({"input_ids": ids})["engram_rows"])

    def timed(work: Callable[[torch.Tensor], Any], repeat: int) -> float:
        start = time.perf_counter()
        for _ in range(repeat):
            for ids in batches:
                work(ids)
        return (time.perf_counter() - start) / (repeat * len(batches))

    sides = {
        "engram-peft's collator": lambda: timed(theirs, 1),
        "EngramCollator, 1 thread": lambda: timed(lambda ids: collate[1]({"input_ids": ids}), 10),
        "EngramCollator, 2 threads": lambda: timed(lambda ids: collate[2]({"input_ids": ids}), 10),
    }
    medians = list(report(f"engram-peft, {BATCH}x{LENGTH}", interleaved(sides, rounds), 1e3, "ms/batch").values())
    print(f"  ratio {medians[0] / medians[1]:.1f} with 1 thread, {medians[0] / medians[2]:.1f} with 2 (at least 20)")


def bench_text(hasher: NgramHasher, rounds: int, characters: int) -> None:
    """`hash_texts` against the same tokenizer's `encode_batch_fast` on the same chunks.

    Two baselines: encodings dropped unread; and their ids read into arrays, in the cheapest way known, joined at last.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tokenizer_path()))
    sample = list(texts(characters))

    def tokenise(keep: bool) -> Any:
        pieces = []
        for chunk in _chunks(sample, CHUNK):
            encodings = tokenizer.encode_batch_fast(chunk)
            if keep:
                pieces += [_ids(encoding, False) for encoding in encodings]
            del encodings
        return np.concatenate(pieces, dtype=np.int64) if keep else None

    ids = tokenise(True)
    hashed = hash_texts(sample, tokenizer, hasher)
    assert np.array_equal(hashed.ids, ids)
    want = hasher.hash_batch(ids, cu_seqlens=hashed.cu_seqlens, layer_axis=-2)
    assert np.array_equal(hashed.rows, want)

    result_bytes = hashed.ids.nbytes + hashed.rows.nbytes

    def timed(clock: Callable[[], float], work: Callable[[], Any]) -> float:
        # A virtual machine gives free pages back to its host and waits when it needs new ones. Touching them before the
        # clock starts keeps that out of the time: up to 0.5 us a token.
        np.empty(result_bytes, np.uint8).fill(0)
        start = clock()
        work()
        return clock() - start

    works = {
        "tokenise, ids dropped": lambda: tokenise(False),
        "tokenise, ids in an array": lambda: tokenise(True),
        "hash_texts": lambda: hash_texts(sample, tokenizer, hasher),
    }
    for clock, what in ((time.perf_counter, "elapsed"), (time.process_time, "processor time of all threads")):
        sides = {name: functools.partial(timed, clock, work) for name, work in works.items()}
        title = f"text to rows, {len(ids):,} tokens in {len(sample)} texts, {what}"
        medians = list(report(title, interleaved(sides, rounds), 1e9 / len(ids), "ns/token").values())
        print(f"  hash_texts against it: {medians[2] / medians[0]:.3f}, with ids {medians[2] / medians[1]:.3f} (1.05)")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batches", type=int, default=150)
    parser.add_argument("--characters", type=int, default=4_000_000)
    parser.add_argument("--only", default="loader,peft,text")
    arguments = parser.parse_args()
    only = arguments.only.split(",")
    path = token_file(arguments.tokens)
    token_map = TokenMap.from_file(tokenizer_path())
    hasher = NgramHasher(HashLayout.preset("deepseek-v4.1", token_map=token_map), token_map)
    dataset = TokenDataset(path, dtype="uint32", seq_len=LENGTH, vocab_size=len(token_map))
    machine = {"cpu": _cpu(), "cores": len(torch.__config__.parallel_info()) and torch.get_num_threads()}
    machine |= {"python": platform.python_version(), "torch": torch.__version__, "kernel": hasher.kernel}
    print(json.dumps(machine), f"{len(dataset.tokens):,} tokens, end-of-document id {END}")
    print(f"a pickle of the hasher: {len(pickle.dumps(hasher)):,} bytes, {len(token_map):,} token ids")
    if "loader" in only:
        bench_loader(hasher, dataset, arguments.rounds, arguments.batches)
    if "peft" in only:
        bench_peft(token_map, dataset, arguments.rounds)
    if "text" in only:
        bench_text(hasher, arguments.rounds, arguments.characters)


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


if __name__ == "__main__":
    main()
