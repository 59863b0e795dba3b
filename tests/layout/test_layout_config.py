"""`EngramConfig`, `BackBoneConfig`, `load_config` and the check of a configuration against its tokenizer."""

from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engram_fast import BackBoneConfig, EngramConfig, HashLayout, load_config
from engram_fast.layout_check import check_layout, describe_config
from layout_tools import Map, identity, token_map
from test_layout_hf_config import BLT, LONGCAT, NESTED, QWEN, V41, without


def test_defaults_are_the_demos() -> None:
    assert dataclasses.asdict(EngramConfig()) == {
        "tokenizer_name_or_path": "deepseek-ai/DeepSeek-V3",
        "engram_vocab_size": [646400, 646400],
        "max_ngram_size": 3,
        "n_embed_per_ngram": 512,
        "n_head_per_ngram": 8,
        "layer_ids": [1, 15],
        "pad_id": 2,
        "seed": 0,
        "kernel_size": 4,
    }
    backbone = {"hidden_size": 1024, "hc_mult": 4, "vocab_size": 129280, "num_layers": 30}
    assert dataclasses.asdict(BackBoneConfig()) == backbone


def test_configurations_are_frozen_copies() -> None:
    layers = [1, 15]
    config = EngramConfig(layer_ids=layers, engram_vocab_size=np.array([97, 101]))
    layers.append(3)
    assert config.layer_ids == [1, 15]
    assert config.engram_vocab_size == [97, 101]
    assert pickle.loads(pickle.dumps(config)) == config == dataclasses.replace(config)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 1
    compress = identity(100)
    layout = HashLayout.preset("engram-demo-v1", token_map=compress, **config.hash_parameters())
    assert layout == HashLayout.preset("engram-demo-v1", token_map=compress, engram_vocab_size=[97, 101])


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("tokenizer_name_or_path", "", ValueError),
        ("tokenizer_name_or_path", None, TypeError),
        ("engram_vocab_size", [97], ValueError),
        ("engram_vocab_size", [97, 0], ValueError),
        ("engram_vocab_size", 97, TypeError),
        ("max_ngram_size", 1, ValueError),
        ("max_ngram_size", 17, ValueError),
        ("max_ngram_size", 3.0, TypeError),
        ("n_embed_per_ngram", 0, ValueError),
        ("n_embed_per_ngram", 509, ValueError),
        ("n_head_per_ngram", 0, ValueError),
        ("n_head_per_ngram", True, TypeError),
        ("layer_ids", [], ValueError),
        ("layer_ids", [1, 1], ValueError),
        ("layer_ids", [-1], ValueError),
        ("pad_id", -1, ValueError),
        ("seed", -1, ValueError),
        ("seed", "0", TypeError),
        ("kernel_size", 0, ValueError),
    ],
)
def test_wrong_engram_fields(field: str, value: Any, kind: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(kind, match=rf"^{field}\b"):
        EngramConfig(**{field: value})
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"engram": {field: value}}))
    with pytest.raises(kind, match=rf"c\.json: engram\.{field}\b"):
        load_config(file)


@pytest.mark.parametrize("field", ["hidden_size", "hc_mult", "vocab_size", "num_layers"])
def test_wrong_backbone_fields(field: str) -> None:
    with pytest.raises(ValueError, match=rf"^{field}: 0 is below 1"):
        BackBoneConfig(**{field: 0})
    with pytest.raises(TypeError, match=rf"^{field}"):
        BackBoneConfig(**{field: 1.5})


