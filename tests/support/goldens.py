"""The golden arrays of tests/data as cases: published parameters, token ids, boundaries, and the rows that must come
out."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from engram_fast import reference

DATA = Path(__file__).parent.parent / "data"


@dataclass(frozen=True)
class Case:
    """One golden array of rows; `expected` is [L,B,T,C] in the published dtype, `ids` are raw [B,T]."""

    golden: str
    array: str
    preset: str
    parameters: dict[str, Any]
    lookup: np.ndarray | None
    ids: np.ndarray
    expected: np.ndarray
    where: dict[str, Any] = field(default_factory=dict)
    """Any of mask, segment_ids, past, add_offsets, by the names that `reference.hash_rows` has for them."""

    def __str__(self) -> str:
        return f"{self.golden}:{self.array}"

    def layout(self) -> dict[str, Any]:
        """The layout by the reference."""
        return reference.preset(self.preset, lookup=self.lookup, **self.parameters)


@cache
def load(name: str) -> dict[str, np.ndarray]:
    """The arrays of one file, read-only."""
    with np.load(DATA / f"{name}.npz") as file:
        arrays = dict(file)
    for array in arrays.values():
        array.setflags(write=False)
    return arrays


@cache
def manifest() -> dict[str, dict[str, Any]]:
    """The configuration of each file."""
    return json.loads((DATA / "manifest.json").read_text())


def lookup(tokenizer: str | None) -> np.ndarray | None:
    """The golden token map of "v3" or "v4", int32 [n]; None for None."""
    return None if tokenizer is None else load(f"token_map_deepseek_{tokenizer}")["lookup"]


def pick(config: dict[str, Any], *names: str, **renamed: str) -> dict[str, Any]:
    """Entries of `config` under their own names, and under new ones (new="old")."""
    return {name: config[name] for name in names} | {new: config[old] for new, old in renamed.items()}


def layer_arrays(arrays: dict[str, np.ndarray], prefix: str, layers: list[int]) -> np.ndarray:
    """The arrays of all layers, stacked in the given order."""
    return np.stack([arrays[f"{prefix}{layer}"] for layer in layers])


def demo_cases(name: str, preset: str) -> list[Case]:
    config, arrays = manifest()[name], load(name)
    parameters = pick(config, "engram_vocab_size", "max_ngram_size", "n_head_per_ngram", "layer_ids", "pad_id", "seed")
    given = preset, parameters, lookup(config["tokenizer_name_or_path"])
    prefixes = {"hash_layer": "input_ids", "hash_negatives_layer": "input_ids_with_negatives"}
    return [
        Case(name, prefix, *given, arrays[ids], layer_arrays(arrays, prefix, config["layer_ids"]))
        for prefix, ids in prefixes.items()
        if ids in arrays
    ]


def deepseek_v41_cases(name: str) -> list[Case]:
    arrays = load(name)
    mask, sequences = arrays["token_mask"], arrays["sequence_ids"]
    by_sequence = {"segment_ids": sequences, "mask": sequences != 0}
    where = {
        "rows": {},
        "rows_masked": {"mask": mask},
        "rows_sequences": by_sequence,
        "rows_masked_sequences": {**by_sequence, "mask": mask & (sequences != 0)},
    }
    return [
        Case(name, key, "deepseek-v4.1", {}, lookup("v4"), arrays["input_ids"], arrays[key].transpose(2, 0, 1, 3), at)
        for key, at in where.items()
    ]


def engram_peft_cases(name: str) -> list[Case]:
    config, arrays = manifest()[name], load(name)
    named = "engram_vocab_size_per_ngram", "ngram_sizes", "n_head_per_ngram", "layer_ids", "pad_id", "seed"
    identity = np.arange(config["compressed_vocab_size"], dtype=np.int32)
    expected = layer_arrays(arrays, "hash_layer", config["layer_ids"])
    parameters = pick(config, *named)
    return [Case(name, "hash_layer", "engram-peft", parameters, identity, arrays["compressed_ids"], expected)]


def one_layer_cases(name: str, preset: str, parameters: dict[str, Any], array: str) -> list[Case]:
    arrays = load(name)
    tokenizer = manifest().get(name, {}).get("compressed")
    return [Case(name, array, preset, parameters, lookup(tokenizer), arrays["input_ids"], arrays[array][None])]


def qwen_cases(name: str) -> list[Case]:
    names = {"vocab_size": "vocab", "ngram_vocab_size_base": "base", "ngram_size": "ngram", "heads_per_ngram": "heads"}
    names |= {"eos_token_id": "eos", "make_ngram_vocab_size_divisible_by": "row_multiple"}
    parameters = pick(manifest()[name], "seed", "ple_layer_index", **names)
    return one_layer_cases(name, "qwen-ple", parameters, "rows")


def longcat_parameters(name: str) -> dict[str, Any]:
    names = {"vocab_size": "vocab", "ngram_vocab_size_ratio": "ratio", "emb_neighbor_num": "ngram"}
    return pick(manifest()[name], **names, emb_split_num="splits", eos_token_id="eos")


def nanbeige_cases(name: str) -> list[Case]:
    config = manifest()[name]
    parameters = longcat_parameters(name) | {
        "ngram_mod_force_prime": config["force_prime"],
        "ngram_compressed_tokenizer": config["compressed"] is not None,
    }
    return one_layer_cases(name, "nanbeige", parameters, "bucket_ids")


def blt_cases(name: str) -> list[Case]:
    names = {"nb_functions": "functions", "size": "group_sizes", "vocab": "max_hash"}
    names = {f"encoder_hash_byte_group_{new}": old for new, old in names.items()}
    return one_layer_cases(name, "blt", pick(manifest()[name], **names), "rows")


def onnxruntime_cases() -> list[Case]:
    wrapping, boundaries = load("onnxruntime_wrapping"), load("onnxruntime_boundaries")
    parameters = {"multipliers": wrapping["multipliers"].tolist(), "vocab_sizes": wrapping["moduli"].tolist()}
    parameters |= {"max_ngram_size": 3, "n_head_per_ngram": 7, "pad_id": int(wrapping["pad"])}
    cases = one_layer_cases("onnxruntime_wrapping", "onnxruntime", parameters, "rows")

    parameters = {"multipliers": boundaries["multipliers"].tolist(), "vocab_sizes": boundaries["moduli"].tolist()}
    parameters |= {"max_ngram_size": 4, "n_head_per_ngram": 3, "pad_id": int(boundaries["pad"])}
    eos = {"eos_token_id": int(boundaries["eos"])}
    reset, segments = {**eos, "reset_on_eos": True}, {"segment_ids": boundaries["segment_ids"]}
    offsets = {"head_offsets": boundaries["head_offsets"].tolist()}
    int32 = {"multipliers": boundaries["multipliers_int32"].tolist(), "int32": True}
    variants: dict[str, tuple[dict, dict]] = {
        "rows_plain_pad": ({}, {}),
        "rows_eos_no_reset": (eos, {}),
        "rows_reset_on_eos": (reset, {}),
        "rows_segments": (eos, segments),
        "rows_all_with_past": (reset | offsets, segments | {"past": boundaries["past_ids"]}),
        "rows_int32_wrapping": (reset | int32, {}),
    }
    given = "onnxruntime_boundaries", "onnxruntime", boundaries["input_ids"]
    return cases + [
        Case(given[0], key, given[1], parameters | more, None, given[2], boundaries[key][None], where)
        for key, (more, where) in variants.items()
    ]


@cache
def cases() -> tuple[Case, ...]:
    """Every golden array of rows."""
    return (
        *demo_cases("demo_v1_deepseek_v3", "engram-demo-v1"),
        *demo_cases("demo_v1_deepseek_v4", "engram-demo-v1"),
        *demo_cases("demo_v1_odd_shape", "engram-demo-v1"),
        *demo_cases("demo_v1_pad_moves", "engram-demo-v1"),
        *demo_cases("maxtext_int32", "maxtext-int32"),
        *deepseek_v41_cases("deepseek_v41"),
        *engram_peft_cases("engram_peft"),
        *engram_peft_cases("engram_peft_orders"),
        *qwen_cases("qwen_ple"),
        *qwen_cases("qwen_ple_small"),
        *one_layer_cases("longcat", "longcat", longcat_parameters("longcat"), "bucket_ids"),
        *nanbeige_cases("nanbeige"),
        *nanbeige_cases("nanbeige_compressed"),
        *blt_cases("blt"),
        *blt_cases("blt_functions"),
        *onnxruntime_cases(),
    )


def texts_and_pieces(tokenizer: Any, length: int) -> tuple[list[str | None], list[str | None]]:
    """What `reference.token_map` needs of a `tokenizers.Tokenizer`, for the ids below `length`; None for holes."""
    pieces = [tokenizer.id_to_token(i) for i in range(length)]
    texts = [None if pieces[i] is None else tokenizer.decode([i], skip_special_tokens=False) for i in range(length)]
    return texts, pieces
