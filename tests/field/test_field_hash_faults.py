"""Faults seen in the field in the arithmetic: each with an input that shows it, none of which may happen here."""

from __future__ import annotations

import json
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from engram_fast import HashLayout, HashState, NgramHasher, TokenMap, hash_batch
from field_hasher import hasher, random_ids, strict

GOLDEN = [
    [13, 86, 101, 90],
    [20, 44, 34, 106],
    [86, 7, 83, 39],
    [20, 44, 73, 29],
    [75, 86, 21, 106],
    [87, 42, 9, 54],
    [38, 94, 70, 12],
    [44, 58, 31, 55],
]


def test_known_rows_of_a_small_model() -> None:
    assert hasher().hash([[5, 7, 5, 7, 9, 2, 2, 5]])[1][0].tolist() == GOLDEN
    assert hasher(pad_id=1).hash([[5]])[1].tolist() == [[[59, 92, 101, 82]]]
    four = hasher(
        99092, max_ngram_size=4, layer_ids=[1, 14], engram_vocab_size=[1009] * 3, n_head_per_ngram=2, pad_id=3
    )
    assert four.hash([[99091, 0, 1, 99091]])[14][0].tolist() == [
        [831, 292, 690, 104, 4, 905],
        [512, 438, 785, 579, 760, 486],
        [575, 710, 854, 28, 495, 772],
        [169, 401, 688, 904, 220, 232],
    ]


def test_a_product_that_wraps_negative_has_its_floor_modulo() -> None:
    # The numbers for 1000 compressed ids, whose multipliers leave no room for 1215.
    numbers, wide = json.loads(hasher().layout.to_json()), TokenMap.identity(1216)
    numbers["token_map"] = {"digest": wide.digest, "length": 1216, "size": 1216}
    numbers["ids"]["limit"] = 1216
    wrapping = NgramHasher(HashLayout.from_json(json.dumps(numbers)), wide)
    assert wrapping.hash([[1215]])[1].tolist() == [[[91, 13, 77, 57]]]


@pytest.mark.parametrize("bad", [-1, -100, 5, 2**31, -(2**63), 2**63 - 1])
def test_negative_ids_do_not_index_from_the_end(bad: int) -> None:
    small = strict(lookup=[0, 1, 2, 3, 4])
    state = small.new_state(1)
    for call in (small.step, small.peek):
        with pytest.raises(IndexError, match=f"token id {bad} at row 0, column 1 is outside the token map of 5 ids"):
            call(np.array([[1, bad]]), state)
    with pytest.raises(IndexError, match=str(bad)):
        small.commit(state, [[1, bad]], [2])
    with pytest.raises(IndexError, match=str(bad)):
        small.seed([[1, bad]])
    with pytest.raises(IndexError, match=str(bad)):
        small.token_map.compress([[1, bad]])
    assert state == small.new_state(1)
    # Where the published model lets negative ids in, they are themselves and nobody else.
    open_one = hasher(lookup=[0, 1, 2, 3, 4])
    if bad < 0:
        others = [[[1, inside]] for inside in range(5)]
        assert all((open_one.hash([[1, bad]])[1] != open_one.hash(other)[1]).any() for other in others)


def test_small_integer_types_do_not_cut_ids() -> None:
    ids = np.array([[5, 999, 7]])
    want = hasher().hash(ids)
    for dtype in (np.uint16, np.int16, np.int32, np.uint32, np.uint64, ">u2", ">i8"):
        got = hasher().hash(ids.astype(dtype))
        for layer, rows in want.items():
            assert got[layer].dtype == np.int64
            np.testing.assert_array_equal(got[layer], rows)
    big = strict(99092)
    with pytest.raises(IndexError, match="token id -25536"):
        big.hash_batch(np.array([[40000]]).astype(np.int16))
    np.testing.assert_array_equal(big.hash_batch(np.array([[40000]], np.uint16)), big.hash_batch([[40000]]))
    for dtype in (np.float32, np.float64, bool, object, complex):
        with pytest.raises(TypeError, match="ids"):
            hasher().hash_batch(ids.astype(dtype))


