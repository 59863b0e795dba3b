"""`EngramCollator`: packed equals separate, padded equals alone, whatever key says it; inputs stay as they are."""

import copy
import pickle
from itertools import chain

import numpy as np
import pytest
from engram_fast.data import EngramCollator, PadCollate, batch_bytes, map_batch, with_rows
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is missing")

documents_of = st.lists(st.lists(st.integers(0, 999), min_size=1, max_size=7), min_size=1, max_size=6)


def alone(hasher, ids, **options):
    """Rows [L, T, C] of one document."""
    return hasher.hash_batch(np.array([ids], np.int64), layer_axis=1, **options)[0]


def same(got, want):
    return np.array_equal(np.asarray(got), want)


def packed(documents, how):
    """A flattened batch [1, N] that tells its documents in one way."""
    lengths = [len(document) for document in documents]
    batch = {"input_ids": torch.tensor([list(chain(*documents))])}
    cumulative = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32)
    numbers = torch.tensor([[i for i, n in enumerate(lengths) for _ in range(n)]], dtype=torch.int32)
    start = 2 if how == "position_ids from 2" else 0
    batch |= {
        "position_ids": {"position_ids": torch.cat([torch.arange(n) for n in lengths])[None]},
        "position_ids from 2": {"position_ids": torch.cat([torch.arange(n) + start for n in lengths])[None]},
        "cu_seq_lens_q": {"cu_seq_lens_q": cumulative},
        "cu_seqlens": {"cu_seqlens": cumulative.long()},
        "seq_idx": {"seq_idx": numbers},
        "segment_ids": {"segment_ids": numbers % 2},
        "numbered mask": {"attention_mask": numbers + 1},
        "all": {
            "position_ids": torch.cat([torch.arange(n) for n in lengths])[None],
            "cu_seq_lens_q": cumulative,
            "seq_idx": numbers,
            "attention_mask": torch.ones_like(numbers),
        },
    }[how]
    return batch


WAYS = [
    "position_ids",
    "position_ids from 2",
    "cu_seq_lens_q",
    "cu_seqlens",
    "seq_idx",
    "segment_ids",
    "numbered mask",
    "all",
]


@pytest.mark.parametrize("how", WAYS)
@settings(max_examples=25, deadline=None)
@given(documents=documents_of)
def test_packed_equals_separate(hasher, how, documents):
    batch = EngramCollator(hasher, lambda _: packed(documents, how))(None)
    want = np.concatenate([alone(hasher, document) for document in documents], axis=1)
    assert batch["engram_rows"].shape == (1, *want.shape)
    assert same(batch["engram_rows"][0], want)


@pytest.mark.parametrize("as_type", [list, np.array, torch.tensor])
@settings(max_examples=25, deadline=None)
@given(documents=documents_of)
def test_padded_equals_alone(hasher, as_type, documents):
    batch = EngramCollator(hasher)([{"input_ids": as_type(document)} for document in documents])
    assert batch["input_ids"].shape[:1] == (len(documents),)
    for ids, rows, document in zip(batch["input_ids"], batch["engram_rows"], documents, strict=True):
        assert ids[: len(document)].tolist() == document
        assert same(rows[:, : len(document)], alone(hasher, document))


@settings(max_examples=25, deadline=None)
@given(documents=documents_of, bad=st.sampled_from([0, -100, 10**6]))
def test_left_padding_and_what_stands_under_the_mask(hasher, documents, bad):
    longest = max(len(document) for document in documents)
    ids = torch.full((len(documents), longest), bad)
    mask = torch.zeros_like(ids)
    for row, document in enumerate(documents):
        ids[row, longest - len(document) :] = torch.tensor(document)
        mask[row, longest - len(document) :] = 1
    positions = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 1)
    for extra in ({}, {"position_ids": positions}):
        batch = EngramCollator(hasher, lambda _, e=extra: {"input_ids": ids, "attention_mask": mask} | e)(None)
        for rows, document in zip(batch["engram_rows"], documents, strict=True):
            assert same(rows[:, longest - len(document) :], alone(hasher, document))


def test_a_real_token_equal_to_the_pad_id_stays_a_token(hasher):
    batch = EngramCollator(hasher)([{"input_ids": [5, 0, 7]}, {"input_ids": [9]}])
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert same(batch["engram_rows"][0], alone(hasher, [5, 0, 7]))


def test_inputs_and_labels_stay_as_they_are(hasher):
    examples = [
        {"input_ids": np.array([5, 7, 9]), "labels": np.array([-100, 7, 9])},
        {"input_ids": np.array([2])},
    ]
    kept = copy.deepcopy(examples)
    batch = EngramCollator(hasher, pad_token_id=3)(examples)
    for example, before in zip(examples, kept, strict=True):
        assert example.keys() == before.keys()
        assert all(np.array_equal(example[key], before[key]) for key in example)
    assert batch["input_ids"].tolist() == [[5, 7, 9], [2, 3, 3]]
    assert batch["labels"].tolist() == [[-100, 7, 9], [-100, -100, -100]]
    batch["input_ids"].zero_()
    assert examples[0]["input_ids"].tolist() == [5, 7, 9]


