"""engram-fast trace: the n-gram of each row, and the n-grams that read a row."""

from __future__ import annotations

import layout_tools
import numpy as np
import pytest
from cli_tools import listing, refuse, run, run_json, small_tokenizer
from engram_fast import HashLayout, NgramHasher, TokenMap, presets
from engram_fast.cli.text import show_ngram
from engram_fast.cli.trace import find_row

SMALL = ["--set", "engram_vocab_size=[97,97]", "--set", "n_head_per_ngram=2"]


@pytest.fixture
def tokenizer(tmp_path):
    return small_tokenizer(tmp_path / "model")


def hasher_of(name):
    """A preset with its smallest token map."""
    layout = layout_tools.preset(name)
    if layout.token_map_digest is None:
        return NgramHasher(layout)
    lookup = layout_tools.token_map("v4").lookup if name == "deepseek-v4.1" else np.arange(1000)
    return NgramHasher(layout, TokenMap.from_lookup(lookup))


@pytest.mark.parametrize("name", presets())
def test_each_ngram_alone_has_the_rows_that_it_was_traced_to(name):
    """The definition: a sequence that ends in the n-gram, and reaches nothing else, reads the same rows."""
    hasher = hasher_of(name)
    layout = hasher.layout
    ids = np.random.default_rng(0).integers(8, 100, 12)
    boundary = next(iter(layout.boundary_ids), None)
    if boundary is not None:
        ids[[4, 5, 9]] = boundary
    reads = hasher.trace(ids)
    rows = hasher.hash_batch(ids, dtype=np.int64)
    assert len(reads) == len(ids) * len(layout.layer_ids) * len(layout.orders)
    for read in reads:
        n = layout.layer_ids.index(read.layer)
        assert read.rows == tuple(rows[n, read.place[0], list(read.columns)])
        assert len(read.ids) == len(read.values) == read.order == layout.column_orders[read.columns[0]]
        present = [token for token in read.ids if token is not None]
        assert list(read.ids) == [None] * (read.order - len(present)) + present
        if layout.align == "oldest":
            # Newer tokens that take no part follow the n-gram.
            present += [8] * (layout.max_order - read.order)
        if present:
            alone = hasher.hash_batch(np.array(present), layers=[read.layer], dtype=np.int64)[0, -1]
            assert read.rows == tuple(alone[list(read.columns)])
        fills = [value for value, token in zip(read.values, read.ids, strict=True) if token is None]
        assert fills == [layout.fill] * len(fills)


def test_a_boundary_stops_the_look_back_after_itself():
    hasher = NgramHasher(HashLayout.preset("longcat"))
    pairs = [read.ids for read in hasher.trace([5, 2, 6, 7]) if read.order == 2]
    assert pairs == [(None, 5), (5, 2), (None, 6), (6, 7)]


def test_no_ids_are_no_reads():
    assert NgramHasher(HashLayout.preset("longcat")).trace([]) == []


@pytest.mark.parametrize("name", ["engram-demo-v1", "tilekernels", "longcat", "engram-peft"])
def test_find_row_is_the_inverse(name):
    hasher = hasher_of(name)
    documents = [np.random.default_rng(seed).integers(0, 30, 40) for seed in range(3)]
    reads = [(d, read) for d, ids in enumerate(documents) for read in hasher.trace(ids)]
    row = reads[70][1].rows[0]
    found = find_row(hasher, row, documents)
    expected: dict = {}
    for _, read in reads:
        for column, value in zip(read.columns, read.rows, strict=True):
            if value == row:
                key = read.layer, read.order, column, read.values
                expected[key] = expected.get(key, 0) + 1
    assert {(r.layer, r.order, r.column, r.values): r.count for r in found} == expected
    assert [reader.count for reader in found] == sorted((reader.count for reader in found), reverse=True)
    layer = hasher.layout.layer_ids[-1]
    only = find_row(hasher, row, documents, layers=[layer])
    assert only == [reader for reader in found if reader.layer == layer]


def test_find_row_refuses_what_no_row_has():
    hasher = hasher_of("engram-demo-v1")
    limit = max(int(hasher.layout.moduli[layer].max()) for layer in (1, 15))
    for row in (-1, limit):
        with pytest.raises(
            IndexError, match=rf"row: {row} is outside the rows of layer 1 \(\d+ rows\), 15 \(\d+ rows\)"
        ):
            find_row(hasher, row, [])
    assert find_row(hasher, limit - 1, []) == []
    with pytest.raises(ValueError, match="7 is not a layer"):
        find_row(hasher, 0, [], layers=[7])


def test_text_is_quoted_and_cannot_move_the_cursor():
    class Tokenizer:
        def decode(self, ids, skip_special_tokens):
            assert skip_special_tokens is False
            return "".join(map(chr, ids))

    assert show_ngram(Tokenizer(), [None, None]) == "∅ ∅"
    assert show_ngram(Tokenizer(), [None, 65, 27, 0x9B, 10]) == r"∅ 'A\x1b\x9b\n'"
    assert show_ngram(Tokenizer(), [0, 65], bos=0) == "<bos> 'A'"


