"""Every preset against what the published implementations gave: multipliers, moduli, offsets, rows by definition."""

from __future__ import annotations

import layout_tools as tools
import numpy as np
import pytest
from engram_fast import HashLayout
from layout_tools import golden, token_map

ODD = {
    "engram_vocab_size": [1009, 5003, 70001],
    "max_ngram_size": 4,
    "n_head_per_ngram": 5,
    "layer_ids": [15, 1, 3],
    "pad_id": 11,
    "seed": 7,
}


@pytest.mark.parametrize(
    ("name", "version", "overrides", "fill"),
    [
        ("demo_v1_deepseek_v3", "v3", {}, 2),
        ("demo_v1_deepseek_v4", "v4", {}, 2),
        ("demo_v1_odd_shape", "v3", ODD, 11),
        ("demo_v1_pad_moves", "v4", {"pad_id": 128814}, 98626),
    ],
)
def test_demo(name: str, version: str, overrides: dict, fill: int) -> None:
    arrays, compress = golden(name), token_map(version)
    layout = HashLayout.preset("engram-demo-v1", token_map=compress, **overrides)
    assert layout.fill == fill
    assert not layout.adds_offsets
    ids = arrays.get("input_ids_with_negatives", arrays["input_ids"])
    for layer in layout.layer_ids:
        assert np.array_equal(layout.multipliers[layer], arrays[f"multipliers_layer{layer}"])
        assert np.array_equal(layout.moduli[layer], arrays[f"moduli_layer{layer}"].ravel())
        want = arrays.get(f"hash_negatives_layer{layer}", arrays[f"hash_layer{layer}"])
        for row in (0, len(ids) - 1):
            assert np.array_equal(tools.hash_row(layout, layer, ids[row], compress.lookup), want[row])
    for port in ("megatron", "tilekernels"):
        other = HashLayout.preset(port, token_map=compress, **overrides)
        assert all(np.array_equal(other.multipliers[k], layout.multipliers[k]) for k in layout.layer_ids)
        assert all(np.array_equal(other.moduli[k], layout.moduli[k]) for k in layout.layer_ids)
        assert other.fill == fill
        assert other.adds_offsets == (port == "tilekernels")
        assert other.negative_ids == "error"
        assert other != layout


def test_compressed_sizes_of_the_token_maps() -> None:
    assert (len(token_map("v3")), token_map("v3").size) == (128815, 98627)
    assert (len(token_map("v4")), token_map("v4").size) == (129280, 99092)


def test_deepseek_v41() -> None:
    arrays, compress = golden("deepseek_v41"), token_map("v4")
    layout = HashLayout.preset("deepseek-v4.1", token_map=compress)
    assert layout.adds_offsets
    assert layout.rows == {1: 384006168, 14: 384016682}
    for index, layer in enumerate(layout.layer_ids):
        assert np.array_equal(layout.multipliers[layer], arrays["multipliers"][index])
        assert np.array_equal(layout.moduli[layer], arrays["moduli"][index])
        assert np.array_equal(layout.offsets[layer], arrays["offsets"][index])
        for row in (0, 3):
            rows = tools.hash_row(layout, layer, arrays["input_ids"][row], compress.lookup) + layout.offsets[layer]
            assert np.array_equal(rows, arrays["rows"][row, :, index])


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("qwen_ple", {}),
        (
            "qwen_ple_small",
            {
                "vocab_size": 1000,
                "seed": 5,
                "ngram_vocab_size_base": 5000,
                "eos_token_id": 7,
                "ngram_size": 4,
                "heads_per_ngram": 3,
                "ple_layer_index": 1,
            },
        ),
    ],
)
def test_qwen(name: str, overrides: dict) -> None:
    arrays, layout = golden(name), HashLayout.preset("qwen-ple", **overrides)
    assert np.array_equal(layout.multipliers[2], arrays["multipliers"])
    assert np.array_equal(layout.moduli[2], arrays["moduli"])
    assert np.array_equal(layout.offsets[2], arrays["offsets"])
    assert layout.rows[2] % 128 == 0
    assert layout.rows[2] - int(arrays["total_rows"]) in range(128)
    for ids, rows in zip(arrays["input_ids"], arrays["rows"], strict=True):
        assert np.array_equal(tools.hash_row(layout, 2, ids) + layout.offsets[2], rows)


def test_longcat() -> None:
    arrays, layout = golden("longcat"), HashLayout.preset("longcat")
    assert np.array_equal(layout.moduli[0], arrays["moduli"])
    for ids, rows in zip(arrays["input_ids"], arrays["bucket_ids"], strict=True):
        assert np.array_equal(tools.hash_row(layout, 0, ids), rows)


def test_nanbeige() -> None:
    arrays, layout = golden("nanbeige"), tools.preset("nanbeige")
    for ids, rows in zip(arrays["input_ids"], arrays["bucket_ids"], strict=True):
        assert np.array_equal(tools.hash_row(layout, 0, ids), rows)


