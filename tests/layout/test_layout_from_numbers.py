"""`HashLayout.from_numbers`: the numbers of every preset give its layout again, in every form that people have them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from engram_fast import HashLayout, NgramHasher, TokenMap, presets
from hypothesis import given, settings
from layout_tools import identity, preset, token_map
from strategies import documents

ONE = {"multipliers": [3, 5, 7], "moduli": [101, 103, 107, 109], "orders": [2, 3]}
TWO = {
    "multipliers": [[3, 5, 7], [9, 11, 13]],
    "moduli": [[101, 103, 107, 109], [113, 127, 131, 137]],
    "orders": [2, 3],
}
SUM = {"multipliers": [[3, 5, 0], [7, 9, 11]], "moduli": [101, 103], "orders": [2, 3], "mix": "sum"}


def numbers_of(layout: HashLayout) -> dict[str, Any]:
    """Every number and choice of a layout but its token map, as the layout shows them."""
    names = "multipliers moduli offsets rows layer_ids orders heads mix column_numbering align word_bits fill"
    names += " boundary_ids id_limit negative_ids too_large_ids adds_offsets name"
    return {name: getattr(layout, name) for name in names.split()}


def of_preset(name: str) -> tuple[HashLayout, Any]:
    if name == "deepseek-v4.1":
        return preset(name), token_map("v4")
    layout = preset(name)
    return layout, None if layout.token_map_length is None else identity(1000)


@pytest.mark.parametrize("name", presets())
def test_the_numbers_of_a_preset_give_its_layout_again(name: str) -> None:
    layout, compress = of_preset(name)
    again = HashLayout.from_numbers(**numbers_of(layout), token_map=compress)
    assert type(again) is HashLayout
    assert again == layout
    assert again.digest == layout.digest
    assert again.rows == layout.rows
    assert again.name == name
    for field in ("multipliers", "moduli", "offsets"):
        for layer in layout.layer_ids:
            assert np.array_equal(getattr(again, field)[layer], getattr(layout, field)[layer])


@given(documents())
@settings(max_examples=60)
def test_the_numbers_of_any_layout_give_it_again(drawn: tuple[dict[str, Any], TokenMap | None]) -> None:
    document, compress = drawn
    layout = HashLayout.from_json(json.dumps(document))
    assert HashLayout.from_numbers(**numbers_of(layout), token_map=compress) == layout


@pytest.mark.parametrize("name", presets())
def test_lists_arrays_tensors_and_mappings_are_the_same_numbers(name: str) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    layout, compress = of_preset(name)
    rest = numbers_of(layout) | {"token_map": compress, "rows": list(layout.rows.values())}
    fields = ("multipliers", "moduli", "offsets")
    arrays = {field: [np.array(getattr(layout, field)[layer]) for layer in layout.layer_ids] for field in fields}
    forms = {
        "lists": lambda each: [array.tolist() for array in each],
        "arrays": lambda each: each,
        "tuples": lambda each: tuple(map(tuple, (array.tolist() for array in each))),
        "one array": np.stack,
        "fortran": lambda each: np.asfortranarray(np.stack(each)),
        "tensors": lambda each: [torch.from_numpy(array) for array in each],
        "one tensor": lambda each: torch.from_numpy(np.stack(each)),
        "buffers": lambda each: torch.nn.Buffer(torch.from_numpy(np.stack(each))),
        "mapping of tensors": lambda each: dict(zip(layout.layer_ids, map(torch.from_numpy, each), strict=True)),
    }
    for form, convert in forms.items():
        given = {field: convert(each) for field, each in arrays.items()}
        assert HashLayout.from_numbers(**rest | given) == layout, form
    if len(layout.layer_ids) == 1:
        given = {field: each[0] for field, each in arrays.items()}
        assert HashLayout.from_numbers(**rest | given) == layout, "no axis of layers"


def test_the_defaults() -> None:
    layout = HashLayout.from_numbers(**ONE)
    assert (layout.layer_ids, layout.heads, layout.columns, layout.name) == ((0,), 2, 4, "numbers")
    assert layout.offsets[0].tolist() == [0, 101, 204, 311]
    assert layout.rows == {0: 420}
    assert (layout.mix, layout.align, layout.word_bits, layout.fill) == ("xor", "newest", 64, 0)
    assert (layout.id_limit, layout.negative_ids, layout.too_large_ids) == (None, "error", "enter")
    assert not layout.adds_offsets
    assert HashLayout.from_numbers(**ONE, offsets=[0, 101, 204, 311]).adds_offsets
    assert HashLayout.from_numbers(**ONE, id_limit=9).too_large_ids == "error"
    limited = HashLayout.from_numbers(**ONE, token_map=TokenMap.identity(50))
    assert (limited.id_limit, limited.token_map_length, limited.too_large_ids) == (50, 50, "error")
    assert HashLayout.from_numbers(**TWO).layer_ids == (0, 1)
    assert HashLayout.from_numbers(**TWO, layer_ids=[15, 1]).layer_ids == (15, 1)


def test_several_layers_keep_their_order() -> None:
    mapping = {name: dict(zip([15, 1], TWO[name], strict=True)) for name in ("multipliers", "moduli")}
    layout = HashLayout.from_numbers(**mapping, orders=[2, 3])
    assert layout.layer_ids == (15, 1)
    assert layout == HashLayout.from_numbers(**TWO, layer_ids=[15, 1])
    assert HashLayout.from_numbers(**mapping, orders=[2, 3], layer_ids=[1, 15]).layer_ids == (1, 15)
    rows = {1: 600, 15: 500}
    assert HashLayout.from_numbers(**mapping, orders=[2, 3], rows=rows).rows == {15: 500, 1: 600}
    assert HashLayout.from_numbers(**ONE, rows=500).rows == {0: 500}


def test_a_table_of_moduli_by_order_and_head() -> None:
    flat = HashLayout.from_numbers(**TWO)
    shaped = np.reshape(TWO["moduli"], (2, 2, 2))
    assert HashLayout.from_numbers(**TWO | {"moduli": shaped}) == flat
    assert HashLayout.from_numbers(**ONE | {"moduli": [[101, 103], [107, 109]]}) == HashLayout.from_numbers(**ONE)


def test_the_buffers_of_a_qwen4_checkpoint() -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    modeling = pytest.importorskip("transformers.models.qwen4_exp.modeling_qwen4_exp", reason="needs qwen4_exp")
    configuration = pytest.importorskip("transformers.models.qwen4_exp.configuration_qwen4_exp")
    config = configuration.Qwen4ExpTextConfig(
        vocab_size=1000, ngram_vocab_size_base=500, eos_token_id=7, ple_layer_ids=[1, 2], hidden_size=64
    )
    module = modeling.Qwen4ExpTextNGramEmbedding(config, embedding_dim=64, layer_idx=1, ple_layer_index=1)
    buffers = dict(module.named_buffers())
    layout = HashLayout.from_numbers(
        multipliers=buffers["layer_multipliers"],
        moduli=buffers["ngram_heads_vocab_sizes"],
        offsets=buffers["ngram_heads_offsets"],
        rows=module.ngram_embedding.num_embeddings,
        orders=range(2, config.ngram_size + 1),
        layer_ids=[2],
        fill=7,
        boundary_ids=7,
        id_limit=1000,
    )
    assert layout == HashLayout.preset(
        "qwen-ple", vocab_size=1000, ngram_vocab_size_base=500, eos_token_id=7, ple_layer_index=1
    )
    table = torch.arange(module.ngram_embedding.num_embeddings, dtype=torch.float64)
    module.ngram_embedding = torch.nn.Embedding.from_pretrained(table[:, None])
    ids = torch.randint(0, 1000, (2, 40), generator=torch.Generator().manual_seed(0))
    ids[:, ::9] = 7
    rows = NgramHasher(layout).hash_batch(ids)[0]
    assert np.array_equal(rows, module(ids, None).numpy().astype(np.int64))


WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (ONE, {"multipliers": [3, 5]}, "multipliers: layer 0 has 2 for a window of 3"),
    (ONE, {"multipliers": []}, "multipliers"),
    (ONE, {"multipliers": {}}, "multipliers: no layers"),
    (ONE, {"multipliers": 3}, "multipliers"),
    (ONE, {"multipliers": [[[3, 5, 7]]]}, "multipliers: expected \\[N\\]"),
    (ONE, {"multipliers": [3, 5, 2**63]}, "multipliers"),
    (ONE, {"multipliers": np.array([3, 5, 2**63], dtype=np.uint64)}, "multipliers: 9223372036854775808 is above"),
    (ONE, {"multipliers": [[3, 5, 7], [3, 5]]}, "multipliers"),
    (ONE, {"multipliers": {-1: [3, 5, 7]}}, "multipliers"),
    (ONE, {"multipliers": [3, 5, 2**31], "word_bits": 32}, "multipliers: layer 0: 2147483648"),
    (ONE, {"moduli": [101, 103, 107, 0]}, "moduli: layer 0 has 0"),
    (ONE, {"moduli": [101, 103, 107]}, "moduli: 3 columns do not divide among 2 orders"),
    (ONE, {"moduli": []}, "moduli"),
    (ONE, {"moduli": [2**62] * 4}, "moduli: layer 0 has .* rows, past int64"),
    (ONE, {"moduli": [101, 103, 107, 2**31], "word_bits": 32}, "moduli\\[3\\]: layer 0: 2147483648"),
    (TWO, {"moduli": [101, 103, 107, 109]}, "moduli: the shape \\[4\\] does not fit the 2 layers"),
    (TWO, {"moduli": {0: [101, 103, 107, 109]}}, "moduli: has the layers \\[0\\], expected \\[0, 1\\]"),
    (TWO, {"moduli": [[1] * 4] * 3}, "moduli"),
    (ONE, {"offsets": [0, 1, 2]}, "offsets: layer 0 has 3 numbers for 4 columns"),
    (ONE, {"offsets": [0, 1, 2, -1]}, "offsets: layer 0 has -1"),
    (ONE, {"offsets": [0, 1, 2, 2**63 - 50]}, "offsets: layer 0 has .* past int64"),
    (ONE, {"orders": []}, "orders"),
    (ONE, {"orders": [3, 2]}, "orders: \\[3, 2\\] do not ascend"),
    (ONE, {"orders": [2, 2]}, "orders"),
    (ONE, {"orders": [0, 3]}, "orders"),
    (ONE, {"orders": [2, 17]}, "orders"),
    (ONE, {"heads": 3}, "moduli: layer 0 has 4 columns, but 2 orders of 3 heads are 6"),
    (ONE, {"heads": 0}, "heads"),
    (ONE, {"rows": 419}, "rows: 419 for layer 0, whose columns need 420"),
    (ONE, {"rows": [500, 500]}, "rows: 2 numbers for 1 layers"),
    (TWO, {"rows": 5000}, "rows: 1 numbers for 2 layers"),
    (TWO, {"rows": {0: 5000, 2: 5000}}, "rows"),
    (TWO, {"layer_ids": [1]}, "layer_ids: 1 ids"),
    (TWO, {"layer_ids": [1, 1]}, "layer_ids: layer 1 occurs twice"),
    (TWO, {"layer_ids": [-1, 1]}, "layer_ids"),
    (ONE, {"mix": "and"}, "mix: 'and' is not one of xor, sum"),
    (ONE, {"mix": "sum"}, "multipliers: expected \\[C, N\\]"),
    (SUM, {"mix": "xor"}, "(multipliers|moduli)"),
    (SUM, {"multipliers": [[3, 5, 1], [7, 9, 11]]}, "multipliers\\[0\\]: layer 0: 1 past the column's order 2"),
    (SUM, {"multipliers": [[3, 5, 0]]}, "multipliers: layer 0 has 1 lists for 2 columns"),
    (SUM, {"align": "oldest"}, "align"),
    (ONE, {"column_numbering": "function-major"}, "column_numbering"),
    (ONE, {"column_numbering": "minor"}, "column_numbering"),
    (ONE, {"align": "middle"}, "align"),
    (ONE, {"word_bits": 16}, "word_bits"),
    (ONE, {"word_bits": 65}, "word_bits"),
    (ONE, {"fill": 2**63}, "fill"),
    (ONE, {"fill": 2**31, "word_bits": 32}, "fill"),
    (ONE, {"boundary_ids": [-1]}, "boundary_ids"),
    (ONE, {"boundary_ids": [10], "id_limit": 10}, "boundary_ids"),
    (ONE, {"boundary_ids": range(257)}, "boundary_ids"),
    (ONE, {"id_limit": 0}, "id_limit"),
    (ONE, {"too_large_ids": "error"}, "too_large_ids: 'error' needs an id_limit"),
    (ONE, {"too_large_ids": "wrap"}, "too_large_ids"),
    (ONE, {"negative_ids": "wrap"}, "negative_ids"),
    (ONE, {"id_limit": 51, "token_map": identity(50)}, "id_limit: 51 is past the token map of 50 ids"),
    (ONE, {"name": ""}, "name"),
    (ONE, {"name": "n" * 257}, "name"),
]


@pytest.mark.parametrize(("base", "wrong", "named"), WRONG, ids=[f"{next(iter(w))}-{n:.30}" for _, w, n in WRONG])
def test_a_wrong_value_is_named_by_its_argument(base: dict[str, Any], wrong: dict[str, Any], named: str) -> None:
    with pytest.raises((ValueError, TypeError), match=rf"^{named}") as error:
        HashLayout.from_numbers(**base | wrong)
    assert type(error.value) is ValueError or wrong == {"multipliers": 3}
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("multipliers", [3.0, 5.0, 7.0]),
        ("multipliers", "357"),
        ("multipliers", None),
        ("moduli", np.ones(4)),
        ("moduli", np.array([True] * 4)),
        ("offsets", {0: [0.0] * 4}),
        ("orders", 3),
        ("orders", None),
        ("heads", 2.0),
        ("rows", 500.0),
        ("layer_ids", 3),
        ("mix", None),
        ("align", 1),
        ("word_bits", "64"),
        ("fill", None),
        ("boundary_ids", None),
        ("id_limit", 9.0),
        ("negative_ids", True),
        ("token_map", [0, 1]),
        ("adds_offsets", 1),
        ("name", 5),
    ],
)
def test_a_wrong_type_is_named_by_its_argument(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{name}\b"):
        HashLayout.from_numbers(**ONE | {name: value})


def test_all_arguments_are_keywords() -> None:
    with pytest.raises(TypeError, match="positional"):
        HashLayout.from_numbers([3, 5, 7], [101, 103])
