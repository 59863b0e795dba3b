"""`onnxruntime`: the `NGramHashMapping` operator, whose multipliers and moduli stand in the model file."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from ..._checks import INT32_MAX, INT64_MAX
from .base import MAX_ORDER, REQUIRED, Parameters, Preset, TokenMapNumbers, document, layer


def _onnxruntime(parameters: Parameters, token_map: TokenMapNumbers | None) -> dict[str, Any]:
    narrow = parameters.boolean("int32")
    largest = INT32_MAX if narrow else INT64_MAX
    smallest = -largest - 1
    max_order = parameters.integer("max_ngram_size", 2, MAX_ORDER)
    heads = parameters.heads("n_head_per_ngram", max_order - 1)
    columns = (max_order - 1) * heads
    multipliers = parameters.integers("multipliers", smallest, largest)
    if len(multipliers) != max_order:
        raise parameters.error("multipliers", f"{len(multipliers)} numbers, but max_ngram_size is {max_order}")
    moduli = parameters.integers("vocab_sizes", 1, largest)
    if len(moduli) != columns:
        raise parameters.error("vocab_sizes", f"{len(moduli)} sizes for {columns} columns (one per order and head)")
    offsets = None
    if parameters.given("head_offsets"):
        offsets = parameters.integers("head_offsets", 0, largest)
        if len(offsets) != columns:
            raise parameters.error("head_offsets", f"{len(offsets)} offsets for {columns} columns")
    else:
        parameters.check_total("vocab_sizes", moduli)
    rows = None if offsets is None else max(map(sum, zip(offsets, moduli, strict=True)))
    if rows is not None and rows > largest:
        raise parameters.error("head_offsets", f"offset and vocab size add up to {rows}, past {largest}")
    pad = parameters.integer("pad_id", smallest, largest)
    eos = parameters.integer("eos_token_id", smallest, largest) if parameters.given("eos_token_id") else None
    resets = parameters.boolean("reset_on_eos")
    if resets and eos is None:
        raise parameters.error("reset_on_eos", "True needs an eos_token_id")
    return document(
        orders=range(2, max_order + 1),
        heads=heads,
        layers=[layer(parameters.integer("layer_id", 0), multipliers, moduli, offsets=offsets, rows=rows)],
        fill=pad if eos is None else eos,
        limit=None,
        negative="enter",
        too_large="enter",
        boundary_ids=[eos] if resets and eos is not None else [],
        word_bits=32 if narrow else 64,
        adds_offsets=offsets is not None,
    )


ONNXRUNTIME = Preset(
    "onnxruntime",
    MappingProxyType(
        {
            "multipliers": REQUIRED,
            "vocab_sizes": REQUIRED,
            "max_ngram_size": REQUIRED,
            "n_head_per_ngram": REQUIRED,
            "pad_id": REQUIRED,
            "head_offsets": None,
            "eos_token_id": None,
            "reset_on_eos": False,
            "int32": False,
            "layer_id": 0,
        }
    ),
    _onnxruntime,
    compressed=False,
)
