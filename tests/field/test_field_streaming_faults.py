"""Faults seen in the field at boundaries and between calls: each with an input that shows it, none of which may happen
here."""

from __future__ import annotations

import numpy as np
import pytest
from engram_fast import HashState, NgramHasher
from field_hasher import hasher, random_ids, same, strict

IDS = np.array([[5, 7, 5, 7, 9, 2, 2, 5]])
H = hasher()


@pytest.mark.parametrize("size", range(1, 9))
def test_a_chunk_does_not_forget_what_came_before(size: int) -> None:
    state = H.new_state(1)
    parts = [H.step(IDS[:, begin : begin + size], state) for begin in range(0, 8, size)]
    same(np.concatenate(parts, axis=2), H.hash_batch(IDS))


def test_an_empty_chunk_is_nothing() -> None:
    state = H.new_state(1)
    assert H.step(IDS[:, :0], state).shape == (2, 1, 0, 4)
    assert state == H.new_state(1)
    H.step(IDS[:, :3], state)
    before = state.copy()
    H.step(IDS[:, :0], state, mask=np.ones((1, 0), bool), segment_ids=np.zeros((1, 0), int))
    H.commit(state, IDS[:, :0], [0])
    assert state == before


def test_work_shared_by_threads_loses_nothing_where_it_is_cut() -> None:
    ids = random_ids(2, (1, 300_003))
    one = H.hash_batch(ids, num_threads=1)
    for threads in (2, 3, 7, 64):
        same(H.hash_batch(ids, num_threads=threads), one)
    same(H.hash_batch(ids[:, 2047:2060], num_threads=1)[:, :, 2:], one[:, :, 2049:2060])


def test_placeholders_are_never_taken_for_tokens() -> None:
    h = strict()
    state = h.seed([[5, 7]])
    before = state.copy()
    for placeholder in (-1, -100, 2**31 - 1):
        with pytest.raises(IndexError, match=f"token id {placeholder} at row 0, column 0"):
            h.step([[placeholder]], state)
    assert state == before
    # The token is fed when it is known; a draft is looked at without being fed.
    h.peek([[3]], state)
    h.step([[9]], state)
    same(h.step([[2]], state), h.hash_batch([[5, 7, 9, 2]])[:, :, -1:])


@pytest.mark.parametrize("accepted", range(5))
def test_a_rejected_draft_leaves_no_trace(accepted: int) -> None:
    prompt, draft, following = [5, 7, 9], [2, 6, 6, 6], 8
    state = H.seed([prompt])
    rows = H.peek([draft], state)
    same(rows, H.hash_batch([prompt + draft])[:, :, 3:])
    H.commit(state, [draft], [accepted])
    assert state == H.seed([prompt + draft[:accepted]])
    same(H.step([[following]], state), H.hash_batch([prompt + draft[:accepted] + [following]])[:, :, -1:])


def test_rows_of_a_batch_accept_different_counts_of_a_long_draft() -> None:
    prompts, drafts = random_ids(0, (5, 4)), random_ids(1, (5, 40))
    counts = np.array([0, 3, 40, 1, 25])
    state = H.seed(prompts)
    H.peek(drafts, state)
    H.commit(state, drafts, counts)
    following = random_ids(2, (5, 6))
    rows = H.step(following, state)
    for row, count in enumerate(counts):
        whole = np.concatenate([prompts[row], drafts[row, :count], following[row]])
        same(rows[:, row], H.hash_batch(whole)[:, -6:])


def test_a_refused_commit_changes_no_row() -> None:
    state = strict().seed(random_ids(0, (3, 4)))
    before = state.copy()
    with pytest.raises(IndexError, match="token id 1000 at row 2, column 1"):
        strict().commit(state, [[1, 2], [3, 4], [5, 1000]], [2, 2, 2])
    assert state == before
    # What is not accepted is not looked at.
    strict().commit(state, [[1, 2], [3, 4], [5, 1000]], [2, 0, 1])
    assert state.select([1]) == before.select([1])


def test_a_prompt_that_was_prefilled_elsewhere_is_a_seed() -> None:
    prompt = np.array([[2, 5, 7, 9]])
    fed = H.new_state(1)
    H.step(prompt, fed)
    assert fed == H.seed(prompt[:, -2:]) == H.seed(prompt) == H.seed(prompt[0])
    assert H.seed(prompt[:, -1:]) != fed
    assert HashState.from_numpy(prompt, H) == fed
    same(H.step([[1]], H.seed(prompt[:, -2:])), H.hash_batch([[*prompt[0], 1]])[:, :, -1:])


