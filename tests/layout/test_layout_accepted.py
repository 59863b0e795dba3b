"""Configurations and parameters that people have: accepted as each model's own implementation reads them."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections import OrderedDict, namedtuple
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engram_fast import EngramConfig, HashLayout, NgramHasher, TokenMap, reference
from engram_fast.layout.check import check_layout, describe_config
from layout_tools import NANBEIGE, ONNX, PEFT, hash_row, identity, preset, token_map
from test_layout_hf_config import LONGCAT, NESTED, QWEN, V41

QWEN_TEXT = QWEN["text_config"]
SMALL_QWEN = {"vocab_size": 100, "ngram_vocab_size_base": 97, "heads_per_ngram": 2}
IDS = np.random.default_rng(0).integers(0, 100, (2, 40))


def document(layout: HashLayout) -> dict[str, Any]:
    """The layout's numbers as the reference has them."""
    read = json.loads(layout.to_json())
    return {key: value for key, value in read.items() if key not in ("format", "version", "name", "parameters")}


# ---- an EOS outside the vocabulary, several EOS ids -----------------------------------------------------------------


@pytest.mark.parametrize("eos", [100, 248044, -1, 2**62])
def test_an_eos_outside_the_vocabulary_turns_the_rule_off_as_in_transformers(eos: int) -> None:
    layout = HashLayout.preset("qwen-ple", **SMALL_QWEN, eos_token_id=eos)
    assert layout.boundary_ids == ()
    assert layout.fill == eos
    assert document(layout) == reference.preset("qwen-ple", **SMALL_QWEN, eos_token_id=eos)
    assert HashLayout.preset("qwen-ple", **layout.parameters) == layout
    torch = pytest.importorskip("torch", reason="needs torch")
    modeling = pytest.importorskip("transformers.models.qwen4_exp.modeling_qwen4_exp", reason="needs qwen4_exp")
    configuration = pytest.importorskip("transformers.models.qwen4_exp.configuration_qwen4_exp")
    values = SMALL_QWEN | {"eos_token_id": eos, "ple_layer_ids": [2], "hidden_size": 8}
    module = modeling.Qwen4ExpTextNGramEmbedding(configuration.Qwen4ExpTextConfig(**values), 8, layer_idx=1)
    table = torch.arange(module.ngram_embedding.num_embeddings, dtype=torch.float64)
    module.ngram_embedding = torch.nn.Embedding.from_pretrained(table[:, None])
    published = module(torch.from_numpy(IDS), None).numpy().astype(np.int64)
    assert np.array_equal(NgramHasher(layout).hash_batch(IDS, dtype=np.int64)[0], published)


def test_a_configuration_with_an_eos_outside_the_vocabulary() -> None:
    layout = HashLayout.from_hf_config(QWEN_TEXT | {"eos_token_id": 248320})
    assert (layout.boundary_ids, layout.fill) == ((), 248320)


def test_the_default_eos_does_not_fit_another_vocabulary() -> None:
    with pytest.raises(ValueError, match=r"^eos_token_id: the released model's, 248044, is not below vocab_size 100"):
        HashLayout.preset("qwen-ple", **SMALL_QWEN)


@pytest.mark.parametrize("name", ["longcat", "nanbeige"])
def test_every_id_of_a_list_of_eos_ids_ends_the_look_back(name: str) -> None:
    layout = preset(name, eos_token_id=[7, 2, 7])
    assert layout.boundary_ids == (2, 7)
    assert layout == preset(name, eos_token_id=np.array([2, 7])) == preset(name).with_boundary(7)
    given = {**(NANBEIGE if name == "nanbeige" else {}), "eos_token_id": [7, 2]}
    assert document(layout) == reference.preset(name, **given)
    ids = np.where(IDS % 5 == 0, 7, IDS)
    ids = np.where(IDS % 7 == 0, 2, ids)
    rows = NgramHasher(layout).hash_batch(ids)[0]
    assert all(np.array_equal(rows[b], hash_row(layout, 0, ids[b])) for b in range(2))
    assert preset(name, **layout.parameters) == layout


def test_a_longcat_configuration_with_several_eos_ids() -> None:
    assert HashLayout.from_hf_config(LONGCAT | {"eos_token_id": [2, 3]}).boundary_ids == (2, 3)


# ---- tables with more rows than their primes ------------------------------------------------------------------------


