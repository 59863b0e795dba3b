"""`EngramConfig` and `BackBoneConfig` with the published demo's defaults, and the JSON file that holds both."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from .. import _checks, _core

#: Most bytes of a configuration file.
_MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class EngramConfig:
    """The parameters of the demo's Engram layers; lists are copied.

    Raises:
        TypeError: a field has a wrong type; the message names the field.
        ValueError: a field has a wrong value, or two fields disagree; likewise.

    >>> EngramConfig().engram_vocab_size
    [646400, 646400]
    >>> EngramConfig(max_ngram_size=4)
    Traceback (most recent call last):
    ...
    ValueError: engram_vocab_size: 2 sizes, but max_ngram_size 4 has 3 orders, one size each
    """

    tokenizer_name_or_path: str = "deepseek-ai/DeepSeek-V3"
    engram_vocab_size: list[int] = field(default_factory=lambda: [129280 * 5, 129280 * 5])
    max_ngram_size: int = 3
    n_embed_per_ngram: int = 512
    n_head_per_ngram: int = 8
    layer_ids: list[int] = field(default_factory=lambda: [1, 15])
    pad_id: int = 2
    seed: int = 0
    kernel_size: int = 4

    def __post_init__(self) -> None:
        _checks.text("tokenizer_name_or_path", self.tokenizer_name_or_path)
        sizes = _checks.integers("engram_vocab_size", self.engram_vocab_size, 1)
        orders = _checks.integer("max_ngram_size", self.max_ngram_size, 2, _core.MAX_ORDER) - 1
        if len(sizes) != orders:
            per_order = f"max_ngram_size {orders + 1} has {orders} orders, one size each"
            raise ValueError(f"engram_vocab_size: {len(sizes)} sizes, but {per_order}")
        width = _checks.integer("n_embed_per_ngram", self.n_embed_per_ngram, 1)
        heads = _checks.integer("n_head_per_ngram", self.n_head_per_ngram, 1, _core.MAX_COLUMNS)
        if width % heads:
            raise ValueError(f"n_embed_per_ngram: {width} is not a multiple of the {heads} heads (n_head_per_ngram)")
        checked = {
            "engram_vocab_size": sizes,
            "max_ngram_size": orders + 1,
            "n_embed_per_ngram": width,
            "n_head_per_ngram": heads,
            "layer_ids": _checks.distinct_layers("layer_ids", self.layer_ids),
            "pad_id": _checks.integer("pad_id", self.pad_id, 0),
            "seed": _checks.integer("seed", self.seed, 0, 2**64 - 1),
            "kernel_size": _checks.integer("kernel_size", self.kernel_size, 1),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def hash_parameters(self) -> dict[str, Any]:
        """Return the parameters of the preset, for `HashLayout.preset("engram-demo-v1", token_map=…, **parameters)`."""
        names = ("engram_vocab_size", "max_ngram_size", "n_head_per_ngram", "layer_ids", "pad_id", "seed")
        return {name: list(value) if isinstance(value := getattr(self, name), list) else value for name in names}


@dataclass(frozen=True)
class BackBoneConfig:
    """The sizes of the model around the Engram layers; a wrong field raises TypeError or ValueError with its name."""

    hidden_size: int = 1024
    hc_mult: int = 4
    vocab_size: int = 129280
    num_layers: int = 30

    def __post_init__(self) -> None:
        for name in ("hidden_size", "hc_mult", "vocab_size", "num_layers"):
            object.__setattr__(self, name, _checks.integer(name, getattr(self, name), 1))


_SECTIONS = {"engram": EngramConfig, "backbone": BackBoneConfig}


def load_config(path: str | PathLike[str]) -> tuple[EngramConfig, BackBoneConfig]:
    """Read the two configurations from a JSON file, {"engram": {…}, "backbone": {…}}.

    A section or field that the file lacks has the demo's default.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is no JSON, longer than 1 MiB, or has an unknown, repeated or wrong field.
        TypeError: a field has a wrong type.
    """
    file = Path(path)
    with file.open("rb") as stream:
        content = stream.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"{file}: file has more than the {_MAX_BYTES} bytes that a configuration may have")
    try:
        sections = json.loads(content.decode("utf-8"), object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: {error}") from None
    return parse_config(sections, source=str(file))


def parse_config(sections: Any, *, source: str = "configuration") -> tuple[EngramConfig, BackBoneConfig]:
    """Return the two configurations of a JSON object; errors begin with `source`, its name."""
    if not isinstance(sections, dict):
        raise ValueError(f"{source}: expected an object with the sections engram and backbone")
    _refuse_unknown(source, "", sections, list(_SECTIONS))
    configs = []
    for name, kind in _SECTIONS.items():
        values = sections.get(name, {})
        if not isinstance(values, dict):
            raise ValueError(f"{source}: {name}: expected an object, got {type(values).__name__}")
        _refuse_unknown(source, f"{name}.", values, [entry.name for entry in dataclasses.fields(kind)])
        try:
            configs.append(kind(**values))
        except (ValueError, TypeError) as error:
            raise type(error)(f"{source}: {name}.{error}") from None
    engram, backbone = configs
    return engram, backbone


def _refuse_unknown(source: str, prefix: str, values: dict[str, Any], known: list[str]) -> None:
    for name in values:
        if name not in known:
            raise ValueError(f"{source}: {prefix}{name}: unknown; there are {', '.join(known)}")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"{name}: given twice; keep one")
        values[name] = value
    return values
