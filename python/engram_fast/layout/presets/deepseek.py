"""The DeepSeek family: the published demo, its ports, and the released DeepSeek-V4.1."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from ... import _core
from ..._checks import INT32_MAX
from .base import MAX_ORDER, MAX_SIZE, Parameters, Preset, TokenMapNumbers, document, layer

_DEMO = MappingProxyType(
    {
        "engram_vocab_size": (646400, 646400),
        "max_ngram_size": 3,
        "n_head_per_ngram": 8,
        "layer_ids": (1, 15),
        "pad_id": 2,
        "seed": 0,
    }
)


def hashed_layers(
    sizes: Sequence[int],
    heads: int,
    layer_ids: Sequence[int],
    *,
    max_order: int,
    compressed_size: int,
    seed: int,
    word_bits: int = 64,
    prime_order: Sequence[int] | None = None,
) -> list[dict[str, Any]]:
    """Return the layers with multipliers and primes; `prime_order` is the order in which layers take primes.

    `prime_order=None` takes them in the order of `layer_ids`. `sizes` has the least rows per head of each order.
    """
    primes = _core.unused_primes(list(sizes), heads, len(layer_ids)).tolist()
    moduli = dict(zip(layer_ids if prime_order is None else prime_order, primes, strict=True))
    draw = partial(_core.multipliers, compressed_size, max_order, seed=seed, word_bits=word_bits)
    return [layer(layer_id, draw(layer_id=layer_id).tolist(), moduli[layer_id]) for layer_id in layer_ids]


def _demo(
    parameters: Parameters,
    token_map: TokenMapNumbers | None,
    *,
    adds_offsets: bool = False,
    negative: str = "error",
    word_bits: int = 64,
    counts_different_ids: bool = False,
) -> dict[str, Any]:
    assert token_map is not None
    max_order = parameters.integer("max_ngram_size", 2, MAX_ORDER)
    sizes = parameters.integers("engram_vocab_size", 1, MAX_SIZE if word_bits == 64 else INT32_MAX)
    if len(sizes) != max_order - 1:
        per_order = f"max_ngram_size {max_order} has {max_order - 1} orders, one size each"
        raise parameters.error("engram_vocab_size", f"{len(sizes)} sizes, but {per_order}")
    heads = parameters.heads("n_head_per_ngram", len(sizes))
    layer_ids = parameters.layers("layer_ids")
    parameters.check_tables("layer_ids", len(layer_ids), len(sizes) * heads)
    fill = token_map.mapped(parameters, "pad_id")
    layers = hashed_layers(
        sizes,
        heads,
        layer_ids,
        max_order=max_order,
        compressed_size=len(np.unique(token_map.lookup)) if counts_different_ids else token_map.size,
        seed=parameters.seed(),
        word_bits=word_bits,
    )
    for entry in layers:
        parameters.check_total("engram_vocab_size", entry["moduli"])
        if word_bits == 32 and max(entry["moduli"]) > INT32_MAX:
            raise parameters.error("engram_vocab_size", f"the prime {max(entry['moduli'])} does not fit int32")
    return document(
        orders=range(2, max_order + 1),
        heads=heads,
        layers=layers,
        fill=fill,
        limit=token_map.length,
        negative=negative,
        adds_offsets=adds_offsets,
        word_bits=word_bits,
    )


def _v41(parameters: Parameters, token_map: TokenMapNumbers | None) -> dict[str, Any]:
    assert token_map is not None
    max_order = parameters.integer("engram_max_ngram_size", 2, MAX_ORDER)
    size = parameters.integer("engram_vocab_size", 1, MAX_SIZE)
    heads = parameters.heads("engram_n_heads", max_order - 1)
    layer_ids = parameters.layers("engram_layer_ids")
    columns = (max_order - 1) * heads
    parameters.check_tables("engram_layer_ids", len(layer_ids), columns)
    if parameters.given("engram_head_dim"):
        parameters.integer("engram_head_dim", 1)
    if parameters.given("engram_compressed_vocab_size"):
        stated = parameters.integer("engram_compressed_vocab_size", 1)
        if stated != token_map.size:
            raise parameters.error(
                "engram_compressed_vocab_size", f"{stated}, but the token map has {token_map.size} compressed ids"
            )
    fill = token_map.mapped(parameters, "engram_pad_token_id")
    layers = hashed_layers(
        [size] * (max_order - 1),
        heads,
        layer_ids,
        max_order=max_order,
        compressed_size=token_map.size,
        seed=0,
    )
    for entry in layers:
        parameters.check_total("engram_vocab_size", entry["moduli"])
    if parameters.given("engram_num_embeddings"):
        _use_num_embeddings(parameters, layers)
    return document(
        orders=range(2, max_order + 1),
        heads=heads,
        layers=layers,
        fill=fill,
        limit=token_map.length,
        adds_offsets=True,
    )


def _use_num_embeddings(parameters: Parameters, layers: Sequence[dict[str, Any]]) -> None:
    """Give every layer the rows that the configuration states: at least its primes' sum, the rest is padding.

    The preset's own default belongs to the released model: it must equal the sum, or a small model would get its rows.
    """
    name = "engram_num_embeddings"
    stated = parameters.integers(name, 1)
    if len(stated) != len(layers):
        raise parameters.error(name, f"{len(stated)} numbers for {len(layers)} layers")
    for rows, entry in zip(stated, layers, strict=True):
        if rows < entry["rows"] or (rows != entry["rows"] and not parameters.by_caller(name)):
            layer_id, total = entry["layer_id"], entry["rows"]
            raise parameters.error(
                name, f"{rows} for layer {layer_id}, but its primes add up to {total} (None takes the computed sums)"
            )
        entry["rows"] = rows


DEMO_V1 = Preset("engram-demo-v1", _DEMO, partial(_demo, negative="enter"), compressed=True)
#: Megatron counts the different compressed ids: fewer than the largest plus one if the token map has gaps.
MEGATRON = Preset("megatron", _DEMO, partial(_demo, counts_different_ids=True), compressed=True)
TILEKERNELS = Preset("tilekernels", _DEMO, partial(_demo, adds_offsets=True), compressed=True)
#: Everything in int32: not compatible with DeepSeek's checkpoints.
MAXTEXT_INT32 = Preset("maxtext-int32", _DEMO, partial(_demo, negative="enter", word_bits=32), compressed=True)
V41 = Preset(
    "deepseek-v4.1",
    MappingProxyType(
        {
            "engram_layer_ids": (1, 14),
            "engram_num_embeddings": (384006168, 384016682),
            "engram_max_ngram_size": 4,
            "engram_vocab_size": 16000000,
            "engram_n_heads": 8,
            "engram_head_dim": 256,
            "engram_pad_token_id": 2,
            "engram_compressed_vocab_size": 99092,
        }
    ),
    _v41,
    compressed=True,
    aliases=MappingProxyType({"engram_pad_id": "engram_pad_token_id"}),
)
