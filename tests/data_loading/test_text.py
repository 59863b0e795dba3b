"""`hash_texts`: what tokenising and hashing give one after the other, with padding and truncation in the way."""

import numpy as np
import pytest
from engram_fast.data import hash_texts

tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is missing")

TEXTS = ["t1 t2 t3", "", "t4", "t5 t6 unknown t7", "t1 t1 t1 t1"] * 7


@pytest.fixture
def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocab = {f"t{i}": i for i in range(20)} | {"<s>": 20, "<pad>": 21}
    made = Tokenizer(models.WordLevel(vocab, unk_token="t0"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 20)])
    return made


def check(hasher, hashed, encoded, **options):
    assert len(hashed) == len(encoded)
    assert hashed.cu_seqlens.dtype == np.int64
    for index, ids in enumerate(encoded):
        got_ids, rows = hashed[index]
        assert got_ids.tolist() == ids
        assert np.array_equal(rows, hasher.hash_batch(np.array([ids], np.int64), layer_axis=-2, **options)[0])


@pytest.mark.parametrize("chunk", [1, 4, 35, 1000])
@pytest.mark.parametrize("special", [True, False])
def test_equals_tokenising_then_hashing(hasher, tokenizer, chunk, special):
    hashed = hash_texts(TEXTS, tokenizer, hasher, chunk=chunk, add_special_tokens=special)
    check(hasher, hashed, [tokenizer.encode(text, add_special_tokens=special).ids for text in TEXTS])
    assert hashed.rows.dtype == np.int32
    assert hashed[-1][0].tolist() == hashed[len(TEXTS) - 1][0].tolist()
    with pytest.raises(IndexError, match="text 35 is outside the 35 texts"):
        hashed[35]


def test_options_reach_the_hasher(hasher, tokenizer):
    hashed = hash_texts(TEXTS, tokenizer, hasher, layers=[15], dtype=np.int64)
    check(hasher, hashed, [tokenizer.encode(text).ids for text in TEXTS], layers=[15], dtype=np.int64)
    assert hashed.rows.dtype == np.int64


@pytest.mark.parametrize("source", [list, iter])
def test_arrays_grow(hasher, tokenizer, source):
    """Tokens per character change along the way, so what was reserved is too little."""
    texts = ["x" * 200, *TEXTS, "t1 " * 500]
    hashed = hash_texts(source(texts), tokenizer, hasher, chunk=1)
    check(hasher, hashed, [tokenizer.encode(text).ids for text in texts])


def test_what_is_reserved_stays_near_what_is_there(hasher, tokenizer):
    """Texts without a character have tokens all the same, where the tokenizer adds some."""
    texts = [""] * 1023 + ["t1"] + ["t1 " * 1000] * 20
    hashed = hash_texts(texts, tokenizer, hasher)
    check(hasher, hashed, [tokenizer.encode(text).ids for text in texts])
    assert len(hashed.rows.base) <= 4 * len(hashed.rows)


@pytest.mark.parametrize("source", [iter, tuple, np.array])
def test_any_iterable(hasher, tokenizer, source):
    check(hasher, hash_texts(source(TEXTS), tokenizer, hasher), [tokenizer.encode(text).ids for text in TEXTS])


def test_arrow_strings(hasher, tokenizer):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is missing")
    check(hasher, hash_texts(pa.array(TEXTS), tokenizer, hasher), [tokenizer.encode(text).ids for text in TEXTS])


def test_nothing(hasher, tokenizer):
    hashed = hash_texts([], tokenizer, hasher)
    assert len(hashed) == 0
    assert hashed.rows.shape == (0, 2, 4)
    assert hashed.cu_seqlens.tolist() == [0]


@pytest.mark.parametrize("direction", ["left", "right"])
def test_padding_is_left_out(hasher, tokenizer, direction):
    want = [tokenizer.encode(text).ids for text in TEXTS]
    tokenizer.enable_padding(pad_id=21, pad_token="<pad>", direction=direction)
    check(hasher, hash_texts(TEXTS, tokenizer, hasher), want)


def test_transformers(hasher, tokenizer):
    transformers = pytest.importorskip("transformers", reason="transformers is missing")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>")
    check(hasher, hash_texts(TEXTS, fast, hasher), fast(TEXTS)["input_ids"])
    fast(["t1 t2 t3"], truncation=True, max_length=2)
    with pytest.raises(ValueError, match="cutting texts at 2 tokens"):
        hash_texts(TEXTS, fast, hasher)


def test_refusals(hasher, tokenizer):
    with pytest.raises(TypeError, match="one string"):
        hash_texts("t1 t2", tokenizer, hasher)
    with pytest.raises(TypeError, match="text 1 is of type int; it must be a string"):
        hash_texts(["t1", 3], tokenizer, hasher)
    with pytest.raises(TypeError, match="has no Rust tokenizer"):
        hash_texts(TEXTS, object(), hasher)
    with pytest.raises(ValueError, match="chunk is 0"):
        hash_texts(TEXTS, tokenizer, hasher, chunk=0)


@pytest.mark.parametrize("source", [list, iter])
@pytest.mark.parametrize(("before", "chunk"), [(1, 1024), (5, 2), (1500, 1024)])
def test_k_a_text_without_a_utf8_form_is_named_by_its_number(hasher, tokenizer, source, before, chunk):
    texts = [*["t1"] * before, "b \ud800", "t2"]
    with pytest.raises(ValueError, match=rf"text {before} has the lone surrogate '\\ud800' at character 2"):
        hash_texts(source(texts), tokenizer, hasher, chunk=chunk)


def test_an_id_outside_is_an_index_error(hasher):
    from tokenizers import Tokenizer, models

    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 5000}, unk_token="a"))
    with pytest.raises(IndexError, match="5000"):
        hash_texts(["b"], tokenizer, hasher)
