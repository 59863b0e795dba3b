"""NumPy's generator bit for bit, for random seeds and all bounds; SplitMix64 and primes by their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from engram_fast import _core
from hypothesis import given, settings
from hypothesis import strategies as st

BOUNDS = [1, 2, 3, 7, 2**16, 2**31 - 1, 2**31, 2**31 + 1]
BOUNDS_64 = [2**32 - 1, 2**32, 2**32 + 1, 2**32 + 2, 3 * 2**61, 2**62 - 1, 2**62, 2**63 - 1, 2**63]


def numpys(entropy: int, high: int, count: int, dtype: type) -> np.ndarray:
    return np.random.default_rng(entropy).integers(0, high, count, dtype=dtype).astype(np.int64)


@pytest.mark.parametrize("high", [*BOUNDS, *BOUNDS_64])
def test_int64_at_the_edges(high: int) -> None:
    for entropy in [0, 1, 10007, 2**32 - 1, 2**32, 2**64 - 1, 2**64, 2**96 + 5, 2**128 - 1, *range(2, 40)]:
        assert np.array_equal(_core.numpy_integers(entropy, high, 9), numpys(entropy, high, 9, np.int64)), entropy


@pytest.mark.parametrize("high", [high for high in BOUNDS if high <= 2**31])
def test_int32_at_the_edges(high: int) -> None:
    for entropy in [0, 1, 2**32, 2**64, 2**128 - 1, *range(2, 40)]:
        assert np.array_equal(_core.numpy_integers(entropy, high, 9, 32), numpys(entropy, high, 9, np.int32)), entropy


def test_thousands_of_seeded_cases() -> None:
    draw = np.random.default_rng(20260101)
    for _ in range(4000):
        entropy = int(draw.integers(0, 2**63)) >> int(draw.integers(0, 63))
        bits = int(draw.integers(1, 64))
        high = max(1, int(draw.integers(0, 2**63, endpoint=False)) >> (63 - bits))
        count = int(draw.integers(0, 20))
        assert np.array_equal(_core.numpy_integers(entropy, high, count), numpys(entropy, high, count, np.int64))
        high = min(high, 2**31)
        assert np.array_equal(_core.numpy_integers(entropy, high, count, 32), numpys(entropy, high, count, np.int32))


@given(entropy=st.integers(0, 2**128 - 1), high=st.integers(1, 2**63), count=st.integers(0, 50))
def test_any_int64_bound(entropy: int, high: int, count: int) -> None:
    assert np.array_equal(_core.numpy_integers(entropy, high, count), numpys(entropy, high, count, np.int64))


@given(entropy=st.integers(0, 2**128 - 1), high=st.integers(1, 2**31), count=st.integers(0, 50))
def test_any_int32_bound(entropy: int, high: int, count: int) -> None:
    assert np.array_equal(_core.numpy_integers(entropy, high, count, 32), numpys(entropy, high, count, np.int32))


@pytest.mark.parametrize("high", [3 * 2**30, 3 * 2**61 + 1, 2**31 + 1, 5])
def test_long_draws_redraw_as_numpy_does(high: int) -> None:
    assert np.array_equal(_core.numpy_integers(7, high, 200_000), numpys(7, high, 200_000, np.int64))


@given(
    size=st.integers(1, 2**63 - 1),
    n=st.integers(0, 16),
    layer=st.integers(0, 2**40),
    seed=st.integers(0, 2**64 - 1),
    bits=st.sampled_from([32, 64]),
)
@settings(max_examples=300)
def test_multipliers_are_the_published_formula(size: int, n: int, layer: int, seed: int, bits: int) -> None:
    dtype = np.int64 if bits == 64 else np.int32
    half = max(1, int(np.iinfo(dtype).max // size) // 2)
    want = np.random.default_rng(seed + 10007 * layer).integers(0, half, n, dtype=dtype).astype(np.int64) * 2 + 1
    got = _core.multipliers(size, n, layer, seed, bits)
    assert got.dtype == np.int64
    assert np.array_equal(got, want)


def test_multipliers_of_every_small_compressed_size() -> None:
    for size in range(1, 3000):
        half = max(1, ((2**63 - 1) // size) // 2)
        want = np.random.default_rng(10007 * (size % 40)).integers(0, half, 3, dtype=np.int64) * 2 + 1
        assert np.array_equal(_core.multipliers(size, 3, size % 40, 0), want), size


@given(vocab=st.integers(1, 2**62), index=st.integers(0, 500), seed=st.integers(0, 2**64 - 1))
def test_splitmix_multipliers(vocab: int, index: int, seed: int) -> None:
    half, mask, step = max(1, ((2**63 - 1) // vocab) // 2), 2**64 - 1, 0x9E3779B97F4A7C15
    want = []
    for i in range(3):
        v = (seed + 10007 * index + step * (i + 1) + step) & mask
        v = ((v ^ (v >> 30)) * 0xBF58476D1CE4E5B9) & mask
        v = ((v ^ (v >> 27)) * 0x94D049BB133111EB) & mask
        want.append(2 * ((v ^ (v >> 31)) % half) + 1)
    assert _core.splitmix_multipliers(vocab, 3, index, seed).tolist() == want


def sieve(limit: int) -> np.ndarray:
    flags = np.ones(limit, bool)
    flags[:2] = False
    for n in range(2, int(limit**0.5) + 1):
        flags[n * n :: n] = flags[n * n :: n] & (not flags[n])
    return np.flatnonzero(flags)


def test_primes_against_a_sieve() -> None:
    primes = sieve(1_100_000)
    assert np.array_equal(_core.primes_above(0, 50_000), primes[:50_000])
    for above in [0, 1, 2, 3, 96, 97, 646_399, 999_983]:
        following = primes[primes > above][:20]
        assert np.array_equal(_core.primes_above(above, 20), following)
    known = set(primes.tolist())
    assert all(_core.is_prime(n) == (n in known) for n in range(30_000))


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=4), st.integers(1, 6), st.integers(1, 5))
def test_unused_primes_by_the_definition(sizes: list[int], heads: int, layers: int) -> None:
    primes, seen, want = sieve(20_000), set(), []
    for _ in range(layers):
        row = []
        for size in sizes:
            current = size - 1
            for _ in range(heads):
                current = int(next(p for p in primes[np.searchsorted(primes, current + 1) :] if p not in seen))
                seen.add(current)
                row.append(current)
        want.append(row)
    assert _core.unused_primes(sizes, heads, layers).tolist() == want


@pytest.mark.parametrize(
    "call",
    [
        lambda: _core.multipliers(0, 3, 1, 0),
        lambda: _core.multipliers(10, 3, 1, 0, 16),
        lambda: _core.multipliers(10, 10**12, 1, 0),
        lambda: _core.splitmix_multipliers(0, 3, 1, 0),
        lambda: _core.splitmix_multipliers(5, 10**12, 1, 0),
        lambda: _core.numpy_integers(0, 0, 5),
        lambda: _core.numpy_integers(0, 2**63 + 1, 5),
        lambda: _core.numpy_integers(0, 2**31 + 1, 5, 32),
        lambda: _core.numpy_integers(0, 5, 10**12),
        lambda: _core.primes_above(0, 10**12),
        lambda: _core.primes_above(2**63 - 1, 1),
        lambda: _core.unused_primes([97], 10**12, 10**12),
        lambda: _core.unused_primes([], 0, 10**12),
    ],
)
def test_wrong_arguments_are_value_errors(call) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        call()


def test_wrong_types_are_refused() -> None:
    for call in (lambda: _core.multipliers(1.0, 3, 1, 0), lambda: _core.unused_primes("97", 1, 1)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(OverflowError):
        _core.multipliers(-1, 3, 1, 0)
