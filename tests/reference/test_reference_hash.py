"""The reference's hashing: worked examples, boundary rules by plain loops, streaming, and what is refused."""

from __future__ import annotations

from itertools import pairwise

import goldens
import numpy as np
import pytest
from engram_fast import reference
from engram_fast.reference_generators import as_int64

IDENTITY = np.arange(1000, dtype=np.int32)
SMALL = {"engram_vocab_size": [97, 97], "n_head_per_ngram": 2, "pad_id": 0}
IDS = np.array([[5, 7, 5, 7, 9, 2, 2, 5]])
ROWS = [
    [13, 86, 101, 90],
    [20, 44, 34, 106],
    [86, 7, 83, 39],
    [20, 44, 73, 29],
    [75, 86, 21, 106],
    [87, 42, 9, 54],
    [38, 94, 70, 12],
    [44, 58, 31, 55],
]
V41_MASK = np.array([1, 1, 0, 1, 0, 0, 1, 1, 1, 1], dtype=bool)


def small(**parameters: int) -> dict:
    return reference.preset("engram-demo-v1", lookup=IDENTITY, **SMALL | parameters)


def hash_small(ids: object, layout: dict | None = None, **where: object) -> np.ndarray:
    return reference.hash_rows(layout or small(), ids, lookup=IDENTITY, **where)


LAYOUTS = [case for case in goldens.cases() if "past" not in case.where and "mask" not in case.where]
"""One or more for each family, with ids that fit it."""


@pytest.fixture(params=LAYOUTS, ids=str)
def case(request: pytest.FixtureRequest) -> goldens.Case:
    return request.param


def rows_of(case: goldens.Case, ids: np.ndarray, **where: object) -> np.ndarray:
    return reference.hash_rows(case.layout(), ids, lookup=case.lookup, **where)


# ---- worked examples ----------------------------------------------------------------------------------------------


def test_worked_example() -> None:
    assert hash_small(IDS)[0, 0].tolist() == ROWS
    assert hash_small([5], small(pad_id=1))[0].tolist() == [[59, 92, 101, 82]]


def test_a_cut_changes_the_two_rows_behind_it() -> None:
    rows = hash_small(IDS[0], cu_seqlens=[0, 3, 8])[0].tolist()
    assert [t for t in range(8) if rows[t] != ROWS[t]] == [3, 4]


def test_products_that_wrap_negative_take_the_floor_modulo() -> None:
    layout = small()
    layout["ids"]["too_large"] = "enter"
    assert hash_small([1215], layout)[0].tolist() == [[91, 13, 77, 57]]


def test_worked_example_of_four_tokens() -> None:
    parameters = {"max_ngram_size": 4, "layer_ids": [1, 14], "engram_vocab_size": [1009] * 3, "n_head_per_ngram": 2}
    lookup = np.arange(99092, dtype=np.int32)
    layout = reference.preset("engram-demo-v1", lookup=lookup, pad_id=3, **parameters)
    assert reference.hash_rows(layout, [99091, 0, 1, 99091], lookup=lookup)[1].tolist() == [
        [831, 292, 690, 104, 4, 905],
        [512, 438, 785, 579, 760, 486],
        [575, 710, 854, 28, 495, 772],
        [169, 401, 688, 904, 220, 232],
    ]


def test_one_column_by_hand() -> None:
    parameters = {"multipliers": [3, -5], "vocab_sizes": [7, 11], "max_ngram_size": 2, "n_head_per_ngram": 2}
    layout = reference.preset("onnxruntime", **parameters, pad_id=1)
    mixes = [4 * 3 ^ 1 * -5, -2 * 3 ^ 4 * -5]
    assert reference.hash_rows(layout, [4, -2])[0].tolist() == [[m % 7, m % 11] for m in mixes]


def test_int32_words_wrap_and_keep_their_sign() -> None:
    parameters = {"multipliers": [2**30 + 1, 0], "vocab_sizes": [1009], "max_ngram_size": 2, "n_head_per_ngram": 1}
    layout = reference.preset("onnxruntime", **parameters, pad_id=0, int32=True)
    product = 3 * (2**30 + 1) - 2**32
    assert product < 0
    assert reference.hash_rows(layout, [3])[0].tolist() == [[product % 1009]]


