"""From a model's configuration to the published layout that it asks for, and its parameters."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from .. import _checks
from . import presets as _presets
from .presets.names import PresetName

#: Most bytes of a configuration file.
_MAX_BYTES = 64 << 20
#: Sections of a configuration that hold parameters of their own.
_SECTIONS = ("text_config", "engram", "backbone")


@dataclass(frozen=True)
class Recognised:
    """The preset that a configuration asks for, its parameters, and the section ("": none) in which they stand."""

    preset: PresetName
    parameters: dict[str, Any]
    model_type: str
    section: str

    def describe(self) -> str:
        """Return one sentence that names the model type, the section and the preset."""
        where = f" (under {self.section})" if self.section else ""
        return f"recognised as {self.model_type}{where}, layout {self.preset}"


def read_config(source: Any) -> Mapping[str, Any]:
    """Return a configuration as a mapping.

    Args:
        source: a mapping; the path of a JSON file, or of the model folder that holds a `config.json`; or a
            configuration object: with `to_dict` as transformers' have, a dataclass, a namespace, or any other object
            with attributes.

    Raises:
        FileNotFoundError: there is no such file.
        TypeError: `source` is none of these.
        ValueError: the file is no JSON object, or too large.
    """
    if isinstance(source, (str, PathLike)):
        return _read_file(Path(os.fsdecode(source)))
    config = _as_mapping(source)
    if config is None:
        kind = type(source).__name__
        raise TypeError(
            f"configuration: expected a dict, a config.json, a model folder or a configuration object, got {kind}"
        )
    given = [name for name in _SECTIONS if name in config and not isinstance(config[name], dict)]
    sections = {name: dict(section) for name in given if (section := _as_mapping(config[name])) is not None}
    return {**config, **sections} if sections else config


def _read_file(path: Path) -> dict[str, Any]:
    if path.is_dir():
        path = path / "config.json"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such configuration (download a hub's model first and give its folder)")
    size = path.stat().st_size
    if size > _MAX_BYTES:
        raise ValueError(f"{path}: file has {size} bytes, more than the {_MAX_BYTES} that a configuration may have")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path}: expected a JSON object, got {type(config).__name__}")
    return config


def _as_mapping(source: Any) -> Mapping[str, Any] | None:
    """Return a mapping or configuration object as a mapping; None if it is neither."""
    if isinstance(source, Mapping):
        return source
    if isinstance(source, type):
        return None
    for method in ("to_dict", "model_dump", "_asdict"):
        convert = getattr(source, method, None)
        if callable(convert):
            converted = convert()
            return converted if isinstance(converted, Mapping) else None
    if dataclasses.is_dataclass(source):
        return {field.name: getattr(source, field.name) for field in dataclasses.fields(source)}
    if callable(source) or not (hasattr(source, "__dict__") or hasattr(type(source), "__slots__")):
        return None
    # Defaults may stand in the class, as in `class Config: ngram_size = 3`.
    names = [name for name in dir(source) if not name.startswith("_")]
    return {name: value for name in names if not callable(value := getattr(source, name, None))}


def recognise(source: Any) -> Recognised:
    """Return the layout that a configuration asks for, with its parameters.

    Args:
        source: a configuration as `read_config` takes it; the parameters may stand under `text_config`.

    Raises:
        ValueError: the configuration has no n-gram memory that is known here, or lacks a parameter.
        FileNotFoundError, TypeError: those of `read_config`.

    >>> recognise({"model_type": "blt"}).describe()
    'recognised as blt, layout blt'
    """
    config = read_config(source)
    nested = config.get("text_config")
    sections = [("text_config", nested)] if isinstance(nested, Mapping) else []
    for section, values in [*sections, ("", config)]:
        for family in _FAMILIES:
            if family.matches(values):
                model_type = config.get("model_type") or values.get("model_type") or family.model_types[0]
                return Recognised(family.preset, family.read(values), str(model_type), section)
    looked_for = "; ".join(f"{family.model_types[0]} ({' or '.join(family.keys)})" for family in _FAMILIES)
    model_type = _checks.shown(config.get("model_type"))
    raise ValueError(f"configuration: model_type {model_type} has no known n-gram memory; looked for {looked_for}")


def _take(values: Mapping[str, Any], names: Sequence[str], model_type: str, *, required: bool) -> dict[str, Any]:
    """Return the named values that are present and not null; ValueError if all are `required` and one is missing."""
    found = {name: values[name] for name in names if values.get(name) is not None}
    missing = [name for name in names if name not in found]
    if required and missing:
        raise ValueError(f"{missing[0]}: missing in this {model_type} configuration, which needs {', '.join(names)}")
    return found


def _with_aliases(values: Mapping[str, Any], preset: PresetName, required: Sequence[str]) -> dict[str, Any]:
    """Return each required parameter under every spelling that the configuration has; ValueError if it has none."""
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
    # Of several ids the published model uses the first.
    found["eos_token_id"] = eos[0] if isinstance(eos, (list, tuple)) and eos else eos
    indices = list(range(len(layers)))
    one = len(layers) == 1
    return found | {"layer_id": layers[0] if one else layers, "ple_layer_index": 0 if one else indices}


_POLYNOMIAL = ("vocab_size", "ngram_vocab_size_ratio", "emb_neighbor_num", "emb_split_num", "eos_token_id")


def _longcat(values: Mapping[str, Any]) -> dict[str, Any]:
    if values.get("ngram_exclude_sp_token"):
        scope = _checks.shown(values.get("special_token_scope"))
        raise ValueError(
            "ngram_exclude_sp_token: a layout cannot leave special tokens out of the hash; set it to False and pass "
            f"mask=, False at the special tokens (special_token_scope is {scope}): that gives the published rows"
        )
    return _with_aliases(values, "longcat", _POLYNOMIAL)


def _nanbeige(values: Mapping[str, Any]) -> dict[str, Any]:
    found = _take(values, _POLYNOMIAL, "nanbeige", required=True)
    flags = ("ngram_mod_force_prime", "ngram_compressed_tokenizer")
    return found | {name: False if values.get(name) is None else values[name] for name in flags}


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
    """A family of models: the preset, how a configuration shows that it belongs to it, and how to read it."""

    preset: PresetName
    #: The values of `model_type` that mean this family; the first one is its name.
    model_types: tuple[str, ...]
    #: Any of these keys means the family too, whatever the `model_type`.
    keys: tuple[str, ...]
    read: Callable[[Mapping[str, Any]], dict[str, Any]]

    def matches(self, values: Mapping[str, Any]) -> bool:
        """Return whether the configuration belongs to this family."""
        return values.get("model_type") in self.model_types or any(values.get(key) is not None for key in self.keys)


# Nanbeige stands before LongCat: a Nanbeige configuration has LongCat's keys too.
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
