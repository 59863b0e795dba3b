"""Find what disagrees between a model's configuration and its tokenizer and would raise no error: a sentence each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _checks
from .demo_config import BackBoneConfig, EngramConfig, parse_config
from .hash_layout import HashLayout
from .model_config import Recognised, read_config, recognise

if TYPE_CHECKING:
    from ..token_map import TokenMap

#: Numbers that a configuration states although they follow from the rest.
_STATED = ("engram_num_embeddings", "engram_compressed_vocab_size")


def describe_config(config: Any) -> str:
    """Return a sentence that names the layout of the configuration, which `check_layout` checks."""
    values = read_config(config)
    if _is_two_sections(values):
        return "recognised as an engram and backbone configuration, layout engram-demo-v1"
    return recognise(values).describe()


def check_layout(
    config: Any,
    *,
    token_map: TokenMap | None = None,
    tokenizer_length: int | None = None,
) -> list[str]:
    """Return the findings as sentences; the list is empty if all agrees.

    Args:
        config: a configuration as `HashLayout.from_hf_config` takes it, or as `load_config` reads it.
        token_map: the token map of the tokenizer; layouts with compressed ids need it.
        tokenizer_length: the tokenizer's number of ids; None takes the token map's.

    Raises:
        ValueError: the configuration asks for no known layout, or for one that does not exist.
        TypeError: a parameter has a wrong type.
    """
    values = read_config(config)
    length = len(token_map) if tokenizer_length is None and token_map is not None else tokenizer_length
    if _is_two_sections(values):
        engram, backbone = parse_config(dict(values))
        return _check_demo(engram, backbone, token_map, length)
    found = recognise(values)
    section = values["text_config"] if found.section else values
    return _check_model(found, section, token_map, length)


def _is_two_sections(values: Mapping[str, Any]) -> bool:
    return isinstance(values.get("engram"), Mapping)


def _check_demo(
    engram: EngramConfig, backbone: BackBoneConfig, token_map: TokenMap | None, length: int | None
) -> list[str]:
    findings = _vocabulary(backbone.vocab_size, length)
    findings += _zero_based("layer_ids", engram.layer_ids, backbone.num_layers)
    if token_map is not None and engram.pad_id >= len(token_map):
        return [*findings, _pad_outside("pad_id", engram.pad_id, token_map)]
    layout = HashLayout.preset("engram-demo-v1", token_map=token_map, **engram.hash_parameters())
    return findings + _pad("pad_id", engram.pad_id, None, token_map) + _int32(layout)


def _check_model(
    found: Recognised, section: Mapping[str, Any], token_map: TokenMap | None, length: int | None
) -> list[str]:
    findings = []
    vocab_size = section.get("vocab_size")
    if found.preset != "blt" and vocab_size is not None:
        findings += _vocabulary(_checks.integer("vocab_size", vocab_size, 1), length)
    # Layouts that hash raw ids take no map; the caller gave it for its length.
    uses_map = found.preset == "deepseek-v4.1" or found.parameters.get("ngram_compressed_tokenizer") is True
    token_map = token_map if uses_map else None
    parameters = {name: None if name in _STATED else value for name, value in found.parameters.items()}
    depth = section.get("num_hidden_layers")
    depth = None if depth is None else _checks.integer("num_hidden_layers", depth, 1)
    if found.preset == "deepseek-v4.1":
        layer_ids = _checks.distinct_layers("engram_layer_ids", found.parameters["engram_layer_ids"])
        findings += _zero_based("engram_layer_ids", layer_ids, depth)
        pad_name = "engram_pad_token_id" if "engram_pad_token_id" in parameters else "engram_pad_id"
        pad = _checks.integer(pad_name, parameters[pad_name], 0)
        if token_map is not None and pad >= len(token_map):
            return [*findings, _pad_outside(pad_name, pad, token_map)]
        findings += _pad(pad_name, pad, section.get("pad_token_id"), token_map)
    elif found.preset == "qwen-ple":
        findings += _one_based("ple_layer_ids", section["ple_layer_ids"], depth)
    layout = HashLayout.preset(found.preset, token_map=token_map, **parameters)
    return findings + _stated(layout, found.parameters) + _int32(layout)


def _stated(layout: HashLayout, parameters: Mapping[str, Any]) -> list[str]:
    """Return the findings about the numbers that a configuration states although they follow from the rest."""
    findings = []
    size = parameters.get("engram_compressed_vocab_size")
    if size is not None and size != layout.token_map_size:
        findings.append(
            f"engram_compressed_vocab_size is {_checks.shown(size)}, but the tokenizer compresses to "
            f"{layout.token_map_size} ids: every multiplier would differ."
        )
    stated = parameters.get("engram_num_embeddings")
    if stated is not None:
        rows = list(layout.rows.values())
        given = _checks.integers("engram_num_embeddings", stated, -(2**63))
        # More rows than the primes' sum are padding.
        if len(given) != len(rows) or any(have < need for have, need in zip(given, rows, strict=True)):
            findings.append(f"engram_num_embeddings is {given}, but the primes of each layer add up to {rows}.")
    return findings


def _vocabulary(vocab_size: int, length: int | None) -> list[str]:
    if length is None or length == vocab_size:
        return []
    if length < vocab_size:
        return [
            f"the tokenizer has {length} ids, but vocab_size is {vocab_size}: ids {length} to {vocab_size - 1} are "
            f"outside a token map built without vocab_size={vocab_size}."
        ]
    return [
        f"the tokenizer has {length} ids, but vocab_size is {vocab_size}: ids from {vocab_size} on have no embedding."
    ]


def _pad_outside(name: str, pad: int, token_map: TokenMap) -> str:
    return f"{name} is {pad}, outside the token map of {len(token_map)} ids."


def _pad(name: str, pad: int, model_pad: Any, token_map: TokenMap | None) -> list[str]:
    findings = []
    if model_pad is not None and model_pad != pad:
        findings.append(f"{name} is {pad}, but the model's pad_token_id is {_checks.shown(model_pad)}.")
    if token_map is not None:
        compressed = int(token_map.lookup[pad])
        sharing = np.flatnonzero(np.asarray(token_map.lookup) == compressed)
        others = [int(other) for other in sharing if other != pad]
        if others:
            several = f"{others[0]}" if len(others) == 1 else f"{others[0]} and {len(others) - 1} more"
            findings.append(
                f"{name} {pad} has the compressed id {compressed} in common with id {several}: "
                "a look-back before the sequence hashes like that token."
            )
    return findings


def _zero_based(name: str, layer_ids: list[int], depth: int | None) -> list[str]:
    """Return a finding if layer ids, counted from 0, are past the last of `depth` layers."""
    beyond = [] if depth is None else [layer for layer in layer_ids if layer >= depth]
    if not beyond:
        return []
    hint = " (does it count from 1?)" if max(beyond) == depth else ""
    return [f"{name} has {beyond}, but {depth} layers counted from 0 end at {depth - 1 if depth else 0}{hint}."]


def _one_based(name: str, layer_ids: list[int], depth: int | None) -> list[str]:
    """Return a finding if layer ids, counted from 1, are past the last of `depth` layers."""
    beyond = [] if depth is None else [layer for layer in layer_ids if layer > depth]
    if not beyond:
        return []
    return [f"{name} has {beyond}, but {depth} layers counted from 1 end at {depth}."]


def _int32(layout: HashLayout) -> list[str]:
    largest = layout.max_row(True)
    if largest <= _checks.INT32_MAX:
        return []
    return [f"row numbers with offsets reach {largest}, past int32: rows have to be int64."]