def test_uint64_ids_are_not_made_floats() -> None:
    wide = NgramHasher(
        HashLayout.preset(
            "onnxruntime",
            multipliers=[1, 3, 5],
            vocab_sizes=[2**61 - 1] * 2,
            max_ngram_size=3,
            n_head_per_ngram=1,
            pad_id=0,
        )
    )
    ids = [2**53 + 1, 2**60 + 1, 2**63 - 1]
    rows = wide.hash_batch(np.array(ids, dtype=np.uint64))
    np.testing.assert_array_equal(rows, wide.hash_batch(np.array(ids, dtype=np.int64)))
    assert rows[0, 0, 0] == ids[0] % (2**61 - 1)
    for bad in (2**63, 2**64 - 1):
        with pytest.raises(IndexError, match=f"token id {bad} at position 1 is outside"):
            wide.hash_batch(np.array([1, bad], dtype=np.uint64))


def test_token_files_are_read_as_they_lie_on_disk(tmp_path: Path) -> None:
    for dtype in (np.uint16, np.int32, np.int64):
        np.arange(1000, dtype=dtype).tofile(tmp_path / "tokens.bin")
        tokens = np.memmap(tmp_path / "tokens.bin", dtype=dtype, mode="r")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rows = hasher().hash_batch(tokens[:64].reshape(4, 16))
        np.testing.assert_array_equal(rows, hasher().hash_batch(np.arange(64).reshape(4, 16)))
        np.testing.assert_array_equal(hasher().hash_batch(tokens[1:999:7])[0], hasher().hash(range(1, 999, 7))[1])
    torch = pytest.importorskip("torch", reason="needs the package torch")
    table = torch.nn.Embedding(200, 4)
    assert table(torch.from_numpy(rows)).shape == (2, 4, 16, 4, 4)


def test_configurations_are_copied_and_objects_are_never_seen_half_built() -> None:
    layers, sizes = [1, 15], [97, 97]
    h = hasher(layer_ids=layers, engram_vocab_size=sizes)
    rows = h.hash_batch([[5, 7]])
    layers.append(3)
    layers[0] = sizes[0] = 99
    assert h.layout.layer_ids == (1, 15)
    np.testing.assert_array_equal(h.hash_batch([[5, 7]]), rows)
    barrier = threading.Barrier(8)

    def build(index: int) -> tuple[str, bytes]:
        if index < 8:
            barrier.wait()
        made = hasher()
        return made.layout.digest, made.hash_batch([[5, 7]]).tobytes()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(build, range(64))) == {(h.layout.digest, rows.tobytes())}


def test_frozen_objects_cannot_be_changed() -> None:
    h = hasher()
    for thing, name in ((h, "layout"), (h, "token_map"), (h.layout, "heads"), (h, "new_attribute"), (h.layout, "x")):
        with pytest.raises(AttributeError):
            setattr(thing, name, None)
    for array in (h.layout.moduli[1], h.layout.multipliers[1], h.layout.offsets[1], h.token_map.lookup):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(TypeError):
        h.layout.moduli[1] = np.ones(4)


def test_the_order_of_layers_decides_the_primes() -> None:
    a, b = hasher(), hasher(layer_ids=[15, 1])
    assert a.layout.moduli[1].tolist() == [97, 101, 103, 107]
    assert a.layout.moduli[15].tolist() == [109, 113, 127, 131]
    assert b.layout.moduli[15].tolist() == [97, 101, 103, 107]
    assert b.layout.moduli[1].tolist() == [109, 113, 127, 131]
    assert a.layout.digest != b.layout.digest
    assert (a.hash([[5, 7]])[1] != b.hash([[5, 7]])[1]).any()
    assert list(b.hash([[5]])) == [15, 1]
    for bad in ([1, 1], [], [-1]):
        with pytest.raises(ValueError, match="layer_ids"):
            hasher(layer_ids=bad)


def test_constants_alone_are_enough_and_none_may_be_missing() -> None:
    h = hasher(lookup=[0, 1, 1, 2])
    text, lookup = h.layout.to_json(), h.token_map.lookup.tolist()
    again = NgramHasher(HashLayout.from_json(text), TokenMap.from_lookup(lookup))
    ids = np.random.default_rng(0).integers(0, 4, (3, 50))
    np.testing.assert_array_equal(again.hash_batch(ids), h.hash_batch(ids))
    assert again.layout.digest == h.layout.digest
    document = json.loads(text)
    for key in document:
        rest = {name: value for name, value in document.items() if name != key}
        with pytest.raises(ValueError, match=key):
            HashLayout.from_json(json.dumps(rest))