def test_one_file_for_both(tmp_path: Path) -> None:
    file = tmp_path / "engram_config.json"
    engram = {"tokenizer_name_or_path": "tok", "layer_ids": [0, 3], "engram_vocab_size": [97, 101], "seed": 5}
    file.write_text(json.dumps({"engram": engram, "backbone": {"num_layers": 6}}), encoding="utf-8")
    assert load_config(file) == load_config(str(file)) == (EngramConfig(**engram), BackBoneConfig(num_layers=6))
    file.write_text("{}", encoding="utf-8")
    assert load_config(file) == (EngramConfig(), BackBoneConfig())


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ('{"engram": {"layer_id": [1]}}', r"engram\.layer_id: unknown; there are .*layer_ids"),
        ('{"backbone": {"layers": 1}}', r"backbone\.layers: unknown; there are hidden_size"),
        ('{"engine": {}}', "engine: unknown; there are engram, backbone"),
        ('{"engram": []}', "engram: expected an object"),
        ('{"engram": null}', "engram: expected an object"),
        ('{"engram": {"seed": 1, "seed": 2}}', "seed: given twice"),
        ("[]", "expected an object"),
        ("", r"c\.json"),
        ('{"engram": {"pad_id": NaN}}', r"engram\.pad_id"),
    ],
)
def test_wrong_files(content: str, named: str, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(content)
    with pytest.raises((ValueError, TypeError), match=named):
        load_config(file)
    with pytest.raises(FileNotFoundError):
        load_config(tmp_path / "missing.json")


def test_released_configurations_have_no_findings() -> None:
    released = NESTED | {"text_config": NESTED["text_config"] | {"pad_token_id": 2}}
    findings = check_layout(released, token_map=token_map("v4"))
    assert findings == []
    assert check_layout(QWEN, token_map=identity(248320)) == []
    assert check_layout(LONGCAT, tokenizer_length=131072) == []
    assert check_layout(BLT) == []


@pytest.mark.parametrize(
    ("config", "compress", "finding"),
    [
        (V41, "v3", "engram_compressed_vocab_size is 99092, but the tokenizer compresses to 98627 ids"),
        (
            V41 | {"vocab_size": 129280},
            "v3",
            "the tokenizer has 128815 ids, but vocab_size is 129280: ids 128815 to 129279",
        ),
        (V41 | {"vocab_size": 128000}, "v4", "ids from 128000 on have no embedding"),
        (
            V41 | {"engram_num_embeddings": [384006168, 5]},
            "v4",
            "the primes of each layer add up to [384006168, 384016682]",
        ),
        (V41 | {"engram_layer_ids": [14, 1]}, "v4", None),
        (V41 | {"pad_token_id": 1}, "v4", "engram_pad_token_id is 2, but the model's pad_token_id is 1"),
        (
            V41 | {"engram_pad_token_id": 129280},
            "v4",
            "engram_pad_token_id is 129280, outside the token map of 129280 ids",
        ),
        (
            V41 | {"num_hidden_layers": 14},
            "v4",
            "has [14], but 14 layers counted from 0 end at 13 (does it count from 1?)",
        ),
        (V41 | {"engram_vocab_size": 10**8}, "v4", "past int32"),
        (
            QWEN["text_config"] | {"num_hidden_layers": 1},
            None,
            "ple_layer_ids has [2], but 1 layers counted from 1 end at 1",
        ),
    ],
)
def test_each_finding_is_a_sentence(config: dict, compress: str | None, finding: str | None) -> None:
    findings = check_layout(config, token_map=token_map(compress) if compress else None)
    assert all(sentence.endswith(".") for sentence in findings)
    assert (finding is None and not findings) or any(finding and finding in sentence for sentence in findings), findings


def test_a_pad_that_shares_its_compressed_id() -> None:
    config = {"engram": {"engram_vocab_size": [97, 97], "pad_id": 3}, "backbone": {"vocab_size": 4, "num_layers": 20}}
    assert check_layout(config, token_map=identity(4)) == []
    (finding,) = check_layout(config, token_map=Map([0, 1, 1, 1]))
    assert finding.startswith("pad_id 3 has the compressed id 1 in common with id 1 and 1 more")
    (finding,) = check_layout(config, token_map=identity(3), tokenizer_length=4)
    assert finding == "pad_id is 3, outside the token map of 3 ids."
    config["backbone"]["num_layers"] = 15
    (finding,) = check_layout(config, token_map=identity(4))
    assert finding.startswith("layer_ids has [15], but 15 layers counted from 0 end at 14 (does it count from 1?)")


def test_it_says_what_the_configuration_is() -> None:
    assert describe_config(NESTED).startswith("recognised as deepseek_v41")
    assert describe_config({"engram": {}}).endswith("layout engram-demo-v1")
    with pytest.raises(ValueError, match="looked for"):
        check_layout({"model_type": "llama"})
    for field in ("engram_layer_ids", "engram_num_embeddings"):
        with pytest.raises(TypeError, match=field):
            check_layout(V41 | {field: 5}, token_map=token_map("v4"))
    with pytest.raises(ValueError, match="token_map"):
        check_layout(without(V41, "engram_head_dim"))