def test_the_base_keeps_its_batch(hasher):
    kept = {"input_ids": torch.tensor([[1, 2]])}
    batch = EngramCollator(hasher, lambda _: kept)(None)
    assert set(kept) == {"input_ids"}
    assert batch["input_ids"] is kept["input_ids"]
    with pytest.raises(ValueError, match="already has 'engram_rows'"):
        EngramCollator(hasher, lambda _: batch)(None)


@pytest.mark.parametrize(("axis", "shape"), [(0, (2, 3, 5, 4)), (1, (3, 2, 5, 4)), (-2, (3, 5, 2, 4))])
def test_axes(hasher, rng, axis, shape):
    ids = rng.integers(0, 1000, (3, 5))
    batch = EngramCollator(hasher, layer_axis=axis)([{"input_ids": row} for row in ids])
    rows = batch["engram_rows"]
    assert rows.dtype == torch.int32
    assert tuple(rows.shape) == shape
    assert rows.is_contiguous()
    assert same(rows, hasher.hash_batch(ids, layer_axis=axis))
    assert rows.numel() * rows.element_size() == batch_bytes(3, 5, hasher)


def test_options(hasher, rng):
    ids = rng.integers(0, 1000, (3, 5))
    examples = [{"input_ids": row} for row in ids]
    whole = hasher.hash_batch(ids)
    per_layer = EngramCollator(hasher, per_layer=True)(examples)
    assert set(per_layer) == {"input_ids", "engram_rows_1", "engram_rows_15"}
    assert same(per_layer["engram_rows_1"], whole[0])
    assert same(per_layer["engram_rows_15"], whole[1])
    assert per_layer["engram_rows_15"].is_contiguous()
    one = EngramCollator(hasher, layers=[15], dtype=np.int64, key="rows")(examples)["rows"]
    assert one.dtype == torch.int64
    assert same(one, whole[1][:, None])
    assert batch_bytes(3, 5, hasher, layers=[15], dtype=np.int64) == one.numel() * 8
    with pytest.raises(ValueError, match="layer_axis is 3"):
        EngramCollator(hasher, layer_axis=3)


@pytest.mark.parametrize("size", [1, 13])
def test_shapes_follow_from_the_layout(hasher, size):
    collator = EngramCollator(hasher)
    first, second = (collator([{"input_ids": [0] * size}]) for _ in range(2))
    assert tuple(first["engram_rows"].shape) == (1, 2, size, 4)
    assert same(first["engram_rows"], second["engram_rows"].numpy())


def test_flat_batches(hasher):
    ids = torch.tensor([1, 2, 3, 4, 5])
    base = {"input_ids": ids, "cu_seqlens": torch.tensor([0, 2, 5])}
    rows = EngramCollator(hasher, lambda _: base)(None)["engram_rows"]
    want = np.concatenate([alone(hasher, [1, 2]), alone(hasher, [3, 4, 5])], axis=1)
    assert same(rows, want.swapaxes(0, 1))  # flat ids: [N, L, C]
    assert same(EngramCollator(hasher, lambda _: base, layer_axis=0)(None)["engram_rows"], want)


def test_numpy_batches_and_masks_of_other_types(hasher):
    ids = np.array([[1, 2, 0]], np.int32)
    want = alone(hasher, [1, 2])
    for mask in ([[True, True, False]], [[1, 1, 0]], [[1.0, 1.0, 0.0]], [1, 1, 0], np.uint8([[1, 1, 0]])):
        batch = EngramCollator(hasher, lambda _, m=mask: {"input_ids": ids, "attention_mask": m})(None)
        assert same(batch["engram_rows"][0, :, :2], want)


@pytest.mark.parametrize(
    ("extra", "error", "message"),
    [
        ({"attention_mask": torch.ones(2, 1, 3, 3)}, ValueError, "attention_mask has shape"),
        ({"attention_mask": torch.tensor([[0.0, 0.0, -1e9]] * 2)}, ValueError, r"holds -1000000000.0 at \[0, 2\]"),
        ({"attention_mask": torch.tensor([[0, 1, -1]] * 2)}, ValueError, r"holds -1 at \[0, 2\]; 0 is padding"),
        ({"position_ids": torch.zeros(3, 2, 3)}, ValueError, "position_ids has shape"),
        ({"segment_ids": torch.zeros(2, 4)}, ValueError, "segment_ids has shape"),
        (
            {"cu_seq_lens_q": torch.tensor([0, 5])},
            ValueError,
            "cu_seq_lens_q runs from 0 to 5; it must run from 0 to 6",
        ),
        ({"cu_seq_lens_q": torch.tensor([0, 5, 4, 6])}, ValueError, "cu_seq_lens_q falls from 5 to 4 after entry 1"),
        ({"cu_seq_lens_q": torch.tensor([1, 6])}, ValueError, "runs from 1 to 6"),
        ({"cu_seq_lens_q": torch.tensor([0.0, 6.0])}, TypeError, "holds float32; it must hold integers"),
    ],
)
def test_refuses_boundaries_that_lie(hasher, extra, error, message):
    base = {"input_ids": torch.ones(2, 3, dtype=torch.int64), **extra}
    with pytest.raises(error, match=message):
        EngramCollator(hasher, lambda _: base)(None)
    ignored = EngramCollator(hasher, lambda _: base, ignore=tuple(extra))(None)
    assert same(ignored["engram_rows"][1], alone(hasher, [1, 1, 1]))