def test_multipliers_are_those_of_the_released_models() -> None:
    multipliers = hasher().layout.multipliers
    assert multipliers[1].tolist() == [7593627661414631, 479593001838623, 3563315849468963]
    assert multipliers[15].tolist() == [2865651367968763, 5551170510236881, 5343936160617101]
    four = hasher(99092, layer_ids=[14], max_ngram_size=4, engram_vocab_size=[97] * 3).layout.multipliers
    assert four[14].tolist() == [67716810739261, 51510806800915, 30921347202721, 82619226485591]


def test_rows_past_31_bits_are_exact() -> None:
    big = hasher(engram_vocab_size=[2**31 - 100, 2**33])
    ids = random_ids(3, (4, 200))
    rows = big.hash_batch(ids, add_offsets=True)
    assert rows.dtype == np.int64
    own = big.hash_batch(ids, add_offsets=False)
    offsets = np.stack([big.layout.offsets[layer] for layer in big.layout.layer_ids])
    np.testing.assert_array_equal(rows - offsets[:, None, None], own)
    moduli = np.stack([big.layout.moduli[layer] for layer in big.layout.layer_ids])
    assert ((own >= 0) & (own < moduli[:, None, None])).all()
    assert own.max() > 2**32
    assert offsets.max() > 2**33
    with pytest.raises(ValueError, match="int32 cannot hold row"):
        big.hash_batch(ids, dtype=np.int32)


def test_narrow_and_wide_results_are_equal() -> None:
    ids = np.random.default_rng(1).integers(0, 1000, (64, 512), dtype=np.int32)
    narrow, wide = (hash_batch(ids, hasher(), dtype=dtype) for dtype in (np.int32, np.int64))
    assert (narrow.dtype, wide.dtype) == (np.int32, np.int64)
    np.testing.assert_array_equal(narrow, wide)
    with pytest.raises(ValueError, match="dtype"):
        hasher(engram_vocab_size=[2**31, 2**31]).hash_batch(ids[:1], dtype=np.int32)
    # Every row fits, the sums with the offsets do not.
    edge = hasher(engram_vocab_size=[2**30, 2**30])
    assert edge.hash_batch(ids[:1], dtype=np.int32).dtype == np.int32
    assert edge.hash_batch(ids[:1], add_offsets=True).dtype == np.int64
    with pytest.raises(ValueError, match="dtype"):
        edge.hash_batch(ids[:1], add_offsets=True, dtype=np.int32)


def test_shapes_follow_from_the_configuration_alone() -> None:
    for layers in ([3], [1, 15], [0, 7, 30]):
        h = hasher(layer_ids=layers)
        for n in (1, 13):
            first = h.hash_batch(np.zeros((1, n), int), layer_axis=-2)
            assert first.shape == (1, n, len(layers), 4)
            np.testing.assert_array_equal(h.hash_batch(np.zeros((1, n), int), layer_axis=-2), first)


def test_families_that_refuse_negative_ids_all_do() -> None:
    for name in ("qwen-ple", "longcat", "blt"):
        h = NgramHasher(HashLayout.preset(name))
        for bad in (-1, -(2**63)):
            state = h.new_state(1)
            for call in (lambda ids, h=h: h.hash_batch(ids), lambda ids, h=h, s=state: h.step(ids, s), h.seed):
                with pytest.raises(IndexError, match=f"token id {bad} at row 0, column 2 is outside"):
                    call([[1, 2, bad]])
            assert state == h.new_state(1)
            with pytest.raises(IndexError, match=f"token id {bad}"):
                HashState.from_numpy([[1, bad]], h)
    for name, limit in (("qwen-ple", 248320), ("longcat", 131072)):
        h = NgramHasher(HashLayout.preset(name))
        h.hash_batch([limit - 1])
        with pytest.raises(IndexError, match=f"token id {limit} at position 0 is outside the layout's vocabulary"):
            h.hash_batch([limit])
