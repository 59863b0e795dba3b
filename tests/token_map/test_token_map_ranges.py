"""How many ids a map has: holes, high ids, padded vocabularies, ids outside."""

import numpy as np
import pytest
from engram_fast import TokenMap
from token_map_tools import backend, fast


def test_the_range_ends_at_the_largest_id_not_at_the_number_of_tokens():
    tokenizer = fast({"a": 0, "b": 1, "c": 2, "zz": 7}, special=["<pad>"])
    assert len(tokenizer) == 5
    token_map = TokenMap.from_tokenizer(tokenizer)
    assert len(token_map) == 8
    assert token_map.holes == [3, 5, 6]
    assert len(set(token_map.lookup[[0, 1, 2, 4, 7]].tolist())) == 5
    assert len(set(token_map.lookup[[3, 5, 6]].tolist())) == 1
    assert token_map.compress([[7, 3, 7]]).tolist() == [[5, 3, 5]]


def test_a_hole_never_reads_as_a_token_with_text():
    token_map = TokenMap.from_tokenizer(backend({"a": 0, " ": 2}))
    assert len(set(token_map.lookup.tolist())) == 3


def test_a_vocabulary_padded_by_the_model():
    tokenizer = fast({"a": 0, "b": 1}, added=["X"], special=["<e>"])
    token_map = TokenMap.from_tokenizer(tokenizer, vocab_size=8)
    assert len(token_map) == 8
    assert token_map.holes == [4, 5, 6, 7]
    assert (token_map.lookup < token_map.size).all()
    assert token_map.compress([7, 3, 2]).shape == (3,)


@pytest.mark.parametrize("vocab_size", [3, 1, 0, -1, -(2**70)])
def test_a_vocab_size_that_loses_ids_is_refused(vocab_size):
    tokenizer = backend({"a": 0, "b": 1}, added=["X"], special=["<e>"])
    with pytest.raises(ValueError, match=rf"vocab_size: {vocab_size} loses token id 3"):
        TokenMap.from_tokenizer(tokenizer, vocab_size=vocab_size)


@pytest.mark.parametrize("vocab_size", [2**26 + 1, 2**40, 2**70])
def test_an_absurd_vocab_size_is_refused(vocab_size):
    with pytest.raises(ValueError, match=f"vocab_size: {vocab_size}"):
        TokenMap.from_tokenizer(backend({"a": 0}), vocab_size=vocab_size)


@pytest.mark.parametrize("vocab_size", [1.5, "8", True])
def test_a_vocab_size_that_is_no_int_is_a_type_error(vocab_size):
    with pytest.raises(TypeError, match=f"^vocab_size: expected an integer, got {type(vocab_size).__name__}$"):
        TokenMap.from_tokenizer(backend({"a": 0}), vocab_size=vocab_size)


@pytest.mark.parametrize("token_id", [2**26, 4_000_000_000, 2**32 - 1])
def test_an_absurd_id_is_refused_without_reserving_memory(tmp_path, token_id):
    with pytest.raises(ValueError, match=str(token_id)):
        TokenMap.from_tokenizer(backend({"a": 0, "b": token_id}))
    # By hand: the library takes minutes to write such a file.
    json = backend({"a": 0, "b": 123456}).to_str().replace("123456", str(token_id))
    (tmp_path / "tokenizer.json").write_text(json)
    with pytest.raises(ValueError, match=str(token_id)):
        TokenMap.from_file(tmp_path)


def test_a_numpy_integer_is_a_vocab_size():
    assert len(TokenMap.from_tokenizer(backend({"a": 0}), vocab_size=np.int64(5))) == 5


def test_a_pad_is_a_raw_id_and_is_mapped_once():
    token_map = TokenMap.from_tokenizer(backend({"Z": 0, "a": 1, "A": 2, "<pad>": 3}))
    assert token_map.lookup.tolist() == [0, 1, 1, 2]
    assert token_map.compress(3) == 2
    with pytest.raises(IndexError, match="token id 99 at position 0 is outside the token map of 4 ids"):
        token_map.compress(99)


def test_an_id_outside_is_named_with_its_place():
    token_map = TokenMap.identity(151669)
    ids = np.zeros((4, 20), dtype=np.int64)
    ids[3, 17] = 151936
    message = "^token id 151936 at row 3, column 17 is outside the token map of 151669 ids$"
    for dtype in (np.int64, np.int32, np.uint64, np.uint32, ">i8"):
        with pytest.raises(IndexError, match=message):
            token_map.compress(ids.astype(dtype))


@pytest.mark.parametrize(
    "token_id", [-1, -(2**63), 4, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**200, -(2**64)]
)
def test_no_id_wraps_into_the_range(token_id):
    with pytest.raises(IndexError, match=f"token id {token_id} at position 1 is outside"):
        TokenMap.identity(4).compress([0, token_id])
