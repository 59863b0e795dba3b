"""demo_v1: the published demo's classes, attribute by attribute, against its golden arrays."""

from __future__ import annotations

import inspect
import sys

import goldens
import numpy as np
import pytest
from engram_fast import TokenMap, demo_v1, reference
from engram_fast.demo_v1 import CompressedTokenizer, NgramHashMapping
from token_map_tools import backend, fast, numbered

NAMES = ["demo_v1_deepseek_v3", "demo_v1_deepseek_v4", "demo_v1_odd_shape", "demo_v1_pad_moves"]
SMALL = {
    "engram_vocab_size": [97, 97],
    "max_ngram_size": 3,
    "n_embed_per_ngram": 8,
    "n_head_per_ngram": 2,
    "layer_ids": [1, 15],
    "pad_id": 0,
    "seed": 0,
}
PIECES = ["<u>", "The", "the", "dog", "Dog", "cat"]


def small(**changes):
    return NgramHashMapping(**{**SMALL, "tokenizer_name_or_path": TokenMap.identity(1000), **changes})


def mapping(name):
    """The demo's mapping with a golden's configuration, and that configuration."""
    config = {"n_embed_per_ngram": 512, **goldens.manifest()[name]}
    arguments = {key: config[key] for key in SMALL}
    token_map = TokenMap.from_lookup(goldens.lookup(config["tokenizer_name_or_path"]))
    return NgramHashMapping(**arguments, tokenizer_name_or_path=token_map), config


@pytest.mark.parametrize("name", NAMES)
def test_rows_and_numbers_equal_the_published_ones(name):
    demo, config = mapping(name)
    arrays = goldens.load(name)
    rows = demo.hash(arrays["input_ids"])
    assert list(rows) == config["layer_ids"]
    for layer in config["layer_ids"]:
        expected = arrays[f"hash_layer{layer}"]
        assert rows[layer].dtype == np.int64
        assert rows[layer].flags.c_contiguous
        np.testing.assert_array_equal(rows[layer], expected)
        assert rows[layer].shape == expected.shape
        if f"multipliers_layer{layer}" in arrays:
            np.testing.assert_array_equal(demo.layer_multipliers[layer], arrays[f"multipliers_layer{layer}"])
            assert demo.layer_multipliers[layer].dtype == np.int64
            primes = demo.vocab_size_across_layers[layer]
            assert np.concatenate(primes).tolist() == arrays[f"moduli_layer{layer}"].ravel().tolist()
            assert [len(heads) for heads in primes] == [config["n_head_per_ngram"]] * (config["max_ngram_size"] - 1)
    if "input_ids_with_negatives" in arrays:
        rows = demo.hash(arrays["input_ids_with_negatives"])
        for layer in config["layer_ids"]:
            np.testing.assert_array_equal(rows[layer], arrays[f"hash_negatives_layer{layer}"])


@pytest.mark.parametrize("name", NAMES)
def test_attributes_are_the_published_ones(name):
    demo, config = mapping(name)
    for attribute in ("max_ngram_size", "n_embed_per_ngram", "n_head_per_ngram", "layer_ids"):
        assert getattr(demo, attribute) == config.get(attribute, 512)
    assert demo.vocab_size_per_ngram == config["engram_vocab_size"]
    assert demo.pad_id == config["pad_compressed"]
    assert type(demo.pad_id) is int
    assert demo.tokenizer_vocab_size == len(demo.compressed_tokenizer) == config["compressed"]
    assert demo.calculate_vocab_size_across_layers() == demo.vocab_size_across_layers
    assert isinstance(demo.compressed_tokenizer, CompressedTokenizer)


@pytest.mark.parametrize("version", ["v3", "v4"])
def test_compressed_tokenizer_has_the_published_table(version):
    lookup = goldens.lookup(version)
    tokenizer = CompressedTokenizer(TokenMap.from_lookup(lookup))
    assert tokenizer.lookup_table.dtype == np.int64
    np.testing.assert_array_equal(tokenizer.lookup_table, lookup)
    assert tokenizer.num_new_token == len(tokenizer) == lookup.max() + 1


def test_call_maps_and_lets_negative_ids_pass():
    tokenizer = CompressedTokenizer(TokenMap.from_lookup([0, 5, 1]))
    for ids in ([[2, -7, 1]], np.array([[2, -7, 1]], np.int16), np.array([[2, -7, 1]], ">i4")):
        mapped = tokenizer(ids)
        assert mapped.dtype == np.int64
        assert mapped.tolist() == [[1, -7, 5]]
    assert tokenizer(np.array([2, 1], np.uint64)).tolist() == [1, 5]
    assert tokenizer(np.zeros((0, 3), int)).shape == (0, 3)


@pytest.mark.parametrize("ids", [[[3]], [[-1, 3]], np.array([2**63], np.uint64)])
def test_an_id_past_the_table_is_an_index_error(ids):
    with pytest.raises(IndexError, match=r"outside the token map of 3 ids"):
        CompressedTokenizer(TokenMap.from_lookup([0, 5, 1]))(ids)


@pytest.mark.parametrize("ids", [[1.0], [True], "abc", None])
def test_ids_that_are_no_integers_are_a_type_error(ids):
    with pytest.raises(TypeError, match="input_ids"):
        CompressedTokenizer(TokenMap.identity(3))(ids)


