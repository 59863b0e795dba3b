"""Published constants, the order of primes, the mapped pad, and the rules and defaults of each preset."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import get_args

import layout_tools as tools
import numpy as np
import pytest
from engram_fast import HashLayout, _core, presets, reference
from engram_fast.layout.presets import PRESETS, PresetName
from layout_tools import Map, identity, preset, token_map

SMALL = {"engram_vocab_size": [97, 97], "n_head_per_ngram": 2, "pad_id": 0}


def small(**overrides) -> HashLayout:
    return HashLayout.preset("engram-demo-v1", token_map=identity(1000), **{**SMALL, **overrides})


def test_names_of_the_presets() -> None:
    names = "engram-demo-v1 deepseek-v4.1 qwen-ple longcat nanbeige blt onnxruntime tilekernels engram-peft megatron"
    assert presets() == [*names.split(), "maxtext-int32"]


def test_the_type_of_the_names_equals_the_table() -> None:
    assert get_args(PresetName) == tuple(PRESETS)
    assert set(PRESETS) == set(reference.PRESETS)
    assert all(preset.name == name for name, preset in PRESETS.items())


def test_multipliers_of_a_thousand_ids() -> None:
    layout = small()
    assert layout.multipliers[1].tolist() == [7593627661414631, 479593001838623, 3563315849468963]
    assert layout.multipliers[15].tolist() == [2865651367968763, 5551170510236881, 5343936160617101]
    drawn = _core.multipliers(99092, 4, layer_id=14, seed=0).tolist()
    assert drawn == [67716810739261, 51510806800915, 30921347202721, 82619226485591]


def test_primes_follow_the_given_order_of_layers() -> None:
    forward, backward = small(layer_ids=[1, 15]), small(layer_ids=[15, 1])
    assert forward.moduli[1].tolist() == backward.moduli[15].tolist() == [97, 101, 103, 107]
    assert forward.moduli[15].tolist() == backward.moduli[1].tolist() == [109, 113, 127, 131]
    assert forward.layer_ids == (1, 15)
    assert backward.layer_ids == (15, 1)
    assert forward.digest != backward.digest


@pytest.mark.parametrize(
    ("pad", "ids", "want"),
    [
        (
            0,
            [5, 7, 5, 7, 9, 2, 2, 5],
            "13 86 101 90 20 44 34 106 86 7 83 39 20 44 73 29 75 86 21 106 87 42 9 54 38 94 70 12 44 58 31 55",
        ),
        (1, [5], "59 92 101 82"),
    ],
)
def test_rows_of_layer_1(pad: int, ids: list[int], want: str) -> None:
    assert tools.hash_row(small(pad_id=pad), 1, ids).ravel().tolist() == [int(row) for row in want.split()]


def test_rows_of_a_compressed_size_that_is_real() -> None:
    layout = HashLayout.preset(
        "megatron",
        token_map=identity(99092),
        engram_vocab_size=[1009] * 3,
        max_ngram_size=4,
        n_head_per_ngram=2,
        layer_ids=[1, 14],
        pad_id=3,
    )
    want = "831 292 690 104 4 905 512 438 785 579 760 486 575 710 854 28 495 772 169 401 688 904 220 232"
    rows = tools.hash_row(layout, 14, [99091, 0, 1, 99091])
    assert rows.ravel().tolist() == [int(row) for row in want.split()]


def test_released_primes() -> None:
    layout = HashLayout.preset("engram-demo-v1", token_map=token_map("v3"))
    above = {
        1: "403 411 421 423 433 453 519 523 537 543 549 571 573 577 609 619",
        15: "631 637 643 669 687 721 757 771 781 823 831 837 843 859 873 879",
    }
    for layer, primes in above.items():
        assert layout.moduli[layer].tolist() == [646000 + int(prime) for prime in primes.split()]
    assert layout.multipliers[1].tolist() == [76993395940407, 4862694818241, 36129212583461]
    assert layout.multipliers[15].tolist() == [29055444938695, 56284491166079, 54183298291715]
    newer = HashLayout.preset("engram-demo-v1", token_map=token_map("v4"))
    assert newer.multipliers[1].tolist() == [76632096046245, 4839876093313, 35959672319349]
    assert newer.multipliers[15].tolist() == [28919099099511, 56020370062535, 53929037264533]


def test_longcat_two() -> None:
    layout = HashLayout.preset(
        "longcat", vocab_size=163840, ngram_vocab_size_ratio=100.567, emb_neighbor_num=5, emb_split_num=4
    )
    first = int(100.567 * 163840) + 1
    assert layout.moduli[0].tolist() == [first + 2 * index for index in range(16)]
    assert layout.orders == (2, 3, 4, 5)
    assert layout.multipliers[0][15].tolist() == [163840**k % (first + 30) for k in range(5)]


def test_the_pad_is_mapped_exactly_once() -> None:
    folded = Map([0, 1, 1, 2])
    layout = HashLayout.preset("engram-demo-v1", token_map=folded, **{**SMALL, "pad_id": 3})
    assert layout.fill == 2
    alone = tools.hash_row(layout, 1, [1], folded.lookup)
    padded = tools.hash_row(layout, 1, [3, 3, 1], folded.lookup)
    assert np.array_equal(alone[-1], padded[-1])
    with pytest.raises(ValueError, match=r"^pad_id: 99 is outside the token map of 4 ids"):
        HashLayout.preset("engram-demo-v1", token_map=folded, **{**SMALL, "pad_id": 99})


def test_the_callers_lists_are_copied() -> None:
    sizes, layers = [97, 97], [1, 15]
    layout = small(engram_vocab_size=sizes, layer_ids=layers)
    before = layout.digest
    layers.append(3)
    layers[0] = sizes[0] = 99
    layout.parameters["layer_ids"].append(7)
    assert layout.layer_ids == (1, 15)
    assert layout.parameters["layer_ids"] == [1, 15]
    assert layout.digest == before == small().digest


def test_many_threads_make_the_same_layout() -> None:
    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(lambda _: small().digest, range(64)))) == 1
        layout = small()
        assert len(set(pool.map(lambda _: id(layout.multipliers), range(64)))) == 1


@pytest.mark.parametrize(
    ("name", "adds_offsets", "negative", "too_large", "limit", "fill", "boundary"),
    [
        ("engram-demo-v1", False, "enter", "error", 1000, 2, ()),
        ("megatron", False, "error", "error", 1000, 2, ()),
        ("tilekernels", True, "error", "error", 1000, 2, ()),
        ("maxtext-int32", False, "enter", "error", 1000, 2, ()),
        ("deepseek-v4.1", True, "error", "error", 129280, 2, ()),
        ("engram-peft", False, "enter", "enter", 1000, 2, ()),
        ("qwen-ple", True, "error", "error", 248320, 248044, (248044,)),
        ("longcat", False, "error", "error", 131072, 0, (2,)),
        ("nanbeige", False, "error", "error", 5000, 0, (2,)),
        ("blt", True, "error", "enter", None, 0, ()),
        ("onnxruntime", False, "enter", "enter", None, -7, ()),
    ],
)
def test_rules_of_each_preset(name, adds_offsets, negative, too_large, limit, fill, boundary) -> None:
    layout = preset(name)
    assert layout.name == name
    assert layout.adds_offsets == adds_offsets
    assert (layout.negative_ids, layout.too_large_ids, layout.id_limit) == (negative, too_large, limit)
    assert (layout.fill, layout.boundary_ids) == (fill, boundary)
    assert layout.align == ("oldest" if name == "engram-peft" else "newest")
    assert layout.column_numbering == ("function-major" if name == "blt" else "order-major")
    assert layout.columns == len(layout.orders) * layout.heads == len(layout.column_orders)
    for layer in layout.layer_ids:
        assert layout.offsets[layer].tolist() == [0, *np.cumsum(layout.moduli[layer])[:-1].tolist()]
        assert layout.rows[layer] >= int(layout.moduli[layer].sum())


@pytest.mark.parametrize("name", ["qwen-ple", "longcat", "nanbeige", "blt", "onnxruntime"])
def test_models_of_one_layer_take_its_number(name: str) -> None:
    assert preset(name).layer_ids == ((2,) if name == "qwen-ple" else (0,))
    assert preset(name, layer_id=7).layer_ids == (7,)


def test_several_qwen_layers_share_no_primes() -> None:
    both = preset("qwen-ple", layer_id=[2, 6], ple_layer_index=[0, 1])
    for layer, index in ((2, 0), (6, 1)):
        one = preset("qwen-ple", layer_id=layer, ple_layer_index=index)
        assert np.array_equal(both.moduli[layer], one.moduli[layer])
        assert np.array_equal(both.multipliers[layer], one.multipliers[layer])
    assert not set(both.moduli[2].tolist()) & set(both.moduli[6].tolist())


def test_released_v41_numbers_follow_when_they_are_not_given() -> None:
    layout = HashLayout.preset(
        "deepseek-v4.1",
        token_map=identity(1000),
        engram_vocab_size=97,
        engram_layer_ids=[3],
        engram_num_embeddings=None,
        engram_compressed_vocab_size=None,
    )
    assert layout.rows[3] == int(layout.moduli[3].sum())
    stated = {"engram_num_embeddings": [layout.rows[3]], "engram_compressed_vocab_size": 1000}
    same = HashLayout.preset(
        "deepseek-v4.1", token_map=identity(1000), engram_vocab_size=97, engram_layer_ids=[3], **stated
    )
    assert same == layout


def test_numpy_integers_and_arrays_are_integers() -> None:
    layout = small(
        engram_vocab_size=np.array([97, 97], np.uint16),
        n_head_per_ngram=np.int8(2),
        layer_ids=(np.int64(1), np.uint8(15)),
        seed=np.uint64(0),
    )
    assert layout == small()
    assert layout.parameters == small().parameters


def test_large_seeds_are_numpys() -> None:
    layout = small(seed=2**64 - 1)
    half = ((2**63 - 1) // 1000) // 2
    want = np.random.default_rng(2**64 - 1 + 10007).integers(0, half, 3, dtype=np.int64) * 2 + 1
    assert np.array_equal(layout.multipliers[1], want)


def test_many_layers_are_made_in_no_time() -> None:
    layout = small(layer_ids=range(1000), engram_vocab_size=[97, 101], n_head_per_ngram=16)
    primes = np.concatenate([layout.moduli[layer] for layer in layout.layer_ids])
    assert len(np.unique(primes)) == len(primes) == 32000
