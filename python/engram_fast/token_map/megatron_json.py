"""Write and read the fields of Megatron's JSON token map, and check them.

The file holds the lookup (`remap`), the pad id, the seed and the multipliers of each layer. Ids from
`tokenizer_vocab_size` to `source_vocab_size` pad the vocabulary; all of them have the pad's compressed id.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from .. import _checks, _core

FORMAT = "megatron-engram-token-map"
VERSION = 1
_NORMALIZATION = "NFKC+NFD+StripAccents+Lowercase+WhitespaceCollapse"
# The rule of a `TokenMap` by the value of the field `normalization`.
_RULES = {_NORMALIZATION: "normalized-text", "none": "none"}


class MegatronFields(TypedDict):
    """The content of a file; `engram_fast.token_map.megatron.MegatronMap` explains the fields."""

    token_map: _core.TokenMap
    tokenizer_vocab_size: int
    pad_token_id: int
    compressed_pad_token_id: int
    max_ngram_order: int
    hash_seed: int
    layer_ids: tuple[int, ...]
    layer_multipliers: dict[int, tuple[int, ...]]


def write(
    path: str | os.PathLike[str],
    token_map: _core.TokenMap,
    *,
    pad_token_id: int,
    layer_multipliers: Mapping[int, Sequence[int]],
    hash_seed: int = 0,
    padded_vocab_size: int | None = None,
) -> None:
    """Write the JSON token map in one step.

    Args:
        path: the file.
        token_map: the map; the format has no place for its digest.
        pad_token_id: raw id of the pad, below ``len(token_map)``.
        layer_multipliers: for each layer, in order, one odd multiplier for each look-back (``layout.multipliers``).
        hash_seed: the seed of the multipliers.
        padded_vocab_size: number of raw ids of the model; those past the map get the pad's compressed id.

    Raises:
        ValueError: a value is wrong; the message begins with the field's name.
        TypeError: a number is no integer, or `layer_multipliers` is no mapping; the message begins with the name.
        OSError: the file cannot be written.

    >>> import tempfile
    >>> from engram_fast import TokenMap
    >>> path = f"{tempfile.mkdtemp()}/map.json"
    >>> token_map = TokenMap.from_pieces(["A", "a"], ["A", "a"])
    >>> write(path, token_map, pad_token_id=0, layer_multipliers={2: [3, 5, 7]}, padded_vocab_size=4)
    >>> TokenMap.from_megatron_json(path).lookup
    array([0, 0, 0, 0], dtype=int32)
    """
    remap = token_map.lookup.tolist()
    pad = _checks.integer("pad_token_id", pad_token_id, -(2**63))
    if not 0 <= pad < len(remap):
        raise ValueError(f"pad_token_id: {pad} is not below the {len(remap)} ids of the token map")
    # Holes at the end with the pad's compressed id are padding, not tokens.
    holes, tokens = set(token_map.holes), len(remap)
    while tokens - 1 in holes and remap[tokens - 1] == remap[pad]:
        tokens -= 1
    source = len(remap) if padded_vocab_size is None else _checks.integer("padded_vocab_size", padded_vocab_size, 0)
    if source < len(remap):
        raise ValueError(
            f"padded_vocab_size: {source} loses token id {len(remap) - 1}; at least {len(remap)} is needed"
        )
    remap.extend([remap[pad]] * (source - len(remap)))
    if not isinstance(layer_multipliers, Mapping):
        raise TypeError(f"layer_multipliers: expected a mapping, got {type(layer_multipliers).__name__}")
    multipliers = {
        _checks.integer("layer_multipliers", layer, -(2**63)): _checks.integers(
            f"layer_multipliers[{layer}]", row, -(2**63)
        )
        for layer, row in layer_multipliers.items()
    }
    if not multipliers:
        raise ValueError("layer_multipliers: no layers")
    rule = token_map.metadata["rule"]
    artefact = {
        "format": FORMAT,
        "version": VERSION,
        "source_vocab_size": source,
        "tokenizer_vocab_size": tokens,
        "compressed_vocab_size": token_map.size,
        "normalization": next(name for name, made_by in _RULES.items() if made_by == rule),
        "pad_token_id": pad,
        "compressed_pad_token_id": remap[pad],
        "max_ngram_order": len(next(iter(multipliers.values()), [])),
        "hash_seed": _checks.integer("hash_seed", hash_seed, 0, 2**64 - 1),
        "layer_ids": list(multipliers),
        "layer_multipliers": {str(layer): row for layer, row in multipliers.items()},
        "remap": remap,
    }
    _check(artefact)
    _core.write_atomically(path, (json.dumps(artefact, sort_keys=True, separators=(",", ":")) + "\n").encode())


def parse(path: str | os.PathLike[str]) -> MegatronFields:
    """Read the fields of the file at `path`, and check every one.

    Raises:
        ValueError: the file is not JSON, or a field is missing or wrong; the message names the file and the field.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        data = file.read()
    try:
        artefact = json.loads(data, parse_constant=_no_constant)
        if not isinstance(artefact, dict):
            raise ValueError(f"holds a JSON {type(artefact).__name__}, not an object")
        return _check(artefact)
    except RecursionError:
        raise ValueError(f"{os.fspath(path)}: nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _check(artefact: Mapping[str, Any]) -> MegatronFields:
    def field(name: str, wanted: str, good: Callable[[Any], bool]) -> Any:
        if name not in artefact:
            raise ValueError(f"{name}: missing")
        value = artefact[name]
        if not good(value):
            shown = repr(value)
            raise ValueError(f"{name}: expected {wanted}, got {shown if len(shown) < 80 else shown[:77] + '...'}")
        return value

    def number(name: str, low: int, high: int) -> int:
        value = field(name, f"an integer in {low}..{high}", lambda value: _is_int(value) and low <= value <= high)
        return int(value)

    field("format", repr(FORMAT), lambda value: value == FORMAT)
    field("version", str(VERSION), lambda value: _is_int(value) and value == VERSION)
    normalization = field(
        "normalization", f"one of {list(_RULES)}", lambda value: isinstance(value, str) and value in _RULES
    )
    remap = field(
        "remap", "a list of at least one compressed id", lambda value: isinstance(value, list) and value != []
    )
    wrong = next((i for i, value in enumerate(remap) if not _is_int(value) or not 0 <= value < 2**31), None)
    if wrong is not None:
        raise ValueError(f"remap: entry {wrong} is {remap[wrong]!r}, not a compressed id in 0..{2**31 - 1}")
    source = number("source_vocab_size", len(remap), len(remap))
    tokens = number("tokenizer_vocab_size", 1, source)
    size = max(remap) + 1
    number("compressed_vocab_size", size, size)
    pad = number("pad_token_id", 0, tokens - 1)
    number("compressed_pad_token_id", remap[pad], remap[pad])
    wrong = next((i for i in range(tokens, source) if remap[i] != remap[pad]), None)
    if wrong is not None:
        raise ValueError(
            f"tokenizer_vocab_size: {tokens}, but id {wrong} past it is no padding: "
            f"its compressed id is {remap[wrong]}, the pad's is {remap[pad]}"
        )
    order = number("max_ngram_order", 2, _core.MAX_ORDER)
    seed = number("hash_seed", 0, 2**64 - 1)
    layer_ids = field("layer_ids", "a list of different integers, none negative", _are_layer_ids)
    # Megatron refuses a multiplier whose product with the largest compressed id is past int64.
    largest = (2**63 - 1) // max(size - 1, 1)
    rows = field(
        "layer_multipliers",
        f"an object with a list for each of the layers {layer_ids} and no other",
        lambda value: isinstance(value, dict) and set(value) == {str(layer) for layer in layer_ids},
    )
    for layer, row in rows.items():
        good = isinstance(row, list) and len(row) == order
        if not good or not all(_is_int(m) and m % 2 == 1 and 0 < m <= largest for m in row):
            raise ValueError(
                f"layer_multipliers: layer {layer} needs {order} odd integers in 1..{largest}, got {row!r:.120}"
            )
    holes = list(range(tokens, source))
    return MegatronFields(
        token_map=_core.TokenMap.from_numbers(remap, holes, _RULES[normalization], "megatron"),
        tokenizer_vocab_size=tokens,
        pad_token_id=pad,
        compressed_pad_token_id=remap[pad],
        max_ngram_order=order,
        hash_seed=seed,
        layer_ids=tuple(layer_ids),
        layer_multipliers={layer: tuple(rows[str(layer)]) for layer in layer_ids},
    )


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_layer_ids(value: Any) -> bool:
    is_list = isinstance(value, list) and all(_is_int(layer) and layer >= 0 for layer in value)
    return is_list and 0 < len(value) == len(set(value))
