"""States: what they hold, how they are copied and stored, and bad input to them, which changes nothing."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from argument_tools import HASHER, IDS, LAYOUT, NO_INTEGERS, TOKEN_MAP, out_of, refused, shown
from engram_fast import HashLayout, HashState, NgramHasher, TokenMap


def test_a_state_in_a_few_steps() -> None:
    state = HASHER.new_state(2)
    assert (state.batch, len(state), repr(state)) == (2, 2, "HashState(batch=2, look_back=2)")
    assert state.to_numpy()[0].tolist() == [[0, 0], [0, 0]], "the fill"
    assert state.to_numpy()[1].tolist() == [0, 0]
    HASHER.step([[5], [9]], state)
    assert state.to_numpy(raw=True)[0].tolist() == [[0, 5], [0, 9]]
    assert state.to_numpy()[1].tolist() == [1, 1]
    HASHER.step([[7, 3], [2, 4]], state)
    history, lengths = state.to_numpy()
    assert (history.tolist(), lengths.tolist()) == ([[7, 3], [2, 4]], [2, 2])
    assert (history.dtype, lengths.dtype) == (np.int64, np.int64)
    history[:] = 0  # a copy
    assert state == HashState.from_numpy([[5, 7, 3], [9, 2, 4]], HASHER)
    assert state.select([1, 1, 0]).to_numpy()[0].tolist() == [[2, 4], [2, 4], [7, 3]]
    assert len(state.select([])) == 0


def test_equality_is_of_content_and_states_have_no_hash() -> None:
    state = HASHER.seed(IDS)
    assert state == state.copy() == HASHER.seed(IDS)
    assert state != HASHER.seed(IDS[:1])
    assert state != HASHER.seed(IDS, segment_ids=IDS)
    assert state != HASHER.new_state(2)
    assert state != NgramHasher(LAYOUT, TOKEN_MAP).seed(IDS), "another layout"
    assert state != "state"
    assert state is not None
    with pytest.raises(TypeError, match="unhashable"):
        hash(state)


def test_a_copy_goes_its_own_way() -> None:
    state = HASHER.seed(IDS)
    for again in (state.copy(), copy.copy(state), copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        assert again == state
        HASHER.step([[1], [2]], again)
        assert again != state
    assert state == HASHER.seed(IDS)


def test_a_pickle_keeps_the_segment() -> None:
    state = HASHER.seed([[5, 7]], segment_ids=[[3, 3]])
    again = pickle.loads(pickle.dumps(state))
    for each in (state, again):
        rows = HASHER.step([[9]], each, segment_ids=[[4]])
        np.testing.assert_array_equal(rows, HASHER.hash_batch([[9]]))


def test_a_segment_is_the_same_number_whatever_the_dtype() -> None:
    """-1 and 2^64-1 have the same 64 bits."""
    unsigned, signed = np.array([[2**64 - 1]], np.uint64), np.array([[-1]])
    for first, second in ((unsigned, signed), (signed, unsigned)):
        state = HASHER.seed([[5]], segment_ids=first)
        again = pickle.loads(pickle.dumps(state))
        assert again == state
        np.testing.assert_array_equal(HASHER.peek([[7]], again, segment_ids=second), HASHER.hash_batch([[7]]))
        np.testing.assert_array_equal(
            HASHER.peek([[7]], again, segment_ids=first), HASHER.hash_batch([[5, 7]])[:, :, 1:]
        )
    small = HASHER.seed([[5]], segment_ids=np.array([[3]], np.uint64))
    assert small == HASHER.seed([[5]], segment_ids=np.array([[3]], np.int8))


def test_what_stands_under_a_mask_is_not_remembered() -> None:
    states = [HASHER.seed([[5, junk, 7]], mask=[[1, 0, 1]]) for junk in (0, -1, 2**40)]
    assert states[0] == states[1] == states[2]
    assert states[1].to_numpy(raw=True)[0].tolist() == [[0, 7]]


def test_what_is_out_of_reach_is_the_fill_or_known_by_its_length() -> None:
    token_map = TokenMap.from_lookup([3, 1, 2, 0])
    h = NgramHasher(HashLayout.preset("engram-demo-v1", token_map=token_map, pad_id=1).with_boundary(2), token_map)
    state = h.seed([[0, 2], [2, 3]])
    history, lengths = state.to_numpy()
    assert (history.tolist(), lengths.tolist()) == ([[1, 1], [1, 0]], [0, 1])
    history, lengths = state.to_numpy(raw=True)
    assert (history.tolist(), lengths.tolist()) == ([[0, 2], [2, 3]], [0, 1])
    masked = h.seed([[0, 3], [-9, 3]], mask=[[1, 0], [0, 1]])
    assert masked.to_numpy()[1].tolist() == [0, 1]
    history, lengths = masked.to_numpy(raw=True)
    following = h.peek([[3], [3]], masked)
    np.testing.assert_array_equal(h.peek([[3], [3]], HashState.from_numpy(history, h, lengths=lengths)), following)


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        *[(batch, ValueError) for batch in (-1, 2**30, 2**63 - 1, 10**30)],
        *[(batch, TypeError) for batch in (None, True, 1.0, "1", [1])],
    ],
    ids=shown,
)
def test_batches_that_no_state_has(batch: Any, error: type[Exception]) -> None:
    refused(error, "^batch: ", HASHER.new_state, batch)


def test_more_rows_than_a_state_has_are_refused_before_memory_is_taken() -> None:
    refused(ValueError, "^ids_so_far: ", HASHER.seed, np.zeros((2**40, 0), int))
    refused(ValueError, "^history: ", HashState.from_numpy, np.zeros((2**40, 0), int), HASHER)
    refused(ValueError, "^index: ", HASHER.new_state(1).select, np.broadcast_to(0, 2**45))
    # The result's shape would not fit an address, or any memory.
    refused(ValueError, "^ids: the result", HASHER.hash_batch, np.broadcast_to(np.uint8(1), (2**31, 2**31)))
    with pytest.raises(MemoryError):
        HASHER.hash_batch(np.broadcast_to(np.uint8(1), (2**21, 2**21)))
    with pytest.raises(MemoryError):
        TOKEN_MAP.compress(np.broadcast_to(np.uint8(1), (2**21, 2**21)))


@pytest.mark.parametrize("state", [None, 5, "state", HASHER, HASHER.new_state(2).to_numpy()], ids=["none", *"5sht"])
def test_states_that_are_none(state: Any) -> None:
    for call in (HASHER.step, HASHER.peek):
        refused(TypeError, "state", call, IDS, state)
    refused(TypeError, "state", HASHER.commit, state, IDS, [1, 1])


def test_states_of_another_layout_or_another_batch() -> None:
    other = NgramHasher(LAYOUT, TOKEN_MAP).new_state(2)
    for call in (HASHER.step, HASHER.peek):
        refused(ValueError, "^state: ", call, IDS, other)
        refused(ValueError, "the state has 3 rows", call, IDS, HASHER.new_state(3), out=out_of())
        refused(ValueError, "the state has 2 rows", call, IDS[0], HASHER.new_state(2))
        refused(ValueError, "the state has 0 rows", call, IDS[0], HASHER.new_state(0))
    refused(ValueError, "^state: ", HASHER.commit, other, IDS, [0, 0])
    refused(ValueError, "the state has 3 rows", HASHER.commit, HASHER.new_state(3), IDS, [0, 0])


@pytest.mark.parametrize(
    ("accepted", "error"),
    [
        *[(value, error) for value, error in NO_INTEGERS],
        (1, ValueError),
        ([1], ValueError),
        ([1, 1, 1], ValueError),
        ([[1, 1]], ValueError),
        ([-1, 1], ValueError),
        ([1, 5], ValueError),
        ([1, 2**63 - 1], ValueError),
        (np.array([1, 2**63], np.uint64), ValueError),
        ([1, 2**70], ValueError),
    ],
    ids=shown,
)
def test_accepted_counts_that_cannot_be(accepted: Any, error: type[Exception]) -> None:
    refused(error, "^accepted: ", HASHER.commit, HASHER.seed(IDS[:, :1]), IDS, accepted)


@pytest.mark.parametrize(
    ("index", "error"),
    [
        *[(value, error) for value, error in NO_INTEGERS[1:]],
        (0, ValueError),
        ([[0]], ValueError),
        ([2], IndexError),
        ([0, -1], IndexError),
        ([2**63 - 1], IndexError),
        (np.array([2**63], np.uint64), ValueError),
    ],
    ids=shown,
)
def test_rows_that_a_state_has_not(index: Any, error: type[Exception]) -> None:
    state = HASHER.seed(IDS)
    before = state.copy()
    for call in (state.select, state.reset):
        with pytest.raises(error, match=r"^index: |^row (2|-1|9223372036854775807) is outside the state's 2 rows"):
            call(index)
        assert state == before


@pytest.mark.parametrize(
    ("history", "error"),
    [*NO_INTEGERS, (np.array(5), ValueError), ([1, 2], ValueError), (np.zeros((1, 1, 1), int), ValueError)],
    ids=shown,
)
def test_histories_that_are_none(history: Any, error: type[Exception]) -> None:
    for raw in (True, False):
        refused(error, "^history: ", HashState.from_numpy, history, HASHER, raw=raw)


def test_histories_of_refused_ids_and_lengths() -> None:
    for bad in (-1, 1000, 2**63 - 1):
        message = f"^token id {bad} at row 1, column 2 is outside"
        refused(IndexError, message, HashState.from_numpy, [[5, 7, 9], [1, 2, bad]], HASHER)
    ids = np.array([[1, 2**64 - 1]], np.uint64)
    refused(IndexError, f"^token id {2**64 - 1} at row 0, column 1", HashState.from_numpy, ids, HASHER)
    refused(ValueError, f"^history: {2**64 - 1}", HashState.from_numpy, ids, HASHER, raw=False)
    for lengths, error in (
        *((value, error) for value, error in NO_INTEGERS[1:]),
        ([1], ValueError),
        ([1, -1], ValueError),
        ([1, 5], ValueError),
        ([[1, 1]], ValueError),
    ):
        refused(error, "^lengths: ", HashState.from_numpy, IDS, HASHER, lengths=lengths)
    refused(TypeError, "hasher", HashState.from_numpy, IDS, None)
    refused(TypeError, "raw", HashState.from_numpy, IDS, HASHER, raw="yes")
    # What the length leaves out is not looked at.
    assert HashState.from_numpy([[-5, 7]], HASHER, lengths=[1]) == HASHER.seed([[7]])


def test_compressed_histories_hold_compressed_ids() -> None:
    token_map = TokenMap.from_lookup([0, 1, 1, 2, 0])
    given = {"engram_vocab_size": [97, 97], "pad_id": 0, "token_map": token_map}
    strict = NgramHasher(HashLayout.preset("megatron", **given), token_map)
    for bad in (3, -1, 2**62):
        message = rf"^token id {bad} at row 1, column 1 is outside the 3 compressed ids"
        refused(IndexError, message, HashState.from_numpy, [[0, 1, 2], [9, bad, 2]], strict, raw=False)
    assert HashState.from_numpy([[9, 1, 2]], strict, raw=False) == HashState.from_numpy([[1, 2]], strict, raw=False)
    lax = NgramHasher(HashLayout.preset("engram-demo-v1", **given), token_map)
    entered = lax.seed([[-5, 3]])
    again = HashState.from_numpy(entered.to_numpy()[0], lax, raw=False)
    np.testing.assert_array_equal(lax.peek([[1]], again), lax.peek([[1]], entered))
    refused(IndexError, "^token id 100 at row 0, column 0", HashState.from_numpy, [[100]], lax, raw=False)
    bytes_ = NgramHasher(HashLayout.preset("blt"))
    refused(IndexError, "^token id -1 at row 0, column 0", HashState.from_numpy, [[-1]], bytes_, raw=False)


def test_raw_ids_of_a_state_from_compressed_ones() -> None:
    state = HashState.from_numpy([[3, 4]], HASHER, raw=False)
    with pytest.raises(ValueError, match="raw"):
        state.to_numpy(raw=True)
    HASHER.step([[8, 9]], state)
    assert state.to_numpy(raw=True)[0].tolist() == [[8, 9]]


def test_pickles_that_contradict_themselves() -> None:
    make, (content,) = HASHER.seed(IDS).__reduce__()
    for broken in (b"", b"{}", content[:-5], content.replace(b'"reach":2', b'"reach":3'), content.replace(b"2", b"x")):
        with pytest.raises(ValueError, match=r"."):
            make(broken)
    longer = make(content.replace(b'"reach":2', b'"reach":3').replace(b'"rows":[', b'"rows":[],"ignored":['))
    assert len(longer) == 0
    refused(ValueError, "^state: ", HASHER.step, np.zeros((0, 4), int), longer)
