"""The values of boundaries: their shapes, dtypes and sums; and packed rows against documents hashed alone."""

import itertools

import numpy as np
import pytest
from engram_fast import segments_from_position_ids
from engram_fast.data import AddRows, EngramCollator, grain_rows, map_batch, with_rows
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is missing")
pa = pytest.importorskip("pyarrow", reason="pyarrow is missing")

PER_TOKEN = ["attention_mask", "segment_ids", "seq_idx", "position_ids", "input_pos", "inputs_segmentation"]


def collate(hasher, batch, **options):
    return EngramCollator(hasher, lambda _: batch, **options)(None)["engram_rows"]


def alone(hasher, documents):
    """Rows [L, T, C] of documents one after another, each hashed by itself."""
    return np.concatenate([hasher.hash_batch(np.array([d], np.int64), layer_axis=1)[0] for d in documents], axis=1)


@pytest.mark.parametrize("name", PER_TOKEN)
@pytest.mark.parametrize(
    ("ids", "other"),
    [
        ((2, 5), (5, 2)),
        ((2, 5), (10,)),
        ((2, 5), (1, 10)),
        ((2, 5), (5,)),
        ((2, 5), (1, 5)),
        ((2, 5), (2,)),
        ((2, 5), (2, 1)),
        ((2, 5), (2, 5, 2)),
        ((10,), (2, 5)),
        ((4, 4), (2, 8)),
        ((1, 6), (2, 3)),
        ((2, 3, 1)[:2], (3, 2, 1)),
    ],
)
def test_h3_another_shape_is_refused(demo, name, ids, other):
    batch = {"input_ids": np.ones(ids, np.int64), name: np.ones(other, np.int64)}
    with pytest.raises(ValueError, match=f"{name} has shape"):
        collate(demo, batch)
    with pytest.raises(ValueError, match=f"{name} has shape"):
        list(with_rows([batch], demo))
    pytest.importorskip("grain", reason="grain is missing")
    with pytest.raises(ValueError, match=f"{name} has shape"):
        grain_rows(demo).map(batch)


@pytest.mark.parametrize("name", PER_TOKEN)
@pytest.mark.parametrize(
    ("ids", "other"),
    [((2, 5), (2, 1, 1, 5)), ((1, 5), (5,)), ((5,), (1, 5)), ((5, 1), (5,)), ((1, 1), ()), ((1,), (1, 1))],
)
def test_h3_axes_of_length_1_beside_the_ids(demo, name, ids, other):
    numbers = np.arange(1, np.prod(ids, dtype=int) + 1)
    boundary = (numbers > 2).astype(np.int64)
    want = collate(demo, {"input_ids": numbers.reshape(ids), name: boundary.reshape(ids)})
    got = collate(demo, {"input_ids": numbers.reshape(ids), name: boundary.reshape(other)})
    assert np.array_equal(got, want)


@pytest.mark.parametrize("name", ["position_ids", "input_pos", "positions", "segment_ids", "seq_idx"])
@pytest.mark.parametrize("values", [[0.0, 0.5, 1.0], [0.0, 1.0, 0.0], [True, False, True], ["a", "b", "c"]])
def test_h4_boundaries_that_are_no_integers(demo, name, values):
    batch = {"input_ids": np.array([[1, 2, 3]]), name: np.array([values])}
    lists = {"input_ids": [[1, 2, 3]], name: [values]}
    calls = [lambda: collate(demo, batch), lambda: list(with_rows([batch], demo)), lambda: map_batch(lists, demo)]
    if not isinstance(values[0], str):
        calls += [lambda: map_batch(pa.table(lists), demo), lambda: map_batch(batch, demo)]
    for call in calls:
        with pytest.raises(TypeError, match=rf"{name}.* holds"):
            call()


DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def test_h3_a_masked_array_is_refused(demo):
    """Its data would be hashed without its mask."""
    masked = np.ma.masked_array([[5, 7, 9]], mask=[[0, 0, 1]])
    ids = np.array([[5, 7, 9]])
    for batch in (
        {"input_ids": masked},
        {"input_ids": ids, "attention_mask": masked},
        {"input_ids": ids, "seq_idx": masked},
    ):
        with pytest.raises(TypeError, match="masked array"):
            collate(demo, batch)
        with pytest.raises(TypeError, match="masked array"):
            map_batch(batch, demo)


