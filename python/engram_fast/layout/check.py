"""What can disagree in silence between a configuration and its tokenizer, each as one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np

from .. import _checks
from .demo_config import BackBoneConfig, EngramConfig, parse_config
from .hash_layout import HashLayout
from .model_config import Recognised, read_config, recognise

_STATED = ("engram_num_embeddings", "engram_compressed_vocab_size")


def describe_config(config: str | PathLike[str] | Mapping[str, Any]) -> str:
    """What `check_layout` takes the configuration for."""
    values = read_config(config)
    if _is_two_sections(values):
        return "recognised as an engram and backbone configuration, layout engram-demo-v1"
    return recognise(values).describe()


def check_layout(
    config: str | PathLike[str] | Mapping[str, Any],
    *,
    token_map: Any = None,
    tokenizer_length: int | None = None,
) -> list[str]:
    """The findings, none if all agrees.

    `config` is what `HashLayout.from_hf_config` takes, or the two-section JSON of `load_config`. `token_map` is the map
    of the tokenizer (needed for layouts with compressed ids), `tokenizer_length` its number of ids (None: the map's).
    A configuration that is no layout at all raises ValueError.
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
    return "engram" in values and isinstance(values["engram"], dict)


def _check_demo(engram: EngramConfig, backbone: BackBoneConfig, token_map: Any, length: int | None) -> list[str]:
    findings = _vocabulary(backbone.vocab_size, length)
    findings += _zero_based("layer_ids", engram.layer_ids, backbone.num_layers)
    if token_map is not None and engram.pad_id >= len(token_map):
        return [*findings, _pad_outside("pad_id", engram.pad_id, token_map)]
    layout = HashLayout.preset("engram-demo-v1", token_map=token_map, **engram.hash_parameters())
    return findings + _pad("pad_id", engram.pad_id, None, token_map) + _int32(layout)


def _check_model(found: Recognised, section: Mapping[str, Any], token_map: Any, length: int | None) -> list[str]:
    findings = []
    vocab_size = section.get("vocab_size")
    if found.preset != "blt" and vocab_size is not None:
        findings += _vocabulary(_checks.integer("vocab_size", vocab_size, 1), length)
    # Raw layouts have no use for the map, which is there for its length alone.
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
    """The two numbers that a released configuration states and that follow from the rest."""
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
        if given != rows:
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


def _pad_outside(name: str, pad: int, token_map: Any) -> str:
    return f"{name} is {pad}, outside the token map of {len(token_map)} ids."


def _pad(name: str, pad: int, model_pad: Any, token_map: Any) -> list[str]:
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
                "what lies before a sequence hashes like that token."
            )
    return findings


def _zero_based(name: str, layer_ids: list[int], depth: int | None) -> list[str]:
    """Whether ids that should count from 0 look as if they counted from 1."""
    beyond = [] if depth is None else [layer for layer in layer_ids if layer >= depth]
    if not beyond:
        return []
    hint = " (does it count from 1?)" if max(beyond) == depth else ""
    return [f"{name} has {beyond}, but {depth} layers counted from 0 end at {depth - 1 if depth else 0}{hint}."]


def _one_based(name: str, layer_ids: list[int], depth: int | None) -> list[str]:
    beyond = [] if depth is None else [layer for layer in layer_ids if layer > depth]
    if not beyond:
        return []
    return [f"{name} has {beyond}, but {depth} layers counted from 1 end at {depth}."]


def _int32(layout: HashLayout) -> list[str]:
    largest = layout.max_row(True)
    if largest <= _checks.INT32_MAX:
        return []
    return [f"row numbers with offsets reach {largest}, past int32: rows have to be int64."]