def test_longcat_by_its_formula() -> None:
    case = next(case for case in goldens.cases() if case.golden == "longcat")
    v, n, k, m = 131072, 4, 4, 78 * 131072
    for b, t in ((0, 0), (1, 17), (2, 49)):
        x, row = case.ids[b], []
        for i in range(2, n + 1):
            for j in range(k):
                modulus, total, d = m + 2 * ((i - 2) * k + j) + 1, int(x[t]), 1
                while d < i and t - d >= 0 and x[t - d] != 2:
                    total += int(x[t - d]) * (v**d % modulus)
                    d += 1
                row.append(total % modulus)
        assert case.expected[0, b, t].tolist() == row


# ---- boundaries ---------------------------------------------------------------------------------------------------


def test_run_counter() -> None:
    layout = {"boundary_ids": [9]}
    ids = np.array([[1, 9, 9, 1, 1, 1, 1, 1, 1]], dtype=object)
    alive = np.array([[1, 1, 1, 1, 0, 1, 1, 1, 1]], dtype=bool)
    segments = np.array([[0, 0, 0, 0, 0, 0, 0, 5, 5]], dtype=object)
    assert reference.reach(layout, ids, alive, segments, set()).tolist() == [[1, 2, 1, 1, 0, 1, 2, 1, 2]]


def test_window_reads_fill_where_it_cannot_reach() -> None:
    w = reference.window(np.array([[4, 5, 6]]), np.array([[1, 2, 0]]), -7, 3)
    assert w.tolist() == [[[4, -7, -7], [5, 4, -7], [-7, -7, -7]]]


def test_a_masked_position_hashes_as_all_fill_and_hides_everything_older(case: goldens.Case) -> None:
    layout, ids = case.layout(), case.ids[:1, :10]
    rows = rows_of(case, ids, mask=V41_MASK[None], add_offsets=False)
    w = np.full((1, 1, layout["max_order"]), layout["fill"], dtype=np.int64)
    for at, layer in enumerate(layout["layers"]):
        fill_row = reference.layer_rows(layout, layer, w, False)[0, 0]
        assert (rows[at, 0][~V41_MASK] == fill_row).all()
    alone = [rows_of(case, ids[:, a:b], add_offsets=False) for a, b in ((0, 2), (3, 4), (6, 10))]
    np.testing.assert_array_equal(rows[:, :, V41_MASK], np.concatenate(alone, axis=2))


def test_padding_on_either_side_does_not_change_a_row(case: goldens.Case) -> None:
    ids, alone = case.ids[:1, :6], rows_of(case, case.ids[:1, :6])
    for left, right in ((3, 0), (0, 3), (2, 2)):
        padded = np.pad(ids, ((0, 0), (left, right)), constant_values=-(2**40))
        mask = np.pad(np.ones((1, 6), int), ((0, 0), (left, right)))
        np.testing.assert_array_equal(rows_of(case, padded, mask=mask)[:, :, left : left + 6], alone)


def test_packed_equals_separate_by_every_kind_of_cut(case: goldens.Case) -> None:
    bounds = [0, 0, 1, 4, 4, 9, 20, 20]
    ids = case.ids[0, :20]
    separate = np.concatenate([rows_of(case, ids[a:b]) for a, b in pairwise(bounds)], axis=1)
    np.testing.assert_array_equal(rows_of(case, ids, cu_seqlens=bounds), separate)
    lengths = np.diff(bounds)
    np.testing.assert_array_equal(rows_of(case, ids, segment_ids=np.repeat([3, 0, 7, 0, 3, 0, 9], lengths)), separate)
    positions = np.concatenate([np.arange(n) for n in lengths])
    segments = reference.segments_from_position_ids(positions)
    np.testing.assert_array_equal(rows_of(case, ids, segment_ids=segments), separate)


def test_a_boundary_id_cuts_behind_itself_and_keeps_its_own_look_back() -> None:
    layout = small() | {"boundary_ids": [3]}
    ids = np.array([5, 7, 3, 9, 2, 3, 3, 5])
    np.testing.assert_array_equal(hash_small(ids, layout), hash_small(ids, cu_seqlens=[0, 3, 6, 7, 8]))