def test_v41_tables_may_have_more_rows_than_their_primes() -> None:
    small = {"engram_vocab_size": 20, "engram_n_heads": 2, "engram_compressed_vocab_size": 1000}
    small |= {"token_map": identity(1000), "engram_head_dim": 8}
    exact = preset("deepseek-v4.1", **small, engram_num_embeddings=None)
    assert all(rows < 700 for rows in exact.rows.values())
    layout = preset("deepseek-v4.1", **small, engram_num_embeddings=[700, 700])
    assert layout.rows == {1: 700, 14: 700}
    assert all(np.array_equal(layout.moduli[k], exact.moduli[k]) for k in (1, 14))
    assert all(np.array_equal(layout.offsets[k], exact.offsets[k]) for k in (1, 14))
    assert layout.max_row(True) == exact.max_row(True) < 700
    given = {name: value for name, value in small.items() if name != "token_map"}
    oracle = reference.preset("deepseek-v4.1", lookup=np.arange(1000), **given, engram_num_embeddings=[700, 700])
    assert document(layout) == oracle
    with pytest.raises(ValueError, match=r"^engram_num_embeddings: 100 for layer 14, but its primes add up to"):
        preset("deepseek-v4.1", **small, engram_num_embeddings=[700, 100])


def test_a_v41_configuration_with_padded_tables_has_no_finding() -> None:
    config = V41 | {"engram_num_embeddings": [384006200, 384016700]}
    assert HashLayout.from_hf_config(config, token_map=token_map("v4")).rows == {1: 384006200, 14: 384016700}
    assert check_layout(config, token_map=token_map("v4")) == []


def test_the_released_rows_do_not_fit_a_smaller_table() -> None:
    with pytest.raises(ValueError, match=r"^engram_num_embeddings: 384006168 for layer 1, but its primes add up to"):
        preset("deepseek-v4.1", engram_vocab_size=1000)


# ---- configuration objects of any kind ------------------------------------------------------------------------------

Plain = dataclasses.make_dataclass("Plain", [(name, Any) for name in QWEN_TEXT])
Named = namedtuple("Named", list(QWEN_TEXT))


class WithToDict:
    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def to_dict(self) -> dict[str, Any]:
        return self._values


class Dumped(WithToDict):
    to_dict = None

    def model_dump(self) -> dict[str, Any]:
        return self._values


class Slots:
    __slots__ = tuple(QWEN_TEXT)

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self, name, value)


def class_with_defaults(values: dict[str, Any]) -> Any:
    return type("Config", (), {**values, "forward": lambda self: None})()


KINDS = {
    "dict": dict,
    "ordered dict": OrderedDict,
    "mapping proxy": MappingProxyType,
    "to_dict": WithToDict,
    "model_dump": Dumped,
    "dataclass": lambda values: Plain(**values),
    "named tuple": lambda values: Named(**values),
    "simple namespace": lambda values: SimpleNamespace(**values),
    "argparse namespace": lambda values: argparse.Namespace(**values),
    "slots": lambda values: Slots(**values),
    "class with defaults": class_with_defaults,
}


@pytest.mark.parametrize("kind", KINDS)
def test_configuration_objects_of_any_kind(kind: str) -> None:
    config = KINDS[kind](QWEN_TEXT)
    assert HashLayout.from_hf_config(config) == preset("qwen-ple")
    for nested in ({"model_type": "qwen4_exp", "text_config": config}, SimpleNamespace(text_config=config)):
        assert HashLayout.from_hf_config(nested) == preset("qwen-ple")
        assert describe_config(nested).endswith("(under text_config), layout qwen-ple")
        assert check_layout(nested, token_map=identity(248320)) == []


def test_the_demos_configurations_are_configuration_objects() -> None:
    config = {"engram": EngramConfig(engram_vocab_size=[97, 97], pad_id=3), "backbone": {"vocab_size": 1000}}
    assert describe_config(config).endswith("layout engram-demo-v1")
    assert check_layout(config, token_map=identity(1000)) == []


def test_a_transformers_configuration_with_a_nested_section() -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    config = transformers.PretrainedConfig(**{**V41, "text_config": None})
    assert HashLayout.from_hf_config(config, token_map=token_map("v4")) == preset("deepseek-v4.1")
    nested = SimpleNamespace(text_config=transformers.PretrainedConfig(**NESTED["text_config"]))
    assert HashLayout.from_hf_config(nested, token_map=token_map("v4")) == preset("deepseek-v4.1")


@pytest.mark.parametrize("wrong", [None, 5, 2.5, [V41], (1, 2), {1}, object(), SimpleNamespace, len, b"{}"], ids=repr)
def test_objects_that_are_no_configuration(wrong: Any) -> None:
    with pytest.raises((TypeError, FileNotFoundError), match="configuration"):
        HashLayout.from_hf_config(wrong)


# ---- orders up to 16, tensors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", range(9, 17))
@pytest.mark.parametrize("name", ["engram-demo-v1", "megatron", "tilekernels", "maxtext-int32", "deepseek-v4.1"])
def test_presets_take_orders_up_to_16(name: str, order: int) -> None:
    if name == "deepseek-v4.1":
        given = {"engram_max_ngram_size": order, "engram_vocab_size": 50, "engram_n_heads": 2}
        given |= {"engram_num_embeddings": None, "engram_compressed_vocab_size": 1000}
    else:
        given = {"max_ngram_size": order, "engram_vocab_size": [50] * (order - 1), "n_head_per_ngram": 2}
    compress = TokenMap.identity(1000)
    layout = HashLayout.preset(name, token_map=compress, **given)
    assert layout.orders == tuple(range(2, order + 1))
    assert document(layout) == reference.preset(name, lookup=compress.lookup, **given)
    rows = NgramHasher(layout, compress).hash_batch(IDS)
    oracle = reference.hash_rows(document(layout), IDS, lookup=compress.lookup)
    assert np.array_equal(rows, oracle)