@pytest.mark.parametrize("dtype", DTYPES)
def test_h5_positions_of_every_dtype(demo, dtype):
    limits = np.iinfo(dtype)
    positions = np.array([limits.max - 1, limits.max, limits.min, limits.min + 1, 0, 1, 5], dtype)
    segments = segments_from_position_ids(positions)
    steps = [int(b) != int(a) + 1 or int(b) == 0 for a, b in itertools.pairwise(positions)]
    assert segments.tolist() == np.cumsum([0, *steps]).tolist()
    ids = np.arange(1, 8)
    want = collate(demo, {"input_ids": ids[None], "segment_ids": segments[None]})
    assert np.array_equal(collate(demo, {"input_ids": ids[None], "position_ids": positions[None]}), want)
    lists = {"input_ids": [ids.tolist()], "position_ids": [positions]}
    assert np.array_equal(map_batch(lists, demo)["engram_rows"][0].swapaxes(0, 1), want[0])


def test_h5_the_numbers_of_the_fault(demo):
    positions = np.array([[126, 127, -128, -127]], np.int8)
    assert segments_from_position_ids(positions).tolist() == [[0, 0, 1, 1]]
    rows = collate(demo, {"input_ids": np.array([[5, 7, 2, 4]]), "position_ids": positions})
    assert np.array_equal(rows[0], alone(demo, [[5, 7], [2, 4]]))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_l_position_0_after_minus_1_begins_a_document(demo, dtype):
    batch = {"input_ids": np.array([[5, 7, 2, 4]]), "position_ids": np.array([[-2, -1, 0, 1]], dtype)}
    assert np.array_equal(collate(demo, batch)[0], alone(demo, [[5, 7], [2, 4]]))


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("seq_lengths", [[3, 1]], ValueError, "seq_lengths adds up to 4; it must add up to 5"),
        ("seq_lengths", [[3, 3]], ValueError, "adds up to 6"),
        ("seq_lengths", [[7, -2]], ValueError, "holds the length -2 at entry 1"),
        ("seq_lengths", [[2.5, 2.5]], TypeError, "holds float64; it must hold integers"),
        ("doc_lens", [[5], [5]], ValueError, "doc_lens has 2 rows, and the ids have shape"),
        ("doc_lens", [[2**63 - 1, 2**63 - 1, 7]], ValueError, "adds up to 18446744073709551621"),
        ("cu_seqlens", [[0, 3, -1, 5]], ValueError, "falls from 3 to -1"),
        ("cu_seqlens", [[0, 3, -1]], ValueError, "runs from 0 to 3"),
        ("cu_seqlens", [[0, 3], [0, 5]], ValueError, "has 2 rows"),
        ("cu_seqlens", [], ValueError, "has shape"),
        ("seq_start_id", [1, 3], ValueError, "runs from 1 to 5"),
        ("seq_start_id", [0, 7], ValueError, "runs from 0 to 7"),
    ],
)
def test_h1_lengths_that_lie(demo, name, value, error, message):
    batch = {"input_ids": torch.arange(1, 6)[None], name: value}
    with pytest.raises(error, match=message):
        collate(demo, batch)


def test_h1_lengths_without_the_padding_need_the_mask(demo):
    ids = np.array([[5, 7, 9, 0], [0, 0, 2, 4]])
    batch = {"input_ids": ids, "doc_lens": np.array([[2, 1], [1, 1]])}
    with pytest.raises(ValueError, match="doc_lens of row 0 adds up to 3; it must add up to 4"):
        collate(demo, batch)
    batch["attention_mask"] = np.array([[1, 1, 1, 0], [0, 0, 1, 1]])  # padded on the right, and on the left
    rows = collate(demo, batch)
    assert np.array_equal(rows[0, :, :3], alone(demo, [[5, 7], [9]]))
    assert np.array_equal(rows[1, :, 2:], alone(demo, [[2], [4]]))


def test_h1_one_length_for_each_row_is_its_length(demo):
    """Not a boundary: it only says where the padding begins."""
    ids = np.array([[5, 7, 9, 0], [2, 4, 0, 0]])
    rows = collate(demo, {"input_ids": ids, "seq_lens": np.array([3, 2])})
    assert np.array_equal(rows, demo.hash_batch(ids, layer_axis=1))


def test_h1_lengths_over_all_rows(demo):
    ids = np.array([[5, 7, 9], [2, 4, 8]])
    rows = collate(demo, {"input_ids": ids, "seq_lens": np.array([2, 4])})
    assert np.array_equal(rows[0], alone(demo, [[5, 7], [9]]))
    assert np.array_equal(rows[1], alone(demo, [[2, 4, 8]]))


