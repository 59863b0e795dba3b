"""Layouts that hash by a polynomial: LongCat's, Nanbeige's and the Byte Latent Transformer's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .document import REFUSE, Layout, assemble, layer_numbers, need_lookup, token_map_id
from .generators import as_int64, primes_above

BLT_PRIMES = (
    1000000007,
    5915587277,
    1500450271,
    3267000013,
    5754853343,
    4093082899,
    9576890767,
    3628273133,
    2860486313,
    5463458053,
    3367900313,
)
"""The base of each hash function of the Byte Latent Transformer; the twelfth function uses the first again."""


def polynomial_mod(base: int, modulus: int, order: int, max_order: int) -> list[int]:
    """Return the coefficient of each look-back k: base^k mod modulus, 0 from the order on (LongCat)."""
    return [pow(base, k, modulus) if k < order else 0 for k in range(max_order)]


def split_tables(orders: Sequence[int], splits: int, base: int, moduli: Sequence[int], layer_id: int) -> dict[str, Any]:
    """Return the numbers of a LongCat layer: for each order and split, one modulus and a polynomial in `base`."""
    of_column = [order for order in orders for _ in range(splits)]
    rows = [polynomial_mod(base, t, order, max(orders)) for t, order in zip(moduli, of_column, strict=True)]
    return layer_numbers(layer_id, rows, moduli)


def every(eos_token_id: int | Sequence[int]) -> list[int]:
    """Return the EOS ids of a configuration, which has one or a list; each of them ends a document."""
    return [eos_token_id] if isinstance(eos_token_id, int) else sorted({int(eos) for eos in eos_token_id})


def longcat(
    *,
    vocab_size: int = 131072,
    ngram_vocab_size_ratio: float = 78,
    emb_neighbor_num: int = 4,
    emb_split_num: int = 4,
    eos_token_id: int | Sequence[int] = 2,
    layer_id: int = 0,
) -> Layout:
    """Return the layout of LongCat-Flash-Lite and LongCat-2.0.

    The moduli are consecutive odd numbers. Every EOS ends a segment, and a look-back before the segment reads 0.
    """
    orders = range(2, emb_neighbor_num + 1)
    m = int(ngram_vocab_size_ratio * vocab_size)
    moduli = [m + 2 * index + 1 for index in range(len(orders) * emb_split_num)]
    layer = split_tables(orders, emb_split_num, vocab_size, moduli, layer_id)
    ids = {"limit": vocab_size, **REFUSE}
    return assemble(orders, emb_split_num, [layer], ids, False, mix="sum", boundary_ids=every(eos_token_id))


def nanbeige(
    lookup: np.ndarray | None = None,
    *,
    vocab_size: int,
    ngram_vocab_size_ratio: float,
    emb_neighbor_num: int,
    emb_split_num: int,
    eos_token_id: int | Sequence[int],
    ngram_mod_force_prime: bool,
    ngram_compressed_tokenizer: bool,
    layer_id: int = 0,
) -> Layout:
    """Return Nanbeige's layout: LongCat's hash with a size that is rounded late.

    `ngram_mod_force_prime` makes the base and the moduli prime, `ngram_compressed_tokenizer` hashes compressed ids.

    Raises:
        ValueError: `ngram_compressed_tokenizer` without a token map.
    """
    orders = range(2, emb_neighbor_num + 1)
    columns = len(orders) * emb_split_num
    base, m = vocab_size, ngram_vocab_size_ratio * vocab_size
    moduli = [int(m + 2 * index + 1) for index in range(columns)]
    if ngram_mod_force_prime:
        base = next(primes_above(vocab_size))
        primes = primes_above(math.floor(m))
        moduli = [next(primes) for _ in range(columns)]
    layer = split_tables(orders, emb_split_num, base, moduli, layer_id)
    limit, source = vocab_size, None
    if ngram_compressed_tokenizer:
        source = token_map_id(need_lookup(lookup))
        limit = min(vocab_size, source["length"])
    rest = {"mix": "sum", "boundary_ids": every(eos_token_id), "token_map": source}
    return assemble(orders, emb_split_num, [layer], {"limit": limit, **REFUSE}, False, **rest)


def blt(
    *,
    encoder_hash_byte_group_nb_functions: int = 1,
    encoder_hash_byte_group_size: Sequence[int] = (3, 4, 5, 6, 7, 8),
    encoder_hash_byte_group_vocab: int = 500002,
    layer_id: int = 0,
) -> Layout:
    """Return the layout of the Byte Latent Transformer: one polynomial over each group of bytes, wrapping at 64 bits.

    Each hash function has its own prime P. In a group of g bytes the oldest is multiplied by P^0 and the newest by
    P^(g-1), so look-back k has the coefficient P^(g-1-k).
    """
    groups, longest = encoder_hash_byte_group_size, max(encoder_hash_byte_group_size)
    rows = [
        [as_int64(BLT_PRIMES[f % len(BLT_PRIMES)] ** (g - 1 - k)) if k < g else 0 for k in range(longest)]
        for f in range(encoder_hash_byte_group_nb_functions)
        for g in groups
    ]
    layer = layer_numbers(layer_id, rows, [encoder_hash_byte_group_vocab] * len(rows))
    ids = {"limit": None, "negative": "error", "too_large": "enter"}
    heads = encoder_hash_byte_group_nb_functions
    return assemble(groups, heads, [layer], ids, True, mix="sum", columns="function-major")
