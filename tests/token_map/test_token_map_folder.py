"""`TokenMap.from_file(folder)`: the map of the tokenizer that transformers' `AutoTokenizer` loads from the folder."""

import json

import pytest
from engram_fast import TokenMap
from token_map_tools import backend, numbered

tokenizers = pytest.importorskip("tokenizers", reason="needs the package tokenizers")
CLASS = {"tokenizer_class": "PreTrainedTokenizerFast"}
WORDS = numbered(["<u>", "The", "the", "dog"])


def token(content, **flags):
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, **flags}


def folder(path, tokenizer, **files):
    tokenizer.save(str(path / "tokenizer.json"))
    for name, content in files.items():
        (path / f"{name}.json").write_text(json.dumps(content))
    return path


def loaded(path):
    transformers = pytest.importorskip("transformers", reason="needs the package transformers")
    return TokenMap.from_tokenizer(transformers.AutoTokenizer.from_pretrained(path))


def unigram():
    return tokenizers.Tokenizer(tokenizers.models.Unigram([("<u>", 0.0), ("a", -1.0), ("A", -2.0)], 0))


ADDED = {"4": token("<|im_start|>", special=True)}
MAP = "special_tokens_map"
CASES = {
    "listed": {"tokenizer_config": {"added_tokens_decoder": ADDED}},
    "listed with another id": {"tokenizer_config": {"added_tokens_decoder": {"9": token("<x>"), "7": token("<y>")}}},
    "listed twice": {"tokenizer_config": {"added_tokens_decoder": {**ADDED, "3": token("dog")}, "pad_token": "dog"}},
    "named": {
        "tokenizer_config": {"pad_token": "<pad>", "eos_token": "</s>", "bos_token": None, "add_bos_token": True}
    },
    "named in full": {"tokenizer_config": {"pad_token": {"__type": "AddedToken", **token("<pad>")}}},
    "named by the model": {"tokenizer_config": {"image_token": "<image>", "pad_token": "<pad>"}},
    "extra": {"tokenizer_config": {"extra_special_tokens": ["<a>", "<b>"], "pad_token": "<p>"}},
    "extra by name": {"tokenizer_config": {"extra_special_tokens": {"boi_token": "<a>", "eoi_token": "<b>"}}},
    "additional": {"tokenizer_config": {"additional_special_tokens": ["<a>", "the"]}},
    "all": {
        "tokenizer_config": {
            "added_tokens_decoder": ADDED,
            "additional_special_tokens": ["<|im_start|>", "<b>"],
            "eos_token": "<|im_start|>",
            "unk_token": "<u>",
        }
    },
    "older: named": {"tokenizer_config": {}, MAP: {"pad_token": token("<pad>"), "bos_token": "<s>"}},
    "older: listed": {"tokenizer_config": {}, "added_tokens": {"<y>": 5, "<x>": 4}, MAP: {"pad_token": "<x>"}},
    "older, and not read": {"tokenizer_config": {"added_tokens_decoder": ADDED}, MAP: {"pad_token": "<pad>"}},
    "nothing new": {"tokenizer_config": {"added_tokens_decoder": {"0": token("<u>")}, "pad_token": "the"}},
}


@pytest.mark.parametrize("files", CASES.values(), ids=CASES)
@pytest.mark.parametrize(
    "make",
    [
        lambda: backend(WORDS),
        lambda: backend(WORDS, added=["Cat"], special=["<s>"]),
        lambda: backend({"<u>": 0, "a": 1, "far": 9}),
        unigram,
    ],
    ids=["words", "with added tokens", "with holes", "unigram"],
)
def test_a_folder_gives_the_map_of_the_tokenizer_that_transformers_loads(tmp_path, make, files):
    files = {**files, "tokenizer_config": {**CLASS, **files["tokenizer_config"]}}
    path = folder(tmp_path, make(), **files)
    found, expected = TokenMap.from_file(path), loaded(path)
    assert found.lookup.tolist() == expected.lookup.tolist()
    assert found.holes == expected.holes


def test_a_special_token_that_only_the_configuration_lists_is_the_fifth_key(tmp_path):
    path = folder(tmp_path, backend(numbered(["<u>", "a", "b", "c"])), tokenizer_config={"added_tokens_decoder": ADDED})
    assert TokenMap.from_file(path).lookup.tolist() == [0, 1, 2, 3, 4]
    assert TokenMap.from_file(path, vocab_size=8).holes == [5, 6, 7]
    with pytest.raises(ValueError, match="vocab_size: 4 loses token id 4"):
        TokenMap.from_file(path, vocab_size=4)
    # The file alone is another tokenizer.
    assert TokenMap.from_file(path / "tokenizer.json").lookup.tolist() == [0, 1, 2, 3]


def test_a_folder_without_new_tokens_keeps_the_digest_of_its_file(tmp_path):
    path = folder(tmp_path, backend(WORDS), tokenizer_config={"pad_token": "the"})
    assert TokenMap.from_file(path).metadata == TokenMap.from_file(path / "tokenizer.json").metadata


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("tokenizer_config", "{", "no JSON"),
        ("tokenizer_config", "[]", "expected a JSON object, got a list"),
        ("tokenizer_config", '{"added_tokens_decoder": {"4": {}}}', "token 4 has no content"),
        ("tokenizer_config", '{"added_tokens_decoder": {"x": {"content": "a"}}}', "'x' is no token id"),
        ("special_tokens_map", "\x00", "no JSON"),
        ("added_tokens", '{"a": null}', "None is no token id"),
        ("added_tokens", "[" * 10**5, "no JSON"),
    ],
)
def test_a_damaged_file_beside_the_tokenizer_is_named(tmp_path, name, content, match):
    backend(WORDS).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / f"{name}.json").write_text(content)
    with pytest.raises(ValueError, match=rf"{name}\.json: .*{match}"):
        TokenMap.from_file(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", '{"model": {"vocab": 3}}', '{"model": {"vocab": [[1]]}}', "[" * 10**5])
def test_a_damaged_tokenizer_is_named_beside_a_configuration_too(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    (tmp_path / "tokenizer_config.json").write_text('{"pad_token": "<pad>"}')
    with pytest.raises(ValueError, match=r"tokenizer\.json: "):
        TokenMap.from_file(tmp_path)


def test_a_fault_that_shows_with_the_added_tokens_only_names_the_file_too(tmp_path):
    model = {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 1, "A": 1}}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))
    (tmp_path / "tokenizer_config.json").write_text('{"pad_token": "<pad>"}')
    with pytest.raises(ValueError, match=r'tokenizer\.json: .*token id 1 belongs to two pieces, "A" and "b"'):
        TokenMap.from_file(tmp_path)
