"""Which published layout a model configuration asks for, and with which parameters."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from .. import _checks
from . import presets as _presets

_MAX_BYTES = 64 << 20


@dataclass(frozen=True)
class Recognised:
    """What a configuration was taken for: the preset, its parameters, and where they stood."""

    preset: str
    parameters: dict[str, Any]
    model_type: str
    section: str

    def describe(self) -> str:
        """One sentence for people."""
        where = f" (under {self.section})" if self.section else ""
        return f"recognised as {self.model_type}{where}, layout {self.preset}"


def read_config(path_or_dict: str | PathLike[str] | Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration as a mapping: given as one, as a JSON file, as a model folder, or as a transformers config."""
    if isinstance(path_or_dict, Mapping):
        return path_or_dict
    if not isinstance(path_or_dict, (str, PathLike)):
        to_dict = getattr(path_or_dict, "to_dict", None)
        if callable(to_dict):
            return to_dict()
        kind = type(path_or_dict).__name__
        raise TypeError(f"configuration: expected a dict, a config.json or a model folder, got {kind}")
    path = Path(os.fsdecode(path_or_dict))
    if path.is_dir():
        path = path / "config.json"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such configuration (a model on a hub has to be downloaded first)")
    if path.stat().st_size > _MAX_BYTES:
        raise ValueError(f"{path}: {path.stat().st_size} bytes are no model configuration")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path}: expected a JSON object, got {type(config).__name__}")
    return config


def recognise(path_or_dict: str | PathLike[str] | Mapping[str, Any]) -> Recognised:
    """Says which layout the configuration asks for.

    >>> recognise({"model_type": "blt"}).describe()
    'recognised as blt, layout blt'
    """
    config = read_config(path_or_dict)
    nested = config.get("text_config")
    sections = [("text_config", nested)] if isinstance(nested, Mapping) else []
    for section, values in [*sections, ("", config)]:
        for family in _FAMILIES:
            if family.matches(values):
                model_type = config.get("model_type") or values.get("model_type") or family.model_types[0]
                return Recognised(family.preset, family.read(values), str(model_type), section)
    looked_for = "; ".join(f"{family.model_types[0]} ({' or '.join(family.keys)})" for family in _FAMILIES)
    model_type = _checks.shown(config.get("model_type"))
    raise ValueError(f"configuration: model_type {model_type} has no n-gram memory known here; looked for {looked_for}")


def _take(values: Mapping[str, Any], names: Sequence[str], model_type: str, *, required: bool) -> dict[str, Any]:
    """The named values; a published parameter that is missing or null is an error where the model has no default."""
    found = {name: values[name] for name in names if values.get(name) is not None}
    missing = [name for name in names if name not in found]
    if required and missing:
        raise ValueError(f"{missing[0]}: missing in this {model_type} configuration, which needs {', '.join(names)}")
    return found


def _with_aliases(values: Mapping[str, Any], preset: str, required: Sequence[str]) -> dict[str, Any]:
    """Each required parameter under whichever spelling is given, and under every one if there are several."""
    aliases = _presets.PRESETS[preset].aliases
    found: dict[str, Any] = {}
    for name in required:
        spellings = [name, *(alias for alias, meant in aliases.items() if meant == name)]
        given = {spelling: values[spelling] for spelling in spellings if values.get(spelling) is not None}
        if not given:
            raise ValueError(f"{' or '.join(spellings)}: missing in this configuration")
        found |= given
    return found


def _deepseek(values: Mapping[str, Any]) -> dict[str, Any]:
    required = (
        "engram_layer_ids",
        "engram_max_ngram_size",
        "engram_vocab_size",
        "engram_n_heads",
        "engram_pad_token_id",
    )
    checks = ("engram_num_embeddings", "engram_head_dim", "engram_compressed_vocab_size")
    return _with_aliases(values, "deepseek-v4.1", required) | {name: values.get(name) for name in checks}


def _qwen(values: Mapping[str, Any]) -> dict[str, Any]:
    layers = sorted(set(_checks.integers("ple_layer_ids", values.get("ple_layer_ids") or [], 1)))
    if not layers:
        raise ValueError("ple_layer_ids: no layers")
    names = ("vocab_size", "seed", "ngram_vocab_size_base", "ngram_size", "heads_per_ngram")
    found = _take(values, (*names, "make_ngram_vocab_size_divisible_by"), "qwen4_exp", required=False)
    eos = _take(values, ("eos_token_id",), "qwen4_exp", required=True)["eos_token_id"]
    # The published model uses the first of several.
    found["eos_token_id"] = eos[0] if isinstance(eos, (list, tuple)) and eos else eos
    indices = list(range(len(layers)))
    one = len(layers) == 1
    return found | {"layer_id": layers[0] if one else layers, "ple_layer_index": 0 if one else indices}


_POLYNOMIAL = ("vocab_size", "ngram_vocab_size_ratio", "emb_neighbor_num", "emb_split_num", "eos_token_id")


def _longcat(values: Mapping[str, Any]) -> dict[str, Any]:
    if values.get("ngram_exclude_sp_token"):
        raise ValueError("ngram_exclude_sp_token: true is another hash (special tokens stay out of it), not known here")
    return _one_eos(_with_aliases(values, "longcat", _POLYNOMIAL))


def _nanbeige(values: Mapping[str, Any]) -> dict[str, Any]:
    found = _one_eos(_take(values, _POLYNOMIAL, "nanbeige", required=True))
    flags = ("ngram_mod_force_prime", "ngram_compressed_tokenizer")
    return found | {name: False if values.get(name) is None else values[name] for name in flags}


def _one_eos(found: dict[str, Any]) -> dict[str, Any]:
    eos = found["eos_token_id"]
    if isinstance(eos, (list, tuple)):
        if len(eos) != 1:
            raise ValueError(f"eos_token_id: {len(eos)} ids, but this hash tests a single one")
        found["eos_token_id"] = eos[0]
    return found


def _blt(values: Mapping[str, Any]) -> dict[str, Any]:
    found = _take(values, _BLT_KEYS, "blt", required=False)
    return {name: value for name, value in found.items() if not (isinstance(value, (list, tuple)) and not value)}


_BLT_KEYS = (
    "encoder_hash_byte_group_size",
    "encoder_hash_byte_group_nb_functions",
    "encoder_hash_byte_group_vocab",
)


@dataclass(frozen=True)
class _Family:
    preset: str
    #: `model_type` values that mean this family; the first one is its name.
    model_types: tuple[str, ...]
    #: Any of these keys means it too, whatever the `model_type`.
    keys: tuple[str, ...]
    read: Callable[[Mapping[str, Any]], dict[str, Any]]

    def matches(self, values: Mapping[str, Any]) -> bool:
        return values.get("model_type") in self.model_types or any(values.get(key) is not None for key in self.keys)


# Nanbeige before LongCat: the keys that they share are LongCat's.
_FAMILIES = (
    _Family("deepseek-v4.1", ("deepseek_v41", "deepseek_v41_text"), ("engram_layer_ids",), _deepseek),
    _Family("qwen-ple", ("qwen4_exp", "qwen4_exp_text"), ("ple_layer_ids",), _qwen),
    _Family("nanbeige", ("nanbeige",), ("ngram_mod_force_prime", "ngram_compressed_tokenizer"), _nanbeige),
    _Family(
        "longcat",
        ("longcat_flash_ngram",),
        ("ngram_vocab_size_ratio", "oe_vocab_size_ratio", "emb_neighbor_num", "oe_neighbor_num"),
        _longcat,
    ),
    _Family("blt", ("blt",), _BLT_KEYS, _blt),
)