def test_trace_text(tokenizer):
    report = run_json("trace", "the dog saw", "--tokenizer", tokenizer, *SMALL)
    token_map = TokenMap.from_file(tokenizer)
    layout = HashLayout.preset("engram-demo-v1", token_map=token_map, engram_vocab_size=[97, 97], n_head_per_ngram=2)
    rows = NgramHasher(layout, token_map).hash([report["ids"]])
    assert report["ids"] == [4, 5, 7]
    assert report["digest"] == layout.digest
    assert len(report["reads"]) == 3 * 2 * 2
    for read in report["reads"]:
        assert read["rows"] == rows[read["layer"]][0, read["position"], read["columns"]].tolist()
    last = report["reads"][-1]
    assert last["ids"] == [4, 5, 7]
    assert last["text"] == "'the dog saw'"
    assert last["compressed"] == token_map.compress([4, 5, 7]).tolist()
    assert report["reads"][0]["ids"] == [None, 4]
    assert report["reads"][0]["text"] == "∅ 'the'"
    text = run("trace", "the dog saw", "--tokenizer", tokenizer, "--layer", 15, *SMALL).stdout
    assert "layer 15" in text
    assert "layer 1:" not in text
    assert "'the dog saw'" in text


def test_trace_begins_with_bos_when_asked(tokenizer):
    assert run_json("trace", "dog", "--bos", "--tokenizer", tokenizer, *SMALL)["ids"] == [1, 5]


def test_trace_with_a_saved_hasher_needs_its_tokenizer(tokenizer, tmp_path):
    token_map = TokenMap.from_file(tokenizer, 16)
    layout = HashLayout.preset("engram-demo-v1", token_map=token_map)
    NgramHasher(layout, token_map).save(tmp_path / "hasher")
    report = run_json("trace", "dog", "--tokenizer", tokenizer, "--hasher", tmp_path / "hasher")
    assert report["digest"] == layout.digest
    other = small_tokenizer(tmp_path / "other", ["<u>", "a", "b", "dog"])
    sentence = refuse("trace", "dog", "--tokenizer", other, "--hasher", tmp_path / "hasher")
    assert "was made for the token map" in sentence


def test_trace_with_a_layout_of_raw_ids(tokenizer, tmp_path):
    assert run_json("trace", "dog", "--tokenizer", tokenizer, "--layout", "longcat")["layout"] == "longcat"
    NgramHasher(HashLayout.preset("longcat")).save(tmp_path / "hasher")
    report = run_json("trace", "dog", "--tokenizer", tokenizer, "--hasher", tmp_path / "hasher")
    assert report["reads"][0]["compressed"] == [0, 5]


def test_trace_row_finds_the_ngrams(tokenizer, tmp_path):
    reads = run_json("trace", "the dog saw a cat", "--tokenizer", tokenizer, *SMALL)["reads"]
    read = next(read for read in reads if read["text"] == "'dog saw'" and read["layer"] == 15)
    one, other = tmp_path / "one.txt", tmp_path / "other.txt"
    one.write_text("the dog saw a cat\nThe Dog saw the dog saw\n")
    other.write_text("a cat")
    options = ("--corpus", one, "--corpus", other, "--tokenizer", tokenizer, *SMALL)
    row = read["rows"][1]
    report = run_json("trace", "--row", row, "--layer", 15, *options)
    assert report["row"] == row
    assert report["layers"] == [15]
    found = next(reader for reader in report["readers"] if reader["column"] == read["columns"][1])
    assert found["count"] == 3
    assert found["compressed"] == read["compressed"]
    assert found["text"] == "'dog saw'"
    assert "'dog saw'" in run("trace", "--row", row, "--layer", 15, *options).stdout
    unread = next(r for r in range(97) if not run_json("trace", "--row", r, *options)["readers"])
    assert "no n-gram" in run("trace", "--row", unread, *options).stdout


def test_wrong_input_is_refused(tokenizer, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a cat")
    (tmp_path / "bytes.txt").write_bytes(b"a \xff cat")
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "tokenizer.json").write_bytes(tokenizer.read_bytes())
    before = listing(tmp_path)
    given = ("--tokenizer", tokenizer, *SMALL)
    for arguments, says in [
        ((*given,), "either TEXT, or --row"),
        (("dog", "--row", 1, *given), "either TEXT, or --row"),
        (("--row", 1, *given), "--corpus"),
        (("dog", "--corpus", corpus, *given), "--corpus"),
        (("dog", "--layer", 3, *given), "3 is not a layer"),
        (("--row", 1, "--corpus", corpus, "--layer", 3, *given), "3 is not a layer"),
        (("--row", 5000, "--corpus", corpus, *given), "row: 5000 is outside"),
        (("--row", -1, "--corpus", corpus, *given), "row: -1 is outside"),
        (("--row", 1, "--corpus", tmp_path / "missing", *given), "no such file"),
        (("--row", 1, "--corpus", tmp_path / "bytes.txt", *given), "not UTF-8 text at byte 2"),
        (("--row", 1, "--corpus", tmp_path / "empty.txt", *given), "the file is empty"),
        (("dog", "--tokenizer", tmp_path / "missing.json"), "no such file"),
        (("dog", "--tokenizer", tmp_path / "tokenizer.json"), "tokenizer"),
        (("dog", "--bos", "--tokenizer", tmp_path / "bare", *SMALL), "begin-of-sentence"),
        (("dog", "--layout", "nope", "--tokenizer", tokenizer), "not a preset"),
        (("dog", "--layout", "blt", "--config", corpus, "--tokenizer", tokenizer), "not both"),
        (("dog", "--layout", "blt", "--hasher", corpus, "--tokenizer", tokenizer), "exactly one"),
    ]:
        assert says in refuse("trace", *arguments), arguments
    assert listing(tmp_path) == before
