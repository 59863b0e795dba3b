"""Model configurations: recognised wherever the keys stand, equal to the preset, refused by name where they are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from engram_fast import HashLayout
from engram_fast.hf_config import recognise
from layout_tools import identity, preset, token_map

V41 = {
    "engram_layer_ids": [1, 14],
    "engram_num_embeddings": [384006168, 384016682],
    "engram_max_ngram_size": 4,
    "engram_vocab_size": 16000000,
    "engram_n_heads": 8,
    "engram_head_dim": 256,
    "engram_pad_token_id": 2,
    "engram_compressed_vocab_size": 99092,
}
NESTED = {
    "model_type": "deepseek_v41",
    "text_config": {"model_type": "deepseek_v41_text", "vocab_size": 129280, "num_hidden_layers": 43, **V41},
}
QWEN = {
    "model_type": "qwen4_exp",
    "text_config": {
        "model_type": "qwen4_exp_text",
        "vocab_size": 248320,
        "eos_token_id": 248044,
        "ple_layer_ids": [2],
        "ple_embed_dim": 2560,
        "ngram_size": 3,
        "heads_per_ngram": 8,
        "ngram_vocab_size_base": 20000000,
        "make_ngram_vocab_size_divisible_by": 128,
        "seed": 1234,
        "num_hidden_layers": 40,
    },
}
LONGCAT = {
    "model_type": "longcat_flash_ngram",
    "vocab_size": 131072,
    "ngram_vocab_size_ratio": 78,
    "emb_neighbor_num": 4,
    "emb_split_num": 4,
    "eos_token_id": 2,
}
BLT = {
    "model_type": "blt",
    "vocab_size": 260,
    "encoder_hash_byte_group_nb_functions": 1,
    "encoder_hash_byte_group_size": [3, 4, 5, 6, 7, 8],
    "encoder_hash_byte_group_vocab": 500002,
}


def without(config: dict, *names: str) -> dict:
    return {key: value for key, value in config.items() if key not in names}


FORMS = [
    ("deepseek-v4.1", NESTED),
    ("deepseek-v4.1", {"model_type": "deepseek_v41", **V41}),
    ("deepseek-v4.1", V41),
    ("deepseek-v4.1", {"text_config": without(V41, "engram_pad_token_id") | {"engram_pad_id": 2}}),
    ("deepseek-v4.1", V41 | {"engram_pad_id": 2}),
    ("deepseek-v4.1", without(V41, "engram_num_embeddings", "engram_compressed_vocab_size", "engram_head_dim")),
    ("qwen-ple", QWEN),
    ("qwen-ple", QWEN["text_config"]),
    ("qwen-ple", {"model_type": "qwen4_exp", "ple_layer_ids": [2, 2], "eos_token_id": [248044, 248046]}),
    ("longcat", LONGCAT),
    ("longcat", without(LONGCAT, "model_type")),
    ("longcat", LONGCAT | {"eos_token_id": [2], "ngram_vocab_size_ratio": 78.0}),
    (
        "longcat",
        {
            "model_type": "longcat",
            "vocab_size": 131072,
            "oe_vocab_size_ratio": 78,
            "oe_neighbor_num": 4,
            "oe_split_num": 4,
            "eos_token_id": 2,
        },
    ),
    ("longcat", LONGCAT | {"oe_neighbor_num": 4, "ngram_exclude_sp_token": False}),
    ("blt", BLT),
    ("blt", {"model_type": "blt"}),
    ("blt", {"model_type": "blt", "encoder_hash_byte_group_size": None}),
]


@pytest.mark.parametrize(("name", "config"), FORMS)
def test_a_configuration_is_its_preset(name: str, config: dict, tmp_path: Path) -> None:
    compress = token_map("v4") if name == "deepseek-v4.1" else None
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    for source in (config, file, str(file), tmp_path, str(tmp_path)):
        layout = HashLayout.from_hf_config(source, token_map=compress)
        assert type(layout) is HashLayout
        assert layout == preset(name)
        assert layout.digest == preset(name).digest
        assert layout.name == name
    assert recognise(config).preset == name


def test_it_says_what_it_recognised() -> None:
    found = recognise(NESTED)
    assert (found.preset, found.model_type, found.section) == ("deepseek-v4.1", "deepseek_v41", "text_config")
    assert found.describe() == "recognised as deepseek_v41 (under text_config), layout deepseek-v4.1"
    assert recognise(V41).describe() == "recognised as deepseek_v41, layout deepseek-v4.1"
    with pytest.raises(ValueError, match=r"^token_map: .*recognised as deepseek_v41 \(under text_config\)"):
        HashLayout.from_hf_config(NESTED)


def test_every_ple_layer_of_qwen() -> None:
    text = QWEN["text_config"] | {"ple_layer_ids": [6, 2, 10]}
    layout = HashLayout.from_hf_config(text)
    assert layout.layer_ids == (2, 6, 10)
    assert layout == preset("qwen-ple", layer_id=[2, 6, 10], ple_layer_index=[0, 1, 2])


def test_longcat_two_and_nanbeige() -> None:
    two = {"vocab_size": 163840, "oe_vocab_size_ratio": 100.567, "oe_neighbor_num": 5, "oe_split_num": 4}
    layout = HashLayout.from_hf_config(two | {"eos_token_id": 2})
    assert layout.moduli[0][0] == int(100.567 * 163840) + 1
    nanbeige = without(LONGCAT, "model_type") | {"model_type": "nanbeige", "ngram_compressed_tokenizer": True}
    layout = HashLayout.from_hf_config(nanbeige, token_map=identity(131072))
    assert (layout.name, layout.token_map_length) == ("nanbeige", 131072)


def test_the_transformers_classes() -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    assert HashLayout.from_hf_config(transformers.BltConfig()) == preset("blt")
    if hasattr(transformers, "Qwen4ExpConfig"):
        text = {"ple_layer_ids": [2], "eos_token_id": 248044, "hidden_size": 2048}
        config = transformers.Qwen4ExpConfig(text_config=text)
        assert HashLayout.from_hf_config(config) == preset("qwen-ple")


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (V41 | {"engram_pad_id": 3}, "engram_pad_id"),
        (without(V41, "engram_pad_token_id"), "engram_pad_token_id or engram_pad_id"),
        (without(V41, "engram_n_heads"), "engram_n_heads"),
        ({"model_type": "deepseek_v41"}, "engram_layer_ids"),
        (V41 | {"engram_layer_ids": []}, "engram_layer_ids: no layers"),
        (V41 | {"engram_num_embeddings": [384006168, 384016681]}, "engram_num_embeddings"),
        (V41 | {"engram_compressed_vocab_size": 98627}, "engram_compressed_vocab_size"),
        (V41 | {"engram_vocab_size": -1}, "engram_vocab_size"),
        (V41 | {"engram_pad_token_id": 129280}, "engram_pad_token_id"),
        (QWEN["text_config"] | {"ple_layer_ids": []}, "ple_layer_ids: no layers"),
        (QWEN["text_config"] | {"ple_layer_ids": None}, "ple_layer_ids: no layers"),
        (QWEN["text_config"] | {"ple_layer_ids": [0]}, "ple_layer_ids"),
        (QWEN["text_config"] | {"eos_token_id": None}, "eos_token_id"),
        (QWEN["text_config"] | {"eos_token_id": []}, "eos_token_id"),
        (QWEN["text_config"] | {"eos_token_id": 2**63}, "eos_token_id"),
        (LONGCAT | {"oe_neighbor_num": 5}, "oe_neighbor_num"),
        (LONGCAT | {"ngram_exclude_sp_token": True}, "ngram_exclude_sp_token"),
        (LONGCAT | {"eos_token_id": [2, 131072]}, "eos_token_id"),
        (LONGCAT | {"eos_token_id": []}, "eos_token_id"),
        (without(LONGCAT, "emb_split_num"), "emb_split_num or oe_split_num"),
        (LONGCAT | {"model_type": "nanbeige", "emb_neighbor_num": None}, "emb_neighbor_num"),
        (BLT | {"encoder_hash_byte_group_size": [5, 4]}, "encoder_hash_byte_group_size"),
        ({"model_type": "llama"}, "'llama' .*deepseek_v41.*qwen4_exp.*longcat.*blt"),
        ({}, "looked for"),
    ],
)
def test_wrong_configurations(config: dict, named: str) -> None:
    compress = token_map("v4") if "engram_layer_ids" in config else None
    with pytest.raises((ValueError, TypeError), match=named):
        HashLayout.from_hf_config(config, token_map=compress)


def test_wrong_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such configuration"):
        HashLayout.from_hf_config(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such configuration"):
        HashLayout.from_hf_config("somebody/some-model")
    file = tmp_path / "config.json"
    for content in (b"", b"{", b"\xff\xfe", b"[1]", b"[" * 200_000):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"config\.json"):
            HashLayout.from_hf_config(file)
    for wrong in (None, 5, [V41]):
        with pytest.raises(TypeError, match="configuration"):
            HashLayout.from_hf_config(wrong)
