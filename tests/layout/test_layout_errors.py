"""Every wrong configuration of every preset: refused at once, under the name that the caller used."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from engram_fast import HashLayout, presets
from layout_tools import NANBEIGE, ONNX, PEFT, Map, identity, preset

HUGE = 10**9


def rows(*columns: tuple[str, str, list[Any]]) -> list[Any]:
    return [
        pytest.param(name, field, value, id=f"{name}-{field}-{value!r:.40}")
        for name, field, values in columns
        for value in values
    ]


DEMO_WRONG: list[tuple[str, list[Any]]] = [
    ("engram_vocab_size", [[], [97], [97, 97, 97], [97, 0], [97, -1], [2**62, 97], [97, 10**400], [97] * 5000]),
    ("max_ngram_size", [1, 0, -1, 17, HUGE, 2**200]),
    ("n_head_per_ngram", [0, -8, HUGE, 2**62, 4097]),
    ("layer_ids", [[], [1, 1], [-1], [3, 1, 3], [2**63], list(range(4097)), [*range(4000, 0, -1), -5]]),
    ("pad_id", [-1, 1000, 2**63, 10**30]),
    ("seed", [-1, 2**64]),
]


@pytest.mark.parametrize("name", ["engram-demo-v1", "megatron", "tilekernels", "maxtext-int32"])
@pytest.mark.parametrize(("field", "values"), DEMO_WRONG, ids=[field for field, _ in DEMO_WRONG])
def test_demo_family(name: str, field: str, values: list[Any]) -> None:
    for value in values:
        refuses(name, field, value)


def refuses(name: str, field: str, value: Any, kind: type[Exception] = ValueError, **more: Any) -> str:
    start = time.perf_counter()
    with pytest.raises(kind, match=rf"^{field}\b") as error:
        preset(name, **{field: value}, **more)
    assert time.perf_counter() - start < 1
    message = str(error.value)
    assert len(message) < 600
    return message


@pytest.mark.parametrize(
    ("name", "field", "value"),
    rows(
        ("deepseek-v4.1", "engram_layer_ids", [[], [1, 1], [-1, 14], [1, 14, 14]]),
        ("deepseek-v4.1", "engram_num_embeddings", [[1, 2], [384006168], [384016682, 384006168], [], [0, 0], [-1, 5]]),
        ("deepseek-v4.1", "engram_max_ngram_size", [1, 17]),
        ("deepseek-v4.1", "engram_vocab_size", [0, -5, 2**62, 2**60 + 1]),
        ("deepseek-v4.1", "engram_n_heads", [0, HUGE]),
        ("deepseek-v4.1", "engram_head_dim", [0, -1]),
        ("deepseek-v4.1", "engram_pad_token_id", [-1, 129280]),
        ("deepseek-v4.1", "engram_pad_id", [-1, 129280]),
        ("deepseek-v4.1", "engram_compressed_vocab_size", [0, 98627, 129280]),
        ("qwen-ple", "vocab_size", [0, -1, 2**63]),
        ("qwen-ple", "seed", [-1, 2**64]),
        ("qwen-ple", "ngram_vocab_size_base", [0, -1, 2**62]),
        ("qwen-ple", "ngram_size", [1, 0, 17, HUGE]),
        ("qwen-ple", "heads_per_ngram", [0, HUGE]),
        ("qwen-ple", "eos_token_id", [2**63, -(2**63) - 1]),
        ("qwen-ple", "ple_layer_index", [-1, HUGE, 2**62]),
        ("qwen-ple", "make_ngram_vocab_size_divisible_by", [0, -128, 2**62]),
        ("qwen-ple", "layer_id", [-1, [], [1, 2]]),
        ("longcat", "vocab_size", [0, 2**62]),
        ("longcat", "ngram_vocab_size_ratio", [0, -78, 0.0, float("nan"), float("inf"), 1e300, 10**300]),
        ("longcat", "emb_neighbor_num", [1, 0, 17, HUGE]),
        ("longcat", "emb_split_num", [0, -1, HUGE]),
        ("longcat", "eos_token_id", [-1, 131072]),
        ("longcat", "layer_id", [-1, 2**63]),
        ("nanbeige", "vocab_size", [0]),
        ("nanbeige", "ngram_vocab_size_ratio", [-1, float("inf")]),
        ("nanbeige", "eos_token_id", [5000]),
        ("blt", "encoder_hash_byte_group_nb_functions", [0, HUGE]),
        ("blt", "encoder_hash_byte_group_size", [[], [0], [3, 3], [4, 3], [17], [3, HUGE]]),
        ("blt", "encoder_hash_byte_group_vocab", [0, -1, 2**62]),
        ("onnxruntime", "multipliers", [[], [1, 2], [1, 2, 3, 4], [1, 2, 2**63]]),
        ("onnxruntime", "vocab_sizes", [[], [97], [97, 101, 103, 0], [97, 101, 103, -1], [2**62] * 4]),
        ("onnxruntime", "max_ngram_size", [1, 17]),
        ("onnxruntime", "n_head_per_ngram", [0, HUGE]),
        ("onnxruntime", "pad_id", [2**63, -(2**63) - 1]),
        ("onnxruntime", "head_offsets", [[], [0], [0, 1, 2, -1], [0, 1, 2, 2**63 - 1]]),
        ("onnxruntime", "eos_token_id", [2**63]),
        ("onnxruntime", "reset_on_eos", [True]),
        ("engram-peft", "engram_vocab_size_per_ngram", [[], [97], [97, 3], [0, 97], [2**62, 97]]),
        ("engram-peft", "ngram_sizes", [[], [2], [4, 2], [2, 2], [0, 2], [2, 17]]),
        ("engram-peft", "n_head_per_ngram", [0, HUGE]),
        ("engram-peft", "layer_ids", [[], [3, 3], [-1]]),
        ("engram-peft", "pad_id", [-1, 1000]),
        ("engram-peft", "seed", [-1]),
    ),
)
def test_wrong_values(name: str, field: str, value: Any) -> None:
    # A list of another length may be reported under the list that it has to match.
    other = {"ngram_sizes": {(2,): "engram_vocab_size_per_ngram"}}.get(field, {})
    named = other.get(tuple(value), field) if isinstance(value, list) else field
    with pytest.raises(ValueError, match=rf"^{named}\b") as error:
        preset(name, **{field: value})
    assert len(str(error.value)) < 600


INTEGERS = [
    ("engram-demo-v1", "max_ngram_size"),
    ("engram-demo-v1", "n_head_per_ngram"),
    ("engram-demo-v1", "pad_id"),
    ("engram-demo-v1", "seed"),
    ("deepseek-v4.1", "engram_vocab_size"),
    ("deepseek-v4.1", "engram_pad_id"),
    ("deepseek-v4.1", "engram_compressed_vocab_size"),
    ("qwen-ple", "eos_token_id"),
    ("qwen-ple", "ple_layer_index"),
    ("longcat", "emb_split_num"),
    ("blt", "encoder_hash_byte_group_vocab"),
    ("onnxruntime", "pad_id"),
    ("engram-peft", "n_head_per_ngram"),
]


@pytest.mark.parametrize(("name", "field"), INTEGERS)
@pytest.mark.parametrize(
    "value", [2.0, 2.5, "2", True, None, np.float64(2), np.bool_(True), 2j, np.array([2.0])], ids=repr
)
def test_numbers_that_are_not_integers(name: str, field: str, value: Any) -> None:
    if value is None and field == "engram_compressed_vocab_size":
        return
    refuses(name, field, value, TypeError)


LISTS = [
    ("engram-demo-v1", "engram_vocab_size"),
    ("engram-demo-v1", "layer_ids"),
    ("deepseek-v4.1", "engram_num_embeddings"),
    ("blt", "encoder_hash_byte_group_size"),
    ("onnxruntime", "multipliers"),
    ("onnxruntime", "head_offsets"),
    ("engram-peft", "ngram_sizes"),
]


@pytest.mark.parametrize(("name", "field"), LISTS)
@pytest.mark.parametrize(
    "value",
    [
        5,
        "12",
        b"12",
        {1: 2},
        {1, 2},
        [1.0, 2.0],
        [True, 2],
        ["1", "2"],
        [[1, 2]],
        np.ones(2),
        np.ones((2, 2), int),
        iter([1]),
    ],
    ids=lambda value: f"{type(value).__name__}-{value!r:.20}",
)
def test_lists_that_are_not_integers(name: str, field: str, value: Any) -> None:
    refuses(name, field, value, TypeError)


@pytest.mark.parametrize(
    ("name", "field"),
    [("nanbeige", "ngram_mod_force_prime"), ("nanbeige", "ngram_compressed_tokenizer"), ("onnxruntime", "int32")],
)
@pytest.mark.parametrize("value", [1, 0, "yes", None])
def test_flags_are_booleans(name: str, field: str, value: Any) -> None:
    refuses(name, field, value, TypeError)


@pytest.mark.parametrize("value", ["78", None, True, [78]])
def test_ratios_are_numbers(value: Any) -> None:
    refuses("longcat", "ngram_vocab_size_ratio", value, TypeError)


def test_errors_use_the_spelling_of_the_caller() -> None:
    with pytest.raises(ValueError, match=r"^engram_pad_id: 129280 is outside the token map of 129280 ids"):
        preset("deepseek-v4.1", engram_pad_id=129280)
    with pytest.raises(ValueError, match=r"^oe_split_num: 0 is below 1"):
        preset("longcat", oe_split_num=0)
    with pytest.raises(ValueError, match=r"differs from engram_pad_token_id"):
        preset("deepseek-v4.1", engram_pad_token_id=2, engram_pad_id=3)
    assert preset("deepseek-v4.1", engram_pad_token_id=2, engram_pad_id=2) == preset("deepseek-v4.1")


@pytest.mark.parametrize("name", presets())
def test_unknown_parameters_list_the_accepted_ones(name: str) -> None:
    with pytest.raises(ValueError, match=r"^vocabulary: .* no such parameter; it takes ") as error:
        preset(name, vocabulary=5)
    for parameter in preset(name).parameters:
        assert parameter in str(error.value)


def test_unknown_presets_list_the_names() -> None:
    with pytest.raises(ValueError, match="'deepseek-v4' is not a preset") as error:
        HashLayout.preset("deepseek-v4")
    assert all(name in str(error.value) for name in presets())
    for wrong in (None, 5, ["engram-demo-v1"]):
        with pytest.raises(TypeError):
            HashLayout.preset(wrong)


@pytest.mark.parametrize(
    "name", ["engram-demo-v1", "megatron", "tilekernels", "maxtext-int32", "deepseek-v4.1", "engram-peft"]
)
def test_compressed_layouts_need_a_token_map(name: str) -> None:
    with pytest.raises(ValueError, match=r"^token_map: "):
        preset(name, token_map=None)


@pytest.mark.parametrize("name", ["qwen-ple", "longcat", "nanbeige", "blt", "onnxruntime"])
def test_raw_layouts_take_no_token_map(name: str) -> None:
    with pytest.raises(ValueError, match=r"^token_map: .* raw ids"):
        preset(name, token_map=identity(10))


def test_nanbeige_with_compression_needs_a_token_map() -> None:
    with pytest.raises(ValueError, match=r"^token_map: "):
        preset("nanbeige", ngram_compressed_tokenizer=True)
    layout = preset("nanbeige", ngram_compressed_tokenizer=True, token_map=identity(3000))
    assert (layout.id_limit, layout.token_map_length) == (3000, 3000)
    with pytest.raises(ValueError, match=r"^eos_token_id: 4000 is not below 3000"):
        preset("nanbeige", ngram_compressed_tokenizer=True, token_map=identity(3000), eos_token_id=4000)


@pytest.mark.parametrize("wrong", ["map.safetensors", 5, np.arange(5), [0, 1], object()])
def test_a_token_map_is_a_token_map(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"^token_map: expected a TokenMap"):
        preset("engram-demo-v1", token_map=wrong)


def test_a_token_map_that_lies() -> None:
    lying = Map(range(10))
    lying.size = 11
    with pytest.raises(ValueError, match=r"token_map\.size"):
        preset("engram-demo-v1", token_map=lying)
    lying.size = 0
    with pytest.raises(ValueError, match=r"token_map\.size"):
        preset("engram-demo-v1", token_map=lying)
    lying = Map(range(10))
    lying.digest = "short"
    with pytest.raises(ValueError, match=r"token_map\.digest"):
        preset("engram-demo-v1", token_map=lying)


@pytest.mark.parametrize(("name", "given"), [("onnxruntime", ONNX), ("nanbeige", NANBEIGE), ("engram-peft", PEFT)])
def test_parameters_without_a_default(name: str, given: dict[str, Any]) -> None:
    maps = {"token_map": identity(10)} if name == "engram-peft" else {}
    for field in given:
        if field == "seed":
            continue
        rest = {key: value for key, value in given.items() if key != field}
        with pytest.raises(ValueError, match=rf"^{field}: {name} has no default"):
            HashLayout.preset(name, **maps, **rest)


def test_int32_numbers_have_to_fit() -> None:
    for field, value in [
        ("multipliers", [1, 2, 2**31]),
        ("vocab_sizes", [97, 101, 103, 2**31]),
        ("pad_id", -(2**31) - 1),
        ("eos_token_id", 2**31),
        ("head_offsets", [0, 1, 2, 2**31 - 50]),
    ]:
        refuses(
            "onnxruntime", field, value, int32=True, **({} if field == "multipliers" else {"multipliers": [1, 2, 3]})
        )
    refuses("maxtext-int32", "engram_vocab_size", [2**31 - 1, 2**31 - 1])
    refuses("maxtext-int32", "engram_vocab_size", [2**31, 97])


def test_sizes_past_int32_are_layouts_too() -> None:
    layout = preset("engram-demo-v1", engram_vocab_size=[2**31, 2**31])
    assert int(layout.moduli[1].min()) > 2**31
    assert layout.max_row(False) > 2**31
    largest = preset("onnxruntime", vocab_sizes=[2**63 - 1, 1, 1, 1], head_offsets=[0, 0, 0, 0])
    assert largest.rows[0] == 2**63 - 1


def test_sums_past_int64_are_refused() -> None:
    refuses("engram-demo-v1", "engram_vocab_size", [2**60, 2**60])
    refuses("blt", "encoder_hash_byte_group_vocab", 2**60, encoder_hash_byte_group_nb_functions=2)
    refuses("engram-demo-v1", "layer_ids", range(4096), n_head_per_ngram=64)