def test_a_tokenizer_is_taken_as_an_object_a_file_or_a_folder(tmp_path):
    tokenizer = backend(numbered(PIECES))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    expected = [0, 1, 1, 2, 2, 3]
    for given in (tokenizer, fast(numbered(PIECES)), tmp_path, str(tmp_path), tmp_path / "tokenizer.json"):
        assert CompressedTokenizer(given).lookup_table.tolist() == expected, given
        assert small(tokenizer_name_or_path=given).tokenizer_vocab_size == 4


def test_the_signature_is_the_published_one():
    published = [*list(SMALL)[:5], "tokenizer_name_or_path", "pad_id", "seed"]
    parameters = inspect.signature(NgramHashMapping).parameters.values()
    assert [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD] == published
    assert inspect.signature(CompressedTokenizer).parameters["tokenizer_name_or_path"].kind.name.startswith("POS")


class Auto:
    """Stands in for transformers' AutoTokenizer and notes how it was called."""

    calls: list = []  # noqa: RUF012

    @classmethod
    def from_pretrained(cls, name, **options):
        cls.calls.append((name, options))
        return backend(numbered(PIECES))


@pytest.mark.parametrize("trusted", [None, False, True])
def test_a_hub_name_goes_through_transformers_without_its_code(monkeypatch, trusted):
    monkeypatch.setitem(sys.modules, "transformers", type(sys)("transformers"))
    sys.modules["transformers"].AutoTokenizer = Auto
    Auto.calls.clear()
    options = {} if trusted is None else {"trust_remote_code": trusted}
    assert len(CompressedTokenizer("some-org/some-model", **options)) == 4
    assert Auto.calls == [("some-org/some-model", {"trust_remote_code": bool(trusted)})]
    small(tokenizer_name_or_path="some-org/some-model", **options)
    assert Auto.calls[1] == Auto.calls[0]


def test_a_hub_name_without_a_network_is_one_sentence_at_once(monkeypatch):
    pytest.importorskip("transformers", reason="needs transformers (the extra `hf`)")
    import socket
    import time

    def unreachable(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(socket, "create_connection", unreachable)
    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    start = time.monotonic()
    with pytest.raises(OSError, match=r"'some-org/some-model' is in no cache here.*tokenizer\.json") as caught:
        CompressedTokenizer("some-org/some-model")
    assert time.monotonic() - start < 30
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_hub_name_without_transformers_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"'some-org/some-model'.*install transformers"):
        CompressedTokenizer("some-org/some-model")


@pytest.mark.parametrize("name", ["missing.json", "/missing/folder", "./missing"])
def test_a_missing_path_is_not_taken_for_a_hub_name(name):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        CompressedTokenizer(name)


@pytest.mark.parametrize("tokenizer", [3, None, object(), TokenMap])
def test_what_is_no_tokenizer_is_a_type_error(tokenizer):
    with pytest.raises(TypeError, match="tokenizer"):
        CompressedTokenizer(tokenizer)


def test_arguments_are_copied_and_tables_are_read_only():
    layers, sizes = [1, 15], [97, 97]
    demo = small(layer_ids=layers, engram_vocab_size=sizes)
    before = demo.hash([[5, 7]])
    layers.append(3)
    sizes[0] = 1
    assert demo.layer_ids == [1, 15]
    assert demo.vocab_size_per_ngram == [97, 97]
    np.testing.assert_array_equal(demo.hash([[5, 7]])[1], before[1])
    with pytest.raises(ValueError, match="read-only"):
        demo.compressed_tokenizer.lookup_table[0] = 1
    primes = demo.calculate_vocab_size_across_layers()
    primes[1][0][0] = 0
    assert demo.vocab_size_across_layers[1][0][0] == 97


@pytest.mark.parametrize(
    ("changes", "error", "names"),
    [
        ({"max_ngram_size": 4}, ValueError, "engram_vocab_size"),
        ({"max_ngram_size": 1}, ValueError, "max_ngram_size"),
        ({"layer_ids": []}, ValueError, "layer_ids"),
        ({"layer_ids": [1, 1]}, ValueError, "layer_ids"),
        ({"pad_id": 1000}, ValueError, "pad_id"),
        ({"pad_id": None}, TypeError, "pad_id"),
        ({"seed": -1}, ValueError, "seed"),
        ({"n_head_per_ngram": 0}, ValueError, "n_head_per_ngram"),
        ({"n_embed_per_ngram": 0}, ValueError, "n_embed_per_ngram"),
        ({"engram_vocab_size": [97.5, 97]}, TypeError, "engram_vocab_size"),
    ],
)
def test_a_wrong_argument_is_named(changes, error, names):
    with pytest.raises(error, match=names):
        small(**changes)


def test_it_equals_the_reference_on_random_ids():
    demo = small(tokenizer_name_or_path=TokenMap.from_lookup(np.arange(1000) // 3))
    ids = np.random.default_rng(0).integers(-5, 1000, (3, 50))
    lookup = demo.compressed_tokenizer.lookup_table.astype(np.int32)
    parameters = {key: value for key, value in SMALL.items() if key != "n_embed_per_ngram"}
    layout = reference.preset("engram-demo-v1", lookup=lookup, **parameters)
    expected = reference.hash_rows(layout, ids, lookup=lookup)
    for layer, rows in zip(demo.layer_ids, expected, strict=True):
        np.testing.assert_array_equal(demo.hash(ids)[layer], rows)


def test_docstring_examples():
    import doctest

    assert doctest.testmod(demo_v1).failed == 0
