"""Slices hashed by their left context, and segments by position ids."""

from __future__ import annotations

import numpy as np
import pytest
from engram_fast import HashLayout, NgramHasher, TokenMap, hash_slice, reference, segments_from_position_ids
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

INTEGERS = st.sampled_from(["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", ">i4", ">u2"]).map(np.dtype)


@given(st.data())
def test_segments_are_those_of_the_reference(data: st.DataObject) -> None:
    dtype = data.draw(INTEGERS)
    limits = np.iinfo(dtype)
    some = st.sampled_from([0, 0, 1, 2, 3, int(limits.max), int(limits.min), int(limits.max) - 1])
    positions = data.draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=2, min_side=0), elements=some))
    got = segments_from_position_ids(positions)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, reference.segments_from_position_ids(positions))


def test_documents_that_restart_at_0_are_hashed_apart() -> None:
    hasher = NgramHasher(HashLayout.preset("qwen-ple"))
    documents = [np.arange(3), np.arange(50, 57), np.arange(9, 10)]
    packed = np.concatenate(documents)
    positions = np.concatenate([np.arange(len(document)) for document in documents])
    rows = hasher.hash_batch(packed, segment_ids=segments_from_position_ids(positions))
    apart = np.concatenate([hasher.hash_batch(document) for document in documents], axis=1)
    np.testing.assert_array_equal(rows, apart)
    torch = pytest.importorskip("torch", reason="needs the package torch")
    given = torch.from_numpy(positions[None])
    assert segments_from_position_ids(given).tolist() == [[0] * 3 + [1] * 7 + [2]]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [(1.5, TypeError), ([0.0], TypeError), (None, TypeError), ("0", TypeError), (3, ValueError), ([[[0]]], ValueError)],
)
def test_what_are_no_position_ids_is_refused(wrong: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="position_ids"):
        segments_from_position_ids(wrong)


TOKEN_MAP = TokenMap.identity(1000)
HASHER = NgramHasher(HashLayout.preset("engram-demo-v1", token_map=TOKEN_MAP, pad_id=0), TOKEN_MAP)
IDS = np.arange(24).reshape(2, 12)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"before": IDS[:1, 3:5]}, ValueError, "before"),
        ({"before": IDS[0, 3:5]}, ValueError, "before"),
        ({"before": [[1.0], [2.0]]}, TypeError, "before"),
        ({"before": [[1000], [2]]}, IndexError, "before: token id 1000 at row 0"),
        ({"before": IDS[:, 3:5], "mask_before": [[1, 1]]}, ValueError, "mask_before"),
        ({"before": IDS[:, 3:5], "mask_before": np.full((2, 2), 2)}, ValueError, "mask"),
        ({"before": IDS[:, 3:5], "segment_ids_before": [[1, 1]] * 2}, ValueError, "segment_ids_before"),
        ({"before": IDS[:, 3:5], "segment_ids": np.zeros((2, 7), int)}, ValueError, "segment_ids_before"),
        ({"before": None, "mask_before": [[1, 1]] * 2}, ValueError, "mask_before"),
        ({"before": None, "segment_ids_before": [[1, 1]] * 2}, ValueError, "segment_ids_before"),
        ({"before": None, "cu_seqlens": [0, 7]}, ValueError, "cu_seqlens"),
        ({"before": None, "ids": 5}, ValueError, "ids"),
        ({"before": None, "ids": [[0.5]]}, TypeError, "ids"),
    ],
)
def test_what_cannot_be_a_slice_is_refused(arguments: dict, error: type[Exception], message: str) -> None:
    given = {"ids": IDS[:, 5:], **arguments}
    with pytest.raises(error, match=message):
        hash_slice(given.pop("ids"), HASHER, **given)


def test_a_slice_takes_the_options_of_a_batch() -> None:
    whole = HASHER.hash_batch(IDS, layer_axis=1, dtype=np.int64)
    out = np.empty((2, 2, 7, 16), dtype=np.int64)
    assert hash_slice(IDS[:, 5:], HASHER, IDS[:, 3:5], layer_axis=1, out=out) is out
    np.testing.assert_array_equal(out, whole[:, :, 5:])
    np.testing.assert_array_equal(hash_slice(IDS[:, :5], HASHER, IDS[:, :0]), HASHER.hash_batch(IDS[:, :5]))
    np.testing.assert_array_equal(hash_slice(IDS[0, 5:], HASHER, IDS[0, 3:5]), HASHER.hash_batch(IDS[0])[:, 5:])


def test_what_is_masked_in_the_context_may_be_anything() -> None:
    ids, mask = IDS.copy(), np.ones(IDS.shape, dtype=bool)
    ids[1, 4], mask[1, 4] = -5000, False
    whole = HASHER.hash_batch(ids, mask=mask)
    at = {"mask_before": mask[:, 3:5], "mask": mask[:, 5:]}
    np.testing.assert_array_equal(hash_slice(ids[:, 5:], HASHER, ids[:, 3:5], **at), whole[:, :, 5:])
