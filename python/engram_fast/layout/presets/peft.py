"""`engram-peft`: rows by order, primes for the layers in sorted order, windows aligned to the oldest token."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from .base import MAX_SIZE, REQUIRED, Parameters, Preset, TokenMapNumbers, document
from .deepseek import hashed_layers


def _peft(parameters: Parameters, token_map: TokenMapNumbers | None) -> dict[str, Any]:
    assert token_map is not None
    orders = parameters.orders("ngram_sizes")
    totals = parameters.integers("engram_vocab_size_per_ngram", 1, MAX_SIZE)
    if len(totals) != len(orders):
        raise parameters.error("engram_vocab_size_per_ngram", f"{len(totals)} sizes for {len(orders)} ngram_sizes")
    heads = parameters.heads("n_head_per_ngram", len(orders))
    for index, total in enumerate(totals):
        if total < heads:
            label = f"{parameters.label('engram_vocab_size_per_ngram')}[{index}]"
            raise ValueError(f"{label}: {heads} heads share {total} rows; each needs one")
    layer_ids = parameters.layers("layer_ids")
    parameters.check_tables("layer_ids", len(layer_ids), len(orders) * heads)
    fill = token_map.mapped(parameters, "pad_id")
    layers = hashed_layers(
        [total // heads for total in totals],
        heads,
        layer_ids,
        max_order=orders[-1],
        compressed_size=token_map.size,
        seed=parameters.seed(),
        prime_order=sorted(layer_ids),
    )
    for entry in layers:
        parameters.check_total("engram_vocab_size_per_ngram", entry["moduli"])
    # Multiplier 0 pairs with the oldest of N tokens, so an order below N never reads the current one. The package
    # surely does not intend that, but people trained with it.
    return document(
        orders=orders,
        heads=heads,
        layers=layers,
        fill=fill,
        limit=token_map.length,
        negative="enter",
        too_large="enter",
        align="oldest",
        adds_offsets=False,
    )


ENGRAM_PEFT = Preset(
    "engram-peft",
    MappingProxyType(
        {
            "engram_vocab_size_per_ngram": REQUIRED,
            "ngram_sizes": REQUIRED,
            "n_head_per_ngram": 8,
            "layer_ids": REQUIRED,
            "pad_id": 2,
            "seed": 0,
        }
    ),
    _peft,
    compressed=True,
)
