"""`qwen-ple`: the per-layer n-gram embedding of `qwen4_exp`, on raw ids with an end-of-document token."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from ... import _core
from ..._checks import INT64_MAX
from .base import MAX_ORDER, MAX_SIZE, MAX_TABLES, Parameters, Preset, TokenMapNumbers, document, layer


def _qwen(parameters: Parameters, token_map: TokenMapNumbers | None) -> dict[str, Any]:
    vocab_size = parameters.integer("vocab_size", 1)
    max_order = parameters.integer("ngram_size", 2, MAX_ORDER)
    heads = parameters.heads("heads_per_ngram", max_order - 1)
    columns = (max_order - 1) * heads
    size = parameters.integer("ngram_vocab_size_base", 1, MAX_SIZE)
    eos = parameters.integer("eos_token_id", -INT64_MAX - 1)
    known = 0 <= eos < vocab_size
    if not known and not parameters.by_caller("eos_token_id"):
        raise parameters.error(
            "eos_token_id", f"the released model's, {eos}, is not below vocab_size {vocab_size}; give your model's"
        )
    multiple = parameters.integer("make_ngram_vocab_size_divisible_by", 1, MAX_SIZE)
    indices = parameters.one_or_more("ple_layer_index", 0)
    layer_ids = parameters.one_or_more("layer_id", 0)
    if not layer_ids or len(indices) != len(layer_ids):
        raise parameters.error("layer_id", f"{len(layer_ids)} layers, but ple_layer_index has {len(indices)}")
    if len(set(layer_ids)) != len(layer_ids):
        raise parameters.error("layer_id", "a layer occurs twice")
    if (max(indices) + 1) * columns > MAX_TABLES:
        reach = f"layer {max(indices)} of {columns} columns"
        raise parameters.error("ple_layer_index", f"{reach} is past the first {MAX_TABLES} tables")
    seed = parameters.seed()
    primes = _core.primes_above(size - 1, (max(indices) + 1) * columns).tolist()
    layers = []
    for layer_id, index in zip(layer_ids, indices, strict=True):
        moduli = primes[index * columns : (index + 1) * columns]
        rows = -(-sum(moduli) // multiple) * multiple
        parameters.check_total("ngram_vocab_size_base", [rows])
        multipliers = _core.splitmix_multipliers(vocab_size, max_order, index, seed).tolist()
        layers.append(layer(layer_id, multipliers, moduli, rows=rows))
    return document(
        orders=range(2, max_order + 1),
        heads=heads,
        layers=layers,
        fill=eos,
        limit=vocab_size,
        # No token equals an EOS outside the vocabulary, so no look-back stops at one; the fill is still that number.
        boundary_ids=[eos] if known else [],
        adds_offsets=True,
    )


PLE = Preset(
    "qwen-ple",
    MappingProxyType(
        {
            "vocab_size": 248320,
            "seed": 1234,
            "ngram_vocab_size_base": 20000000,
            "ngram_size": 3,
            "heads_per_ngram": 8,
            "eos_token_id": 248044,
            "ple_layer_index": 0,
            "make_ngram_vocab_size_divisible_by": 128,
            "layer_id": 2,
        }
    ),
    _qwen,
    compressed=False,
)
