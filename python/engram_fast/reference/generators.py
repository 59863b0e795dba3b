"""The primes and multipliers of layouts, worked out plainly: no code is shared with the core.

NumPy's own generator draws DeepSeek's multipliers. A number is prime if neither 2 nor an odd number up to its root
divides it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

INT64_MAX = 2**63 - 1
GOLDEN_GAMMA = 0x9E3779B97F4A7C15


# ---- primes -------------------------------------------------------------------------------------------------------


def is_prime(n: int) -> bool:
    """Return whether `n` is prime, by dividing by 2 and by every odd number up to its root."""
    if n < 4:
        return n in (2, 3)
    return n % 2 == 1 and bool(np.all(n % np.arange(3, math.isqrt(n) + 1, 2, dtype=np.int64)))


def primes_above(n: int) -> Iterator[int]:
    """Yield the primes greater than `n`, ascending, without end."""
    while True:
        n += 1
        if is_prime(n):
            yield n


def unused_primes(layers: Sequence[int], sizes: Sequence[int], heads: int) -> dict[int, list[int]]:
    """Return {layer: primes}, one prime for each order and head, none used twice.

    They are drawn by layer, then order, then head; each is at least the size of its order.
    """
    seen: set[int] = set()
    moduli: dict[int, list[int]] = {}
    for layer in layers:
        moduli[layer] = []
        for size in sizes:
            current = size - 1
            for _ in range(heads):
                current = next(p for p in primes_above(current) if p not in seen)
                seen.add(current)
                moduli[layer].append(current)
    return moduli


# ---- multipliers --------------------------------------------------------------------------------------------------


def random_multipliers(size: int, count: int, layer: int, seed: int, dtype: type = np.int64) -> list[int]:
    """Return `count` odd multipliers from NumPy's PCG64, one for each look-back.

    `size` is the number of compressed ids: it bounds the multipliers, so that no product leaves `dtype`.
    """
    half = max(1, (np.iinfo(dtype).max // size) // 2)
    drawn = np.random.default_rng(seed + 10007 * layer).integers(0, half, size=count, dtype=dtype)
    return [2 * int(r) + 1 for r in drawn]


def splitmix64(state: int) -> int:
    """Return the output of SplitMix64 for the state after `state`, modulo 2^64."""
    mask = 2**64 - 1
    z = (state + GOLDEN_GAMMA) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def splitmix_multipliers(vocab_size: int, count: int, layer_index: int, seed: int) -> list[int]:
    """Return `count` odd multipliers from SplitMix64, one for each look-back (`qwen-ple`)."""
    half = max(1, (INT64_MAX // vocab_size) // 2)
    base = seed + 10007 * layer_index
    return [2 * (splitmix64((base + GOLDEN_GAMMA * (i + 1)) % 2**64) % half) + 1 for i in range(count)]


def as_int64(value: int) -> int:
    """Return `value` wrapped to a signed 64-bit integer."""
    return (value + 2**63) % 2**64 - 2**63
