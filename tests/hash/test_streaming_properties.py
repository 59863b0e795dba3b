"""Streaming equals the whole: chunks, drafts, forks and slices, with every layout and any mixture of boundaries."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import strategies as sts
from engram_fast import HashState, hash_slice
from hypothesis import given
from hypothesis import strategies as st


def same(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)


def chunks_of(data: st.DataObject, length: int) -> list[slice]:
    borders = sorted({0, length, *data.draw(st.lists(st.integers(0, length), max_size=7))})
    if length == 0 or data.draw(st.integers(0, 5)) == 0:
        borders = sorted([*borders, borders[-1]])  # an empty chunk
    return [slice(a, b) for a, b in itertools.pairwise(borders)] or [slice(0, 0)]


def part(where: dict, chunk: slice) -> dict:
    return {name: value[:, chunk] for name, value in where.items()}


@given(st.data())
def test_any_chunking_equals_the_whole_and_the_reference(data: st.DataObject) -> None:
    model = data.draw(sts.models())
    shape = data.draw(sts.shapes(400))
    ids = data.draw(sts.token_ids(model, shape))
    where = data.draw(sts.boundaries(shape))
    chunks = chunks_of(data, shape[1])
    state = model.hasher.new_state(shape[0])
    rows = [model.hasher.step(ids[:, at], state, dtype=np.int64, **part(where, at)) for at in chunks]
    whole = np.concatenate(rows, axis=2)
    same(whole, model.hasher.hash_batch(ids, dtype=np.int64, **where))
    same(whole, model.reference(ids, **where))
    assert state == model.hasher.seed(ids, **where)


@given(st.data())
def test_segment_ids_and_masks_may_come_and_go_between_chunks(data: st.DataObject) -> None:
    model = data.draw(sts.models())
    shape = data.draw(sts.shapes(400))
    ids = data.draw(sts.token_ids(model, shape))
    chunks = chunks_of(data, shape[1])
    each = [data.draw(sts.boundaries((shape[0], at.stop - at.start))) for at in chunks]
    state = model.hasher.new_state(shape[0])
    rows = [model.hasher.step(ids[:, at], state, dtype=np.int64, **w) for at, w in zip(chunks, each, strict=True)]
    expected = model.stream(
        [ids[:, at] for at in chunks],
        masks=[where.get("mask") for where in each],
        segment_ids=[where.get("segment_ids") for where in each],
    )
    for got, wanted in zip(rows, expected, strict=True):
        same(got, wanted)


@given(st.data())
def test_a_draft_is_peeked_and_its_accepted_part_committed(data: st.DataObject) -> None:
    model = data.draw(sts.models())
    rows, before, length = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 20)), data.draw(st.integers(0, 20))
    ids = data.draw(sts.token_ids(model, (rows, before + length)))
    where = data.draw(sts.boundaries(ids.shape))
    prompt, draft = slice(0, before), slice(before, before + length)
    state = model.hasher.seed(ids[:, prompt], **part(where, prompt))
    untouched = state.copy()
    peeked = model.hasher.peek(ids[:, draft], state, **part(where, draft))
    assert state == untouched
    accepted = np.array(data.draw(st.lists(st.integers(0, length), min_size=rows, max_size=rows)))
    # What was not accepted is not looked at, whatever it is.
    garbage = ids[:, draft].copy()
    for row, count in enumerate(accepted):
        garbage[row, count:] = data.draw(sts.WIDE)
    model.hasher.commit(state, garbage, accepted, **part(where, draft))
    for row, count in enumerate(accepted):
        alone = untouched.select([row])
        fed = slice(before, before + int(count))
        got = model.hasher.step(ids[row : row + 1, fed], alone, **{k: v[row : row + 1, fed] for k, v in where.items()})
        same(peeked[:, row : row + 1, :count], got)
        assert state.select([row]) == alone


@given(st.data())
def test_a_slice_after_the_tokens_before_it_equals_the_slice_of_the_whole(data: st.DataObject) -> None:
    model = data.draw(sts.models())
    shape = data.draw(sts.shapes(400))
    ids = data.draw(sts.token_ids(model, shape))
    where = data.draw(sts.boundaries(shape))
    halo = model.hasher.layout.max_order - 1 + data.draw(st.integers(0, 2))
    whole = model.hasher.hash_batch(ids, **where)
    for at in chunks_of(data, shape[1]):
        first = max(0, at.start - halo)
        before = slice(first, at.start)
        halves = {f"{name}_before": value[:, before] for name, value in where.items()}
        # The first rank has nothing before it, and may say so.
        given_before = None if first == at.start and data.draw(st.booleans()) else ids[:, before]
        halves = halves if given_before is not None else {}
        same(hash_slice(ids[:, at], model.hasher, given_before, **halves, **part(where, at)), whole[:, :, at])


@given(st.data())
def test_states_are_copied_selected_reset_and_stored(data: st.DataObject) -> None:
    model = data.draw(sts.models())
    rows = data.draw(st.integers(1, 5))
    ids = data.draw(sts.token_ids(model, (rows, data.draw(st.integers(0, 30)))))
    state = model.hasher.seed(ids, **data.draw(sts.boundaries(ids.shape)))
    following = data.draw(sts.token_ids(model, (rows, 9)))
    expected = model.hasher.peek(following, state)
    for again in (state.copy(), copy.copy(state), copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        assert again == state
        same(model.hasher.step(following, again), expected)

    history, lengths = state.to_numpy(raw=True)
    same(model.hasher.peek(following, HashState.from_numpy(history, model.hasher, lengths=lengths)), expected)
    history, lengths = state.to_numpy()
    assert history.shape == (rows, model.hasher.layout.max_order - 1)
    again = HashState.from_numpy(history, model.hasher, raw=False, lengths=lengths)
    same(model.hasher.peek(following, again), expected)

    beams = data.draw(st.lists(st.integers(0, rows - 1), max_size=6))
    same(model.hasher.step(following[beams], state.select(beams)), expected[:, beams])
    slots = data.draw(st.lists(st.integers(0, rows - 1), max_size=3))
    state.reset(slots)
    alone = model.hasher.hash_batch(following)
    reset = np.isin(np.arange(rows), slots)
    same(model.hasher.peek(following, state), np.where(reset[None, :, None, None], alone, expected))
    state.reset()
    assert state == model.hasher.new_state(rows)
