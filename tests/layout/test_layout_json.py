"""JSON round trips, what identifies a layout, frozen views, copies and pickles, hostile text, boundaries."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
from engram_fast import HashLayout, _core, presets
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_tools import Map, identity, preset


@pytest.mark.parametrize("name", presets())
def test_round_trip(name: str) -> None:
    layout = preset(name)
    text = layout.to_json()
    again = HashLayout.from_json(text)
    assert type(again) is HashLayout
    assert again == layout
    assert hash(again) == hash(layout)
    assert again.digest == layout.digest
    assert again.to_json() == text
    assert json.loads(text)["parameters"] == layout.parameters == again.parameters
    for layer in layout.layer_ids:
        for field in ("multipliers", "moduli", "offsets"):
            assert np.array_equal(getattr(again, field)[layer], getattr(layout, field)[layer])
    rebuilt = preset(name, **layout.parameters)
    assert rebuilt == layout


@pytest.mark.parametrize("name", presets())
def test_copies_and_pickles(name: str) -> None:
    layout = preset(name)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(layout, protocol))
        assert type(again) is HashLayout
        assert again == layout
        assert again.name == name
    assert copy.copy(layout) is layout
    assert copy.deepcopy(layout) is layout


def test_views_are_frozen() -> None:
    layout = preset("blt")
    assert layout.multipliers[0].shape == (6, 8)
    for field in ("multipliers", "moduli", "offsets"):
        view = getattr(layout, field)
        array = view[0]
        assert array.dtype == np.int64
        assert array.flags.c_contiguous
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
        with pytest.raises(TypeError):
            view[0] = array
        with pytest.raises(KeyError):
            view[1]
    for name in ("name", "digest", "fill", "rows", "new"):
        with pytest.raises(AttributeError):
            setattr(layout, name, 1)
    assert isinstance(layout.rows[0], int)


def test_repr_names_what_matters() -> None:
    layout = preset("longcat")
    assert all(part in repr(layout) for part in ("HashLayout", "longcat", "[2, 3, 4]", layout.digest[:12]))


def test_equality_is_of_numbers_and_token_map() -> None:
    demo = preset("engram-demo-v1", token_map=identity(1000))
    shifted = Map([1, 0, *range(2, 1000)])
    assert demo == preset("engram-demo-v1", token_map=identity(1000))
    assert demo != preset("engram-demo-v1", token_map=shifted)
    assert demo != preset("engram-demo-v1", token_map=identity(1000), seed=1)
    assert demo != "engram-demo-v1"
    assert demo != None  # noqa: E711
    with pytest.raises(TypeError):
        demo < demo  # noqa: B015
    document = json.loads(demo.to_json())
    document["name"], document["parameters"] = "mine", {"note": "by hand"}
    renamed = HashLayout.from_json(json.dumps(document))
    assert renamed == demo
    assert renamed.name == "mine"
    assert len({demo, renamed}) == 1


@given(st.lists(st.integers(1, 500), min_size=1, max_size=3), st.integers(1, 4), st.integers(0, 2**64 - 1))
@settings(max_examples=50)
def test_random_layouts_round_trip(sizes: list[int], heads: int, seed: int) -> None:
    layout = HashLayout.preset(
        "engram-demo-v1",
        token_map=identity(50),
        engram_vocab_size=sizes,
        max_ngram_size=len(sizes) + 1,
        n_head_per_ngram=heads,
        seed=seed,
    )
    assert HashLayout.from_json(layout.to_json()) == layout
    assert layout.parameters["seed"] == seed


@given(st.floats(0.5, 500))
@settings(max_examples=100)
def test_ratios_survive_json(ratio: float) -> None:
    layout = preset("longcat", ngram_vocab_size_ratio=ratio, emb_neighbor_num=2, emb_split_num=1)
    assert HashLayout.from_json(layout.to_json()).parameters["ngram_vocab_size_ratio"] == ratio


DROPPED = [
    "format version name parameters orders heads max_order columns mix word_bits align fill boundary_ids ids token_map",
    "adds_offsets layers",
]


@pytest.mark.parametrize("key", " ".join(DROPPED).split())
def test_a_missing_number_is_named(key: str) -> None:
    document = json.loads(preset("longcat").to_json())
    del document[key]
    with pytest.raises(ValueError, match=f"missing field `{key}`"):
        HashLayout.from_json(json.dumps(document))


LAYER = ("layers", 0)


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("format",), "megatron-engram-token-map", "format"),
        (("version",), 2, "version"),
        (("orders",), [], "orders"),
        (("orders",), [3, 2], "orders"),
        (("orders",), [2, 2, 3], "orders"),
        (("orders",), [2, 17], "orders"),
        (("max_order",), 10**9, "max_order"),
        (("heads",), 0, "heads"),
        (("heads",), 2**63, "heads"),
        (("heads",), 2.0, "layout JSON"),
        (("heads",), True, "layout JSON"),
        (("mix",), "sum", "multipliers"),
        (("mix",), "and", "layout JSON"),
        (("word_bits",), 8, "word_bits"),
        (("word_bits",), 32, "multipliers"),
        (("fill",), 2**63, "layout JSON"),
        (("fill",), None, "layout JSON"),
        (("boundary_ids",), [1000], "boundary_ids"),
        (("boundary_ids",), [-1], "boundary_ids"),
        (("boundary_ids",), list(range(300)), "boundary_ids"),
        (("ids", "limit"), 1001, "ids.limit"),
        (("ids", "limit"), None, "ids.limit"),
        (("ids", "negative"), "wrap", "layout JSON"),
        (("ids", "extra"), 1, "layout JSON"),
        (("token_map", "digest"), "", "token_map.digest"),
        (("token_map", "size"), 1001, "token_map.size"),
        (("token_map", "length"), -1, "layout JSON"),
        (("layers",), [], "layers"),
        ((*LAYER, "layer_id"), -1, "layer_id"),
        ((*LAYER, "layer_id"), 15, "layer_id"),
        ((*LAYER, "multipliers"), [1], "multipliers"),
        ((*LAYER, "multipliers"), [[1, 1, 1]], "multipliers"),
        ((*LAYER, "multipliers"), [1, 2, 1e3], "layout JSON"),
        ((*LAYER, "multipliers"), "123", "layout JSON"),
        ((*LAYER, "moduli", 0), 0, "moduli"),
        ((*LAYER, "moduli", 0), -97, "moduli"),
        ((*LAYER, "moduli", 0), 2**63 - 1, "offsets"),
        ((*LAYER, "offsets", 15), -1, "offsets"),
        ((*LAYER, "offsets", 15), 2**63 - 1, "offsets"),
        ((*LAYER, "rows"), 1, "offsets"),
        (("extra",), 1, "layout JSON"),
    ],
)
def test_wrong_numbers_are_refused_by_name(path, value, named: str) -> None:
    document = json.loads(preset("engram-demo-v1").to_json())
    parent = document
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    with pytest.raises(ValueError, match=named):
        HashLayout.from_json(json.dumps(document))


def test_text_that_is_no_layout() -> None:
    valid = preset("longcat").to_json()
    for text in [
        "",
        "null",
        "[]",
        "{}",
        "NaN",
        "[" * 200_000,
        '{"a":' * 200_000,
        valid + "x",
        valid[:-1],
        " " * (17 << 20),
    ]:
        with pytest.raises(ValueError, match=r"layout JSON|format"):
            HashLayout.from_json(text)
    huge = valid.replace('"parameters":{', '"parameters":{"x":[' + "1," * (9 << 20) + "1],")
    with pytest.raises(ValueError, match="layout JSON"):
        HashLayout.from_json(huge)
    for wrong in (None, 5, b"{}", {}):
        with pytest.raises(TypeError):
            HashLayout.from_json(wrong)


@given(st.text(max_size=200))
def test_any_text_is_a_value_error(text: str) -> None:
    try:
        HashLayout.from_json(text)
    except ValueError:
        return
    raise AssertionError(text)


@given(st.data())
@settings(max_examples=300)
def test_any_change_of_a_valid_text_is_a_layout_or_a_value_error(data: st.DataObject) -> None:
    text = preset("blt", encoder_hash_byte_group_size=[2, 3]).to_json()
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start, min(len(text), start + 12)))
    changed = text[:start] + data.draw(st.text('0123456789-.,:[]{}"eE', max_size=6)) + text[end:]
    try:
        layout = HashLayout.from_json(changed)
    except ValueError:
        return
    assert HashLayout.from_json(layout.to_json()).to_json() == layout.to_json()


def test_boundaries_are_added() -> None:
    layout = preset("longcat")
    more = layout.with_boundary(131071)
    assert type(more) is HashLayout
    assert more.boundary_ids == (2, 131071)
    assert more != layout
    assert (more.name, more.parameters) == (layout.name, layout.parameters)
    assert layout.with_boundary([]) == layout == layout.with_boundary(2)
    assert layout.with_boundary(np.array([7, 5, 7])).with_boundary(np.int32(6)).boundary_ids == (2, 5, 6, 7)
    assert preset("onnxruntime").with_boundary([-3]).boundary_ids == (-3,)
    assert preset("blt").with_boundary(10**6).boundary_ids == (10**6,)
    assert preset("engram-peft").with_boundary(10**6).boundary_ids == (10**6,), "an added token, outside the map"
    assert HashLayout.from_json(more.to_json()) == more


@pytest.mark.parametrize(
    ("name", "eos"),
    [
        ("longcat", 131072),
        ("longcat", -1),
        ("longcat", [1, 131072]),
        ("engram-demo-v1", -1),
        ("engram-peft", -1),
        ("blt", -1),
        ("blt", 2**63),
        ("deepseek-v4.1", 129280),
        ("longcat", range(300)),
    ],
)
def test_boundaries_outside_are_refused(name: str, eos) -> None:
    with pytest.raises(ValueError, match=r"^eos"):
        preset(name).with_boundary(eos)


@pytest.mark.parametrize("eos", [None, 2.0, "2", True, [2.0], {2}, np.array([[2]])])
def test_boundaries_of_a_wrong_type_are_refused(eos) -> None:
    with pytest.raises(TypeError, match=r"^eos"):
        preset("longcat").with_boundary(eos)


def test_the_core_class_alone() -> None:
    text = preset("longcat").to_json()
    core = _core.Layout.from_json(text)
    assert type(core) is _core.Layout
    assert core == HashLayout.from_json(text)
    assert core.max_row(True) == core.rows[0] - 1
    assert core.max_row(False) == int(core.moduli[0].max()) - 1