def test_a_document_ends_where_the_layout_says_and_nowhere_else() -> None:
    ids = np.array([[5, 7, 3, 9, 2, 3, 3, 5]])
    cut = NgramHasher(H.layout.with_boundary(3), H.token_map)
    want = H.hash_batch(ids[0], cu_seqlens=[0, 3, 6, 7, 8])
    same(cut.hash_batch(ids[0]), want)
    assert (H.hash_batch(ids[0]) != want).any(), "off unless asked for"
    for size in (1, 2, 3, 5):
        state = cut.new_state(1)
        parts = [cut.step(ids[:, begin : begin + size], state) for begin in range(0, 8, size)]
        same(np.concatenate(parts, axis=2)[:, 0], want)
    # The boundary token itself looks back.
    same(cut.hash_batch(ids[0, :3]), H.hash_batch(ids[0, :3]))


def test_boundaries_are_tested_on_raw_ids() -> None:
    h = hasher(lookup=[0, 1, 2, 2, 4])
    cut = NgramHasher(h.layout.with_boundary(3), h.token_map)
    same(cut.hash_batch([1, 2, 4, 0]), h.hash_batch([1, 2, 4, 0]))
    same(cut.hash_batch([1, 3, 4, 0]), h.hash_batch([1, 2, 4, 0], cu_seqlens=[0, 2, 4]))


def test_masked_positions_are_pads_to_later_ngrams_whatever_stands_there() -> None:
    ids, mask = np.array([[5, 7, 50, 50, 9, 2]]), np.array([[1, 1, 0, 0, 1, 1]], dtype=bool)
    rows = H.hash_batch(ids, mask=mask)
    same(rows[:, mask], H.hash_batch([[5, 7, 0, 0, 9, 2]])[:, mask])
    nothing = H.hash_batch([[0]], mask=[[0]])[:, 0, 0]
    assert (rows[:, ~mask] == nothing[:, None]).all()
    for garbage in (-1, -100, 10**6, 2**62, -(2**63)):
        ids[:, 2:4] = garbage
        same(H.hash_batch(ids, mask=mask), rows)
        same(strict().hash_batch(ids, mask=mask), rows)
        same(H.hash_batch(ids, mask=mask, out=np.zeros_like(rows)), rows)
    state = H.new_state(1)
    parts = [H.step(ids[:, t : t + 1], state, mask=mask[:, t : t + 1]) for t in range(6)]
    same(np.concatenate(parts, axis=2), rows)


def test_a_real_token_equal_to_the_pad_stays_a_token() -> None:
    ids, mask = np.array([[5, 0, 7, 0, 0]]), np.array([[1, 1, 1, 0, 0]])
    same(H.hash_batch(ids, mask=mask)[:, :, :3], H.hash_batch(ids[:, :3]))
    left = np.array([[0, 0, 5, 0, 7]])
    same(H.hash_batch(left, mask=mask[:, ::-1])[:, :, 2:], H.hash_batch(ids[:, :3]))
    # Segments say more than a pad id would: a 0 is a segment like any other.
    same(H.hash_batch(ids, segment_ids=[[1, 1, 1, 0, 0]])[:, :, 3:], H.hash_batch([[0, 0]]))


def test_inputs_are_never_changed() -> None:
    ids, mask, segments = random_ids(0, (3, 70)), random_ids(1, (3, 70)) > 300, random_ids(2, (3, 70)) // 500
    bounds = np.array([0, 3, 70])
    kept = [array.copy() for array in (ids, mask, segments, bounds)]
    H.hash_batch(ids, mask=mask, segment_ids=segments)
    H.hash_batch(ids[0], mask=mask[0], cu_seqlens=bounds)
    state = H.seed(ids, mask=mask, segment_ids=segments)
    H.step(ids, state, mask=mask, segment_ids=segments)
    H.commit(state, ids, [1, 70, 0], mask=mask)
    for array, copy in zip((ids, mask, segments, bounds), kept, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_states_fork_select_and_start_clean() -> None:
    state = H.new_state(2)
    H.step([[5, 7], [9, 2]], state)
    fork = state.select([0, 0, 1])
    H.step([[1], [2], [3]], fork)
    rows = H.step([[4], [4], [4]], fork)
    for row, sequence in enumerate(([5, 7, 1, 4], [5, 7, 2, 4], [9, 2, 3, 4])):
        same(rows[:, row], H.hash_batch(sequence)[:, -1:])
    state.reset([1])
    rows = H.step([[6], [6]], state)
    same(rows[:, 1], H.hash_batch([6]))
    same(rows[:, 0], H.hash_batch([5, 7, 6])[:, -1:])
    assert fork != state
    assert len(fork) == fork.batch == 3


def test_a_state_that_was_named_no_segment_takes_on_the_first() -> None:
    state = H.seed([[5, 7]])
    same(H.step([[9]], state, segment_ids=[[4]]), H.hash_batch([[5, 7, 9]])[:, :, -1:])
    same(H.step([[2]], state), H.hash_batch([[5, 7, 9, 2]])[:, :, -1:])
    same(H.step([[2]], state, segment_ids=[[5]]), H.hash_batch([[2]]))
    same(H.step([[8]], state, segment_ids=[[5]]), H.hash_batch([[2, 8]])[:, :, -1:])