def test_nanbeige_compressed() -> None:
    arrays, compress = golden("nanbeige_compressed"), token_map("v4")
    layout = HashLayout.preset(
        "nanbeige",
        token_map=compress,
        vocab_size=129280,
        ngram_vocab_size_ratio=2,
        emb_neighbor_num=3,
        emb_split_num=3,
        eos_token_id=1000,
        ngram_mod_force_prime=False,
        ngram_compressed_tokenizer=True,
    )
    for ids, rows in zip(arrays["input_ids"], arrays["bucket_ids"], strict=True):
        assert np.array_equal(tools.hash_row(layout, 0, ids, compress.lookup), rows)


@pytest.mark.parametrize(
    ("name", "functions", "groups", "rows"),
    [("blt", 1, [3, 4, 5, 6, 7, 8], 500002), ("blt_functions", 4, [2, 3, 6], 30000)],
)
def test_blt(name: str, functions: int, groups: list[int], rows: int) -> None:
    arrays = golden(name)
    layout = HashLayout.preset(
        "blt",
        encoder_hash_byte_group_nb_functions=functions,
        encoder_hash_byte_group_size=groups,
        encoder_hash_byte_group_vocab=rows,
    )
    assert (layout.orders, layout.heads) == (tuple(groups), functions)
    for ids, want in zip(arrays["input_ids"], arrays["rows"], strict=True):
        assert np.array_equal(tools.hash_row(layout, 0, ids) + layout.offsets[0], want)


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        (
            "engram_peft",
            {"engram_vocab_size_per_ngram": [1131200, 1131200], "ngram_sizes": [2, 3], "layer_ids": [1, 14]},
        ),
        ("engram_peft_orders", tools.PEFT | {"n_head_per_ngram": 4}),
    ],
)
def test_engram_peft(name: str, overrides: dict) -> None:
    arrays = golden(name)
    # The ids are compressed already, so the map is the identity on the compressed ids.
    layout = HashLayout.preset("engram-peft", token_map=tools.identity(99092), **overrides)
    for layer in layout.layer_ids:
        for ids, want in zip(arrays["compressed_ids"], arrays[f"hash_layer{layer}"], strict=True):
            assert np.array_equal(tools.hash_row(layout, layer, ids), want)


def test_onnxruntime_wrapping() -> None:
    arrays = golden("onnxruntime_wrapping")
    layout = HashLayout.preset(
        "onnxruntime",
        multipliers=arrays["multipliers"],
        vocab_sizes=arrays["moduli"],
        max_ngram_size=3,
        n_head_per_ngram=7,
        pad_id=int(arrays["pad"]),
    )
    assert layout.fill < 0
    for ids, want in zip(arrays["input_ids"], arrays["rows"], strict=True):
        assert np.array_equal(tools.hash_row(layout, 0, ids), want)


@pytest.mark.parametrize("rows", ["rows_plain_pad", "rows_eos_no_reset", "rows_reset_on_eos", "rows_int32_wrapping"])
def test_onnxruntime_boundaries(rows: str) -> None:
    arrays = golden("onnxruntime_boundaries")
    narrow = rows == "rows_int32_wrapping"
    layout = HashLayout.preset(
        "onnxruntime",
        multipliers=arrays["multipliers_int32" if narrow else "multipliers"],
        vocab_sizes=arrays["moduli"],
        max_ngram_size=4,
        n_head_per_ngram=3,
        pad_id=int(arrays["pad"]),
        eos_token_id=None if rows == "rows_plain_pad" else int(arrays["eos"]),
        reset_on_eos=rows in ("rows_reset_on_eos", "rows_int32_wrapping"),
        int32=narrow,
    )
    for ids, want in zip(arrays["input_ids"], arrays[rows], strict=True):
        assert np.array_equal(tools.hash_row(layout, 0, ids), want)


def test_onnxruntime_head_offsets() -> None:
    arrays = golden("onnxruntime_boundaries")
    offsets = arrays["head_offsets"]
    parameters = {"vocab_sizes": arrays["moduli"], "max_ngram_size": 4, "n_head_per_ngram": 3, "pad_id": 1}
    layout = HashLayout.preset("onnxruntime", multipliers=arrays["multipliers"], head_offsets=offsets, **parameters)
    assert layout.adds_offsets
    assert np.array_equal(layout.offsets[0], offsets)
    assert layout.rows[0] == int((offsets + arrays["moduli"]).max())


def test_maxtext_int32() -> None:
    arrays, compress = golden("maxtext_int32"), token_map("v4")
    layout = HashLayout.preset("maxtext-int32", token_map=compress)
    assert layout.word_bits == 32
    for layer in layout.layer_ids:
        assert np.array_equal(layout.multipliers[layer], arrays[f"multipliers_layer{layer}"])
        for ids, want in zip(arrays["input_ids"], arrays[f"hash_layer{layer}"], strict=True):
            assert np.array_equal(tools.hash_row(layout, layer, ids, compress.lookup), want)