def test_boundary_ids_are_tested_before_compression() -> None:
    lookup = np.array([0, 1, 1, 2], dtype=np.int32)  # 1 and 2 share a compressed id; only raw 2 ends a document
    layout = reference.preset("engram-demo-v1", lookup=lookup, **SMALL) | {"boundary_ids": [2]}
    ones, twos = (reference.hash_rows(layout, [3, raw, 3], lookup=lookup) for raw in (1, 2))
    np.testing.assert_array_equal(ones[:, :2], twos[:, :2])
    assert (ones[:, 2] != twos[:, 2]).any()


def test_segment_zero_is_an_ordinary_id() -> None:
    np.testing.assert_array_equal(hash_small(IDS, segment_ids=np.zeros((1, 8), np.uint8)), hash_small(IDS))


@pytest.mark.parametrize(
    ("positions", "segments"),
    [
        ([], []),
        ([0, 1, 2, 0, 1, 0, 0], [0, 0, 0, 1, 1, 2, 3]),
        ([5, 6, 7, 0, 1], [0, 0, 0, 1, 1]),
        ([0, 1, 3, 4, 4], [0, 0, 1, 1, 2]),
        ([-1, 0, 1], [0, 1, 1]),
        ([[0, 1, 0], [0, 0, 1]], [[0, 0, 1], [0, 1, 1]]),
    ],
)
def test_segments_from_position_ids(positions: list, segments: list) -> None:
    got = reference.segments_from_position_ids(positions)
    assert got.dtype == np.int64
    assert got.tolist() == segments


# ---- past and stream ----------------------------------------------------------------------------------------------


def test_a_past_of_the_window_is_as_good_as_all_of_it(case: goldens.Case) -> None:
    halo = case.layout()["max_order"] - 1
    for cut in (0, 1, 2, 12):
        start = max(0, cut - halo)
        rows = rows_of(case, case.ids[:, cut:], past=case.ids[:, start:cut])
        np.testing.assert_array_equal(rows, rows_of(case, case.ids)[:, :, cut:])
    assert rows_of(case, case.ids[:, :0], past=case.ids).shape[2] == 0


def test_flat_past() -> None:
    np.testing.assert_array_equal(hash_small(IDS[0, 3:], past=IDS[0, :3]), hash_small(IDS[0])[:, 3:])


@pytest.mark.parametrize("size", range(1, 9))
def test_stream_is_slices_of_the_whole(size: int) -> None:
    chunks = [IDS[:, at : at + size] for at in range(0, 8, size)]
    parts = reference.stream(small(), chunks, lookup=IDENTITY)
    assert [part.shape for part in parts] == [(2, 1, chunk.shape[1], 4) for chunk in chunks]
    np.testing.assert_array_equal(np.concatenate(parts, axis=2), hash_small(IDS))


def test_stream_takes_on_the_first_segment_it_meets_and_goes_on_with_the_last() -> None:
    chunks = [IDS[:, :2], IDS[:, 2:5], IDS[:, 5:6], IDS[:, 6:]]
    given = [None, [[4, 4, 9]], None, [[9, 4]]]
    parts = reference.stream(small(), chunks, lookup=IDENTITY, segment_ids=given)
    whole = hash_small(IDS, segment_ids=[[4, 4, 4, 4, 9, 9, 9, 4]])
    np.testing.assert_array_equal(np.concatenate(parts, axis=2), whole)


def test_stream_with_masks() -> None:
    mask = np.array([[1, 0, 1, 1, 1, 0, 1, 1]])
    parts = reference.stream(small(), [IDS[:, :4], IDS[:, 4:]], lookup=IDENTITY, masks=[mask[:, :4], mask[:, 4:]])
    np.testing.assert_array_equal(np.concatenate(parts, axis=2), hash_small(IDS, mask=mask))


# ---- arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["u1", "i1", "<u2", ">u2", ">i4", "u4", "<i8", ">u8"])
def test_any_integer_dtype(dtype: str) -> None:
    assert hash_small(IDS.astype(dtype))[0, 0].tolist() == ROWS


def test_shapes() -> None:
    assert hash_small(np.zeros((0, 5), int)).shape == (2, 0, 5, 4)
    assert hash_small(np.zeros((3, 0), int)).shape == (2, 3, 0, 4)
    assert hash_small([]).shape == (2, 0, 4)
    assert hash_small([], cu_seqlens=[0, 0]).shape == (2, 0, 4)