def test_h1_numbers_in_arrays_of_objects_are_not_passed_by(demo):
    """Neither read nor left out: NumPy cannot say what they are."""
    objects = np.array([[3, 2]], dtype=object)
    ids = np.array([[5, 7, 9, 2, 4]])
    for name in ("seq_lengths", "doc_bounds"):
        for call in (map_batch, lambda batch, hasher: collate(hasher, batch)):
            with pytest.raises((TypeError, ValueError), match=name):
                call({"input_ids": ids, name: objects}, demo)


packs = st.lists(
    st.lists(st.lists(st.integers(0, 999), min_size=1, max_size=6), min_size=1, max_size=4), min_size=1, max_size=4
)


def described(rows, kind, length):
    """Say where the documents of padded rows end, in one way."""
    lengths = [[len(document) for document in row] for row in rows]
    most = max(map(len, lengths)) + 1
    if kind == "segment_ids":
        return [[n for n, d in enumerate(row) for _ in d] + [-1] * (length - sum(map(len, row))) for row in rows]
    if kind in ("position_ids", "input_pos"):
        return [[i for d in row for i in range(len(d))] + [0] * (length - sum(map(len, row))) for row in rows]
    if kind == "seq_lens":  # torchtune: the padding is a last document
        return [n + [length - sum(n)] + [0] * (most - len(n) - 1) for n in lengths]
    if kind == "doc_lens":
        return [n + [0] * (most - len(n)) for n in lengths]
    bounds = [np.cumsum([0, *n]).tolist() for n in lengths]
    if kind == "cu_seqlens":
        return [n + [-1] * (most + 1 - len(n)) for n in bounds]
    return [n[:-1] + [-1] * (most - len(n) + 1) for n in bounds]


@pytest.mark.parametrize(
    "kind", ["segment_ids", "position_ids", "input_pos", "seq_lens", "doc_lens", "cu_seqlens", "seq_start_id"]
)
@given(packs, st.booleans(), st.integers(0, 999))
def test_h1_every_document_of_a_packed_batch_has_its_own_rows(demo, kind, rows, left, pad):
    flat = [[token for document in row for token in document] for row in rows]
    length = max(map(len, flat))
    left = left and kind not in ("seq_lens",)
    ids, mask = np.full((len(flat), length), pad), np.zeros((len(flat), length), np.int64)
    boundary = np.array(described(rows, kind, length))
    for row, tokens in enumerate(flat):
        at = slice(length - len(tokens), None) if left else slice(len(tokens))
        ids[row, at], mask[row, at] = tokens, 1
        if left and kind in ("segment_ids", "position_ids", "input_pos"):
            boundary[row] = np.roll(boundary[row], length - len(tokens))
    batch = {"input_ids": ids, kind: boundary, "attention_mask": mask}
    got = collate(demo, {name: torch.from_numpy(value) for name, value in batch.items()})
    for row, documents in enumerate(rows):
        assert np.array_equal(np.asarray(got[row])[:, mask[row] == 1], alone(demo, documents))


@pytest.mark.parametrize("kind", ["segment_ids", "position_ids", "seq_lengths", "seq_start_id"])
@given(packs)
def test_h1_every_document_of_packed_examples_has_its_own_rows(demo, kind, rows):
    flat = [[token for document in row for token in document] for row in rows]
    described_rows = {
        "segment_ids": lambda row: [n for n, d in enumerate(row) for _ in d],
        "position_ids": lambda row: [i for d in row for i in range(len(d))],
        "seq_lengths": lambda row: [len(d) for d in row],
        "seq_start_id": lambda row: np.cumsum([0, *(len(d) for d in row)])[:-1].tolist(),
    }[kind]
    lists = {"input_ids": flat, kind: [described_rows(row) for row in rows]}
    add = AddRows(demo)
    from_lists, from_arrow = add(lists)["engram_rows"], add(pa.table(lists)).column("engram_rows").to_pylist()
    batch = EngramCollator(demo)([{"input_ids": ids, kind: where} for ids, where in zip(*lists.values(), strict=True)])
    for row, documents in enumerate(rows):
        want = alone(demo, documents)
        assert np.array_equal(from_lists[row].swapaxes(0, 1), want)
        assert np.array_equal(np.array(from_arrow[row]).swapaxes(0, 1), want)
        assert np.array_equal(batch["engram_rows"][row, :, : len(flat[row])], want)