def test_the_demos_configuration_takes_orders_up_to_16() -> None:
    config = EngramConfig(max_ngram_size=16, engram_vocab_size=[97] * 15)
    assert HashLayout.preset("engram-demo-v1", token_map=identity(100), **config.hash_parameters()).max_order == 16


def test_tensors_are_parameter_lists() -> None:
    torch = pytest.importorskip("torch", reason="needs torch")

    def tensors(values: dict[str, Any]) -> dict[str, Any]:
        return {name: torch.tensor(value) if isinstance(value, list) else value for name, value in values.items()}

    assert preset("onnxruntime", **tensors(ONNX)) == preset("onnxruntime")
    assert preset("engram-peft", **tensors(PEFT)) == preset("engram-peft")
    sizes = torch.tensor([101, 103], dtype=torch.int32)
    demo = {"engram_vocab_size": sizes, "layer_ids": torch.tensor([15, 1]), "pad_id": torch.tensor(3)}
    assert preset("engram-demo-v1", **demo) == preset(
        "engram-demo-v1", engram_vocab_size=[101, 103], layer_ids=[15, 1], pad_id=3
    )
    items = {"engram_vocab_size": list(sizes), "layer_ids": tuple(torch.tensor([15, 1]))}
    assert preset("engram-demo-v1", **items) == preset(
        "engram-demo-v1", engram_vocab_size=[101, 103], layer_ids=[15, 1]
    )
    layer_ids = torch.tensor([2, 6])
    assert preset("qwen-ple", layer_id=layer_ids, ple_layer_index=torch.tensor([0, 1])) == preset(
        "qwen-ple", layer_id=[2, 6], ple_layer_index=[0, 1]
    )
    assert preset("longcat").with_boundary(torch.tensor([5, 7])).boundary_ids == (2, 5, 7)
    assert preset("longcat").with_boundary(torch.tensor(5)).boundary_ids == (2, 5)
    config = EngramConfig(engram_vocab_size=sizes, layer_ids=torch.tensor([15, 1]))
    assert (config.engram_vocab_size, config.layer_ids) == ([101, 103], [15, 1])


def test_tensors_that_are_no_lists_of_integers() -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    wrong = [torch.ones(2), torch.ones(2, dtype=torch.bool), torch.tensor(5), torch.ones((2, 2), dtype=torch.int64)]
    wrong += [torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.int64, device="meta")]
    for values in wrong:
        with pytest.raises(TypeError, match=r"^layer_ids\b"):
            preset("engram-demo-v1", layer_ids=values)
    with pytest.raises(TypeError, match="the tensor is on meta; move it to the CPU first"):
        preset("engram-demo-v1", layer_ids=wrong[-1])
    for value in (torch.tensor(2.0), torch.tensor(True), torch.tensor([2])):
        with pytest.raises(TypeError, match=r"^pad_id\b"):
            preset("engram-demo-v1", pad_id=value)


# ---- LongCat's special tokens ---------------------------------------------------------------------------------------


def test_longcats_special_tokens_are_refused_with_a_mask_that_gives_the_published_rows() -> None:
    config = LONGCAT | {"vocab_size": 60, "ngram_vocab_size_ratio": 3.5, "ngram_exclude_sp_token": True}
    config |= {"special_token_scope": "0:4,36:55"}
    with pytest.raises(ValueError, match=r"^ngram_exclude_sp_token: .*mask=.*'0:4,36:55'"):
        HashLayout.from_hf_config(config)
    layout = HashLayout.from_hf_config(config | {"ngram_exclude_sp_token": False})
    special = [*range(4), *range(36, 55)]
    ids = np.random.default_rng(1).integers(0, 60, 200)
    rows = NgramHasher(layout).hash_batch(ids, mask=~np.isin(ids, special))[0]
    moduli = layout.moduli[0].tolist()
    clean = [0] * 3 + [0 if token in special else int(token) for token in ids]
    for t, row in enumerate(rows.tolist()):
        # The published rule: a special token counts 0, and nothing at or before a 0 is read.
        window = clean[t : t + 4][::-1]
        for column, (order, modulus) in enumerate(zip(layout.column_orders, moduli, strict=True)):
            reach = [window[d] * 60**d for d in range(1, order) if all(window[: d + 1])]
            assert row[column] == (window[0] + sum(reach)) % modulus