def test_offsets_on_demand() -> None:
    plain, shifted = hash_small(IDS), hash_small(IDS, add_offsets=True)
    assert (shifted - plain)[:, 0, 0].tolist() == [[0, 97, 198, 301], [0, 109, 222, 349]]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[5], [1000]], "token id 1000 at row 1, column 0 is outside the token map of 1000 ids"),
        ([5, 1000], "token id 1000 at position 1 is outside the token map of 1000 ids"),
        (np.array([5, 2**64 - 1], np.uint64), "token id 18446744073709551615 at position 1"),
    ],
)
def test_an_id_outside_its_range(ids: object, message: str) -> None:
    with pytest.raises(IndexError, match=message):
        hash_small(ids)


@pytest.mark.parametrize("name", ["qwen_ple", "longcat", "nanbeige", "deepseek_v41"])
@pytest.mark.parametrize("bad", [-1, "limit", 2**31, -(2**63), 2**63])
def test_layouts_that_refuse_every_id_outside(name: str, bad: int | str) -> None:
    case = next(case for case in goldens.cases() if case.golden == name)
    bad = case.layout()["ids"]["limit"] if bad == "limit" else bad
    ids = np.array([1, bad], dtype=np.uint64 if bad == 2**63 else np.int64)
    with pytest.raises(IndexError, match=f"token id {bad} at position 1 is outside"):
        rows_of(case, ids)
    np.testing.assert_array_equal(rows_of(case, ids, mask=[1, 0])[:, 0], rows_of(case, ids[:1])[:, 0])


def test_ids_that_enter_unmapped() -> None:
    layer = small()["layers"][0]
    m0, m1, _ = layer["multipliers"]
    mixes = [as_int64(-m0), as_int64(-(2**63) * m0 ^ -m1)]
    assert hash_small([-1, -(2**63)])[0, :, 0].tolist() == [mix % layer["moduli"][0] for mix in mixes]
    blt = reference.preset("blt")
    assert reference.hash_rows(blt, [2**63 - 1]).shape == (1, 1, 6)
    for layout, bad in ((blt, -1), (blt, 2**63)):
        with pytest.raises(IndexError, match=f"token id {bad} at position 0 is outside the ids from 0"):
            reference.hash_rows(layout, np.array([bad]))


@pytest.mark.parametrize("dtype", ["?", "f4", "f8", "O", "U1"])
def test_ids_that_are_not_integers(dtype: str) -> None:
    with pytest.raises(TypeError, match=r"ids: .* is not an integer dtype"):
        hash_small(IDS.astype(dtype))


@pytest.mark.parametrize(
    ("ids", "where", "message"),
    [
        (IDS[None], {}, "ids: 3 dimensions"),
        (IDS, {"mask": np.ones((1, 7), bool)}, "mask: shape"),
        (IDS, {"mask": np.full((1, 8), 2)}, "mask: 2 is neither 0 nor 1"),
        (IDS, {"segment_ids": np.zeros(8, int)}, "segment_ids: shape"),
        (IDS, {"cu_seqlens": [0, 8]}, "cu_seqlens"),
        (IDS[0], {"cu_seqlens": []}, "cu_seqlens"),
        (IDS[0], {"cu_seqlens": [1, 8]}, "cu_seqlens"),
        (IDS[0], {"cu_seqlens": [0, 7]}, "cu_seqlens"),
        (IDS[0], {"cu_seqlens": [0, 5, 3, 8]}, "cu_seqlens"),
        (IDS, {"past": np.zeros((2, 3), int)}, "past: 2 rows for 1"),
    ],
)
def test_values_that_are_refused(ids: np.ndarray, where: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hash_small(ids, **where)


def test_a_token_map_that_the_layout_was_not_made_for() -> None:
    for wrong in (None, np.arange(999), np.arange(1000)[::-1]):
        with pytest.raises(ValueError, match="token_map"):
            reference.hash_rows(small(), IDS, lookup=wrong)
    with pytest.raises(ValueError, match="token_map"):
        reference.hash_rows(reference.preset("blt"), IDS, lookup=IDENTITY)


def test_inputs_stay_untouched() -> None:
    ids, mask = IDS.copy(), np.ones((1, 8), bool)
    hash_small(ids, mask=mask, segment_ids=ids)
    np.testing.assert_array_equal(ids, IDS)
    assert mask.all()
