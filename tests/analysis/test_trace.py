"""Traces agree with the reference's windows and the core's rows; rows lead back to their n-grams."""

from __future__ import annotations

import doctest
import importlib
from collections import Counter

import numpy as np
import pytest
import strategies as sts
from engram_fast import HashLayout, NgramHasher, TokenMap, find_row, reference
from hypothesis import given, settings
from hypothesis import strategies as st


def hasher_of(**overrides) -> NgramHasher:
    token_map = TokenMap.from_lookup(np.arange(1000) // 2)
    given = {"engram_vocab_size": [11, 11], "n_head_per_ngram": 2, "pad_id": 0} | overrides
    return NgramHasher(HashLayout.preset("engram-demo-v1", token_map=token_map, **given), token_map)


@given(st.data())
def test_every_window_and_row_is_that_of_the_reference(data: st.DataObject) -> None:
    model = data.draw(sts.models())
    shape = (data.draw(st.integers(0, 3)), data.draw(st.integers(0, 12)))
    ids = data.draw(sts.token_ids(model, shape))
    where = data.draw(sts.boundaries(shape))
    layout = model.hasher.layout
    rows = model.reference(ids, **where)
    found = model.hasher.trace(ids, **where)
    assert len(found) == shape[0] * shape[1] * len(layout.layer_ids) * len(layout.orders)

    objects = ids.astype(object)
    alive = where.get("mask", np.ones(shape, bool))
    run = reference.reach(model.document, objects, alive, where.get("segment_ids", np.zeros(shape, int)), set())
    values = reference.compress(model.document, objects, alive, model.lookup, lambda r, t: f"{r} {t}")
    windows = reference.window(values, run, layout.fill, layout.max_order)
    for ngram in found:
        (row, t), index = ngram.place, layout.layer_ids.index(ngram.layer)
        assert ngram.rows == tuple(rows[index, row, t, list(ngram.columns)])
        assert len(ngram.ids) == len(ngram.values) == len(ngram.look_backs) == ngram.order
        assert ngram.values == tuple(windows[row, t, list(ngram.look_backs)])
        assert ngram.is_fill == tuple(k >= run[row, t] for k in ngram.look_backs)
        assert ngram.ids == tuple(ids[row, t - k] if k < run[row, t] else None for k in ngram.look_backs)


@settings(max_examples=20)
@given(st.data())
def test_rows_lead_back_to_every_ngram_that_reads_them(data: st.DataObject) -> None:
    model = data.draw(sts.models())
    documents = [data.draw(sts.token_ids(model, (n,))) for n in data.draw(st.lists(st.integers(0, 30), max_size=5))]
    layer = data.draw(st.sampled_from(model.hasher.layout.layer_ids))
    expected: dict[int, Counter] = {}
    for document in documents:
        for ngram in model.hasher.trace(document, layers=[layer]):
            for column, row in zip(ngram.columns, ngram.rows, strict=True):
                expected.setdefault(row, Counter())[column, ngram.ids, ngram.values] += 1
    for row in list(expected)[:: max(1, len(expected) // 5)]:
        readers = find_row(iter(documents), model.hasher, row, layer, chunk_tokens=data.draw(st.integers(1, 50)))
        assert {r.layer for r in readers} == {layer}
        assert {(r.column, r.ids, r.values): r.count for r in readers} == dict(expected[row])
        assert [r.count for r in readers] == sorted((r.count for r in readers), reverse=True)


def test_text_comes_from_a_function_or_a_tokenizer() -> None:
    hasher = hasher_of()

    class Tokenizer:
        def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
            assert not skip_special_tokens
            return "".join(chr(97 + token) for token in ids)

    class Plain:
        def decode(self, ids: list[int]) -> str:
            return "".join(chr(97 + token) for token in ids)

    for decode in (Tokenizer(), Plain(), Plain().decode):
        texts = [(ngram.order, ngram.text) for ngram in hasher.trace([0, 1, 2], decode, layers=[1])]
        assert texts == [(2, "a"), (3, "a"), (2, "ab"), (3, "ab"), (2, "bc"), (3, "abc")]
    assert {ngram.text for ngram in hasher.trace([0, 1])} == {None}
    with pytest.raises(TypeError, match="decode"):
        hasher.trace([0, 1], 5)


def test_ngrams_that_differ_in_raw_ids_alone_share_a_row() -> None:
    hasher = hasher_of(engram_vocab_size=[10007, 10007])
    row = int(hasher.hash([[4, 6]])[15][0, 1, 0])
    corpus = np.tile(np.array([[4, 6, 5, 7, 4, 7]]), (5, 1))
    readers = find_row(corpus, hasher, row, 15, column=0)
    assert [(r.ids, r.values, r.count) for r in readers][:2] == [((4, 6), (2, 3), 5), ((4, 7), (2, 3), 5)]
    assert {r.values for r in readers} == {(2, 3)}


def test_a_long_document_is_read_in_parts_without_losing_or_repeating() -> None:
    hasher = hasher_of()
    ids = np.random.default_rng(0).integers(0, 1000, 5000, dtype=np.uint16)
    rows = hasher.hash(ids)[1]
    for row in (0, 5):
        whole = find_row(ids, hasher, row, 1)
        assert find_row(ids, hasher, row, 1, chunk_tokens=77) == whole
        for column in range(4):
            of_column = sum(r.count for r in whole if r.column == column)
            assert of_column == (rows[:, column] == row).sum()
            assert sum(r.count for r in find_row(ids, hasher, row, 1, column=column)) == of_column


def test_several_layers_are_searched_at_once() -> None:
    hasher = hasher_of()
    ids = np.random.default_rng(1).integers(0, 50, (4, 60))
    apart = [reader for layer in (15, 1) for reader in find_row(ids, hasher, 5, layer)]
    together = find_row(ids, hasher, 5, [15, 1])
    assert {reader.layer for reader in together} == {1, 15}
    assert sorted(together, key=lambda r: r.layer != 15) == sorted(apart, key=lambda r: r.layer != 15)
    with pytest.raises(ValueError, match="layer: 2"):
        find_row(ids, hasher, 5, [1, 2])


def test_offsets_say_which_column_a_row_belongs_to() -> None:
    hasher = hasher_of()
    ids = np.arange(200)
    offset = int(hasher.layout.offsets[1][2])
    shared = find_row(ids, hasher, offset + 3, 1, add_offsets=True)
    own = find_row(ids, hasher, 3, 1, column=2)
    assert shared == own
    assert own


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"row": -1}, IndexError, "row: -1"),
        ({"row": 13}, IndexError, r"row: 13 is outside the rows of layer 1 \(\d+ rows\), column 0"),
        ({"row": 3, "column": 4}, IndexError, "column: 4"),
        ({"row": 3, "column": -1}, IndexError, "column: -1"),
        ({"row": 3, "layer": 2}, ValueError, "layer: 2"),
        ({"row": 1.0}, TypeError, "row"),
        ({"row": True}, TypeError, "row"),
        ({"row": 3, "chunk_tokens": 0}, ValueError, "chunk_tokens"),
        ({"row": 3, "add_offsets": 2}, TypeError, "add_offsets"),
        ({"row": 3, "corpus": [1000]}, IndexError, "token id 1000"),
        ({"row": 3, "corpus": [np.array([1]), np.array([2**63], dtype=np.uint64)]}, IndexError, str(2**63)),
        ({"row": 3, "corpus": [[[1]]]}, ValueError, "corpus"),
        ({"row": 3, "corpus": [1.0]}, TypeError, "corpus"),
        ({"row": 3, "corpus": "text"}, TypeError, "corpus"),
        ({"row": 3, "corpus": np.zeros((1, 1, 1), int)}, ValueError, "corpus"),
    ],
)
def test_what_is_not_there_is_refused(arguments: dict, error: type[Exception], message: str) -> None:
    given = {"corpus": [5, 7, 9], "layer": 1, "column": 0, **arguments}
    with pytest.raises(error, match=message):
        find_row(given.pop("corpus"), hasher_of(), given.pop("row"), given.pop("layer"), **given)


@pytest.mark.parametrize("name", ["trace", "context", "hasher"])
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"engram_fast.{name}")).failed == 0
