"""`longcat` and `nanbeige`: polynomials in the vocabulary size, modulo odd numbers or primes."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from ... import _core
from .base import MAX_BOUNDARY_IDS, MAX_ORDER, MAX_SIZE, REQUIRED, Parameters, Preset, TokenMapNumbers, document, layer

_ALIASES = MappingProxyType(
    {
        "oe_vocab_size_ratio": "ngram_vocab_size_ratio",
        "oe_neighbor_num": "emb_neighbor_num",
        "oe_split_num": "emb_split_num",
    }
)


def _shape(parameters: Parameters) -> tuple[int, int, int, int | float]:
    """Return vocabulary size, largest order, splits of each order, and the tables' base size before rounding."""
    vocab_size = parameters.integer("vocab_size", 1, MAX_SIZE)
    max_order = parameters.integer("emb_neighbor_num", 2, MAX_ORDER)
    splits = parameters.heads("emb_split_num", max_order - 1)
    ratio = parameters.positive_number("ngram_vocab_size_ratio")
    base = ratio * vocab_size if isinstance(ratio, float) or ratio <= MAX_SIZE else MAX_SIZE + 1
    if base > MAX_SIZE:
        raise parameters.error("ngram_vocab_size_ratio", f"vocab_size times this ratio is more than {MAX_SIZE} rows")
    return vocab_size, max_order, splits, base


def _polynomial(
    parameters: Parameters,
    max_order: int,
    splits: int,
    moduli: Sequence[int],
    *,
    base: int,
    limit: int,
    vocab_size: int,
) -> dict[str, Any]:
    """Return the document: column c of order n sums base**k times look-back k, for k below n, modulo its own number."""
    eos = parameters.one_or_more("eos_token_id", 0)
    if not eos:
        raise parameters.error("eos_token_id", "no ids")
    if max(eos) >= min(limit, vocab_size):
        raise parameters.error("eos_token_id", f"{max(eos)} is not below {min(limit, vocab_size)}")
    if len(eos) > MAX_BOUNDARY_IDS:
        raise parameters.error("eos_token_id", f"{len(eos)} ids are more than {MAX_BOUNDARY_IDS}")
    parameters.check_total("ngram_vocab_size_ratio", moduli)
    coefficients = []
    for column, modulus in enumerate(moduli):
        order = 2 + column // splits
        powers = [1, *(pow(base, k, modulus) for k in range(1, order))]
        coefficients.append(powers + [0] * (max_order - order))
    return document(
        orders=range(2, max_order + 1),
        heads=splits,
        layers=[layer(parameters.integer("layer_id", 0), coefficients, moduli)],
        fill=0,
        limit=limit,
        boundary_ids=eos,
        mix="sum",
        adds_offsets=False,
    )


def _longcat(parameters: Parameters, token_map: TokenMapNumbers | None) -> dict[str, Any]:
    vocab_size, max_order, splits, base = _shape(parameters)
    moduli = [int(base) + 2 * index + 1 for index in range((max_order - 1) * splits)]
    return _polynomial(parameters, max_order, splits, moduli, base=vocab_size, limit=vocab_size, vocab_size=vocab_size)


def _nanbeige(parameters: Parameters, token_map: TokenMapNumbers | None) -> dict[str, Any]:
    vocab_size, max_order, splits, size = _shape(parameters)
    tables = (max_order - 1) * splits
    base = vocab_size
    if parameters.boolean("ngram_mod_force_prime"):
        moduli = _core.primes_above(int(size), tables).tolist()
        base = int(_core.primes_above(vocab_size, 1)[0])
    else:
        moduli = [int(size + index * 2 + 1) for index in range(tables)]
    limit = vocab_size
    if parameters.boolean("ngram_compressed_tokenizer"):
        if token_map is None:
            raise ValueError("token_map: nanbeige with ngram_compressed_tokenizer needs the token map of its tokenizer")
        limit = min(limit, token_map.length)
    elif token_map is not None:
        raise ValueError("token_map: nanbeige without ngram_compressed_tokenizer hashes raw ids and takes no token map")
    return _polynomial(parameters, max_order, splits, moduli, base=base, limit=limit, vocab_size=vocab_size)


LONGCAT = Preset(
    "longcat",
    MappingProxyType(
        {
            "vocab_size": 131072,
            "ngram_vocab_size_ratio": 78,
            "emb_neighbor_num": 4,
            "emb_split_num": 4,
            "eos_token_id": 2,
            "layer_id": 0,
        }
    ),
    _longcat,
    compressed=False,
    aliases=_ALIASES,
)
NANBEIGE = Preset(
    "nanbeige",
    MappingProxyType(
        {
            "vocab_size": REQUIRED,
            "ngram_vocab_size_ratio": REQUIRED,
            "emb_neighbor_num": REQUIRED,
            "emb_split_num": REQUIRED,
            "eos_token_id": REQUIRED,
            "ngram_mod_force_prime": REQUIRED,
            "ngram_compressed_tokenizer": REQUIRED,
            "layer_id": 0,
        }
    ),
    _nanbeige,
    compressed=None,
)