def test_lengths_over_several_rows(hasher):
    base = {"input_ids": torch.tensor([[1, 2, 3], [4, 5, 6]]), "cu_seqlens": torch.tensor([0, 2, 2, 5, 6])}
    rows = EngramCollator(hasher, lambda _: base)(None)["engram_rows"]
    assert same(rows[0], np.concatenate([alone(hasher, [1, 2]), alone(hasher, [3])], axis=1))
    assert same(rows[1], np.concatenate([alone(hasher, [4, 5]), alone(hasher, [6])], axis=1))


@pytest.mark.parametrize("batch", [torch.ones(2, 3, dtype=torch.int64), (1, 2), {"ids": torch.ones(1, 1)}])
def test_refuses_what_is_no_batch(hasher, batch):
    with pytest.raises((TypeError, ValueError), match="input_ids"):
        EngramCollator(hasher, lambda _: batch)(None)


@pytest.mark.parametrize("bad", [-1, -100, 1000, 2**40])
def test_an_id_outside_is_an_index_error(hasher, bad):
    with pytest.raises(IndexError, match=str(bad)):
        EngramCollator(hasher)([{"input_ids": [1, 2, bad]}])


@pytest.mark.parametrize("dtype", [np.uint16, np.int16, np.int32, np.uint32, np.uint64, np.int64])
def test_small_dtypes(hasher, dtype):
    batch = EngramCollator(hasher)([{"input_ids": np.array([5, 999, 7], dtype)}])
    assert same(batch["engram_rows"][0], alone(hasher, [5, 999, 7]))
    torch.nn.Embedding(1000, 2)(batch["input_ids"])


@pytest.mark.parametrize("value", [[1.5, 2.0], [True, False]])
def test_floats_and_bools_are_no_ids(hasher, value):
    with pytest.raises(TypeError):
        EngramCollator(hasher)([{"input_ids": value}])


@pytest.mark.parametrize("wrong", [None, 5, "hasher"])
def test_what_is_no_hasher_is_named_at_once(hasher, wrong):
    batch = {"input_ids": [[1]]}
    calls = (
        lambda: EngramCollator(wrong),
        lambda: EngramCollator(hasher.layout),
        lambda: with_rows([], wrong),
        lambda: map_batch(batch, wrong),
        lambda: batch_bytes(1, 1, wrong),
    )
    for call in calls:
        with pytest.raises(TypeError, match=r"^hasher: expected an NgramHasher, got "):
            call()


def test_pad_collate_leaves_the_rest_to_torch():
    examples = [
        {
            "input_ids": [1, 2],
            "labels": [1, 2],
            "weight": 0.5,
            "name": "a",
            "loss": [0.5, 1.0],
            "pair": torch.zeros(2, 2),
        },
        {
            "input_ids": [3, 4],
            "labels": [3, 4],
            "weight": 1.5,
            "name": "b",
            "loss": [1.5, 2.0],
            "pair": torch.ones(2, 2),
        },
    ]
    batch = PadCollate()(examples)
    assert "attention_mask" not in batch
    assert batch["weight"].tolist() == [0.5, 1.5]
    assert batch["name"] == ["a", "b"]
    assert batch["loss"].tolist() == [[0.5, 1.0], [1.5, 2.0]]
    assert batch["pair"].shape == (2, 2, 2)
    assert PadCollate()([torch.ones(2), torch.ones(2)]).shape == (2, 2)
    uneven = [{"input_ids": [1], "segment_ids": [4]}, {"input_ids": [1, 2], "segment_ids": [4, 5]}]
    assert PadCollate(pad_token_id=9)(uneven)["segment_ids"].tolist() == [[4, -1], [4, 5]]


def test_pickles_and_copies(hasher):
    collator = EngramCollator(hasher, layer_axis=-2)
    data = pickle.dumps(collator)
    assert len(data) < 4_000_000
    want = collator([{"input_ids": [1, 2, 3]}])["engram_rows"]
    for again in (pickle.loads(data), copy.deepcopy(collator)):
        assert again.hasher.layout.digest == collator.hasher.layout.digest
        assert same(again([{"input_ids": [1, 2, 3]}])["engram_rows"], want.numpy())


def test_padding_values_of_several_dtypes_loses_none_of_them(hasher):
    batch = EngramCollator(hasher)([{"input_ids": [1, 2], "weights": [1, 1]}, {"input_ids": [3], "weights": [0.5]}])
    assert batch["weights"].tolist() == [[1.0, 1.0], [0.5, 0.0]]
