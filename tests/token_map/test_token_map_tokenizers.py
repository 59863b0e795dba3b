"""What `from_tokenizer` takes, and what must not change its map."""

import json
import subprocess
import sys
import unittest.mock as mock

import pytest
from engram_fast import TokenMap
from token_map_tools import backend, fast, numbered


def test_equal_sizes_do_not_make_equal_maps(tmp_path):
    a = fast(numbered(["<u>", "The", "the", "dog"]))
    b = fast(numbered(["<u>", "The", "dog", "the"]))
    map_a, map_b = TokenMap.from_tokenizer(a), TokenMap.from_tokenizer(b)
    assert map_a.size == map_b.size
    assert map_a.lookup.tolist() != map_b.lookup.tolist()
    assert map_a != map_b
    assert map_a.digest != map_b.digest
    map_a.save(tmp_path / "map")
    assert TokenMap.load(tmp_path / "map", tokenizer=a) == map_a
    with pytest.raises(ValueError, match="not the map of this tokenizer"):
        TokenMap.load(tmp_path / "map", tokenizer=b)
    with pytest.raises(ValueError, match="loses token id 9"):
        TokenMap.load(tmp_path / "map", tokenizer=backend({"<u>": 0, "far": 9}))


def test_load_takes_the_path_of_a_tokenizer(tmp_path):
    tokenizer = backend(numbered(["<u>", "The", "the"]))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    TokenMap.from_tokenizer(tokenizer, vocab_size=5).save(tmp_path / "map")
    assert len(TokenMap.load(tmp_path / "map", tokenizer=tmp_path)) == 5
    TokenMap.identity(3).save(tmp_path / "map")
    with pytest.raises(ValueError, match="not the map"):
        TokenMap.load(tmp_path / "map", tokenizer=str(tmp_path / "tokenizer.json"))


def test_the_same_vocabulary_with_another_decoder_is_another_map():
    from tokenizers import decoders

    vocab = {"<u>": 0, "\u0120a": 1, "a": 2}
    plain, byte_level = backend(vocab), backend(vocab, decoders.ByteLevel())
    assert plain.get_vocab() == byte_level.get_vocab()
    assert TokenMap.from_tokenizer(plain).lookup.tolist() == [0, 1, 2]
    assert TokenMap.from_tokenizer(byte_level).lookup.tolist() == [0, 1, 1]


def test_an_added_token_changes_the_map_of_a_tokenizer_already_seen():
    tokenizer = backend({"<u>": 0, "a": 1})
    before = TokenMap.from_tokenizer(tokenizer)
    tokenizer.add_tokens(["b"])
    assert len(TokenMap.from_tokenizer(tokenizer)) == 3
    assert len(before) == 2


def test_the_map_does_not_depend_on_the_clean_up_of_spaces():
    from tokenizers import decoders

    vocab = {"<u>": 0, ";\u0120,": 1, ";,": 2, "?\u0120!": 3, "?!": 4, ".\u0120.": 5, "..": 6}
    tokenizers = [fast(vocab, decoders.ByteLevel(), clean_up_tokenization_spaces=c) for c in (True, False)]
    maps = [TokenMap.from_tokenizer(tokenizer) for tokenizer in tokenizers]
    assert maps[0] == maps[1]
    assert maps[0].lookup.tolist() == [0, 1, 2, 3, 4, 5, 6]


def slow_class(**overrides):
    transformers = pytest.importorskip("transformers", reason="needs the package transformers")

    class Slow(transformers.PreTrainedTokenizer):
        vocab_size = property(lambda self: 5)  # claims 5, knows 3

        def __init__(self, **options):
            self.ids = {"a": 0, "B": 1, "b": 2}
            self.words = {token_id: word for word, token_id in self.ids.items()}
            super().__init__(**options)

        def get_vocab(self):
            return dict(self.ids)

        def _tokenize(self, text):
            return list(text)

        def _convert_token_to_id(self, token):
            return self.ids.get(token, 0)

        def _convert_id_to_token(self, index):
            return self.words[index]  # KeyError for 3 and 4

    return type("Slow", (Slow,), overrides)


def test_ids_that_a_slow_tokenizer_cannot_decode_are_holes():
    token_map = TokenMap.from_tokenizer(slow_class()(), vocab_size=5)
    assert token_map.lookup.tolist() == [0, 1, 1, 2, 2]
    assert token_map.holes == [3, 4]
    assert len(TokenMap.from_tokenizer(slow_class()())) == 3
    with pytest.raises(ValueError, match="vocab_size: 2 loses token id 2"):
        TokenMap.from_tokenizer(slow_class()(), vocab_size=2)


def test_a_slow_tokenizer_that_answers_with_the_unknown_token_has_holes_too():
    slow = slow_class(_convert_id_to_token=lambda self, index: self.words.get(index, "a"))(unk_token="a")
    token_map = TokenMap.from_tokenizer(slow, vocab_size=5)
    assert token_map.holes == [3, 4]
    assert token_map.lookup.tolist() == [0, 1, 1, 2, 2]


def test_a_slow_tokenizer_is_decoded_without_clean_up():
    def make(clean_up):
        slow = slow_class()
        words = {0: "? !", 1: "?!", 2: "b"}
        slow._convert_id_to_token = lambda self, index: words[index]
        return slow(clean_up_tokenization_spaces=clean_up)

    assert TokenMap.from_tokenizer(make(True)) == TokenMap.from_tokenizer(make(False))
    assert TokenMap.from_tokenizer(make(True)).size == 3


def test_a_slow_tokenizer_that_decodes_nothing_is_an_error():
    def broken(self, *args, **options):
        raise RuntimeError("no decoder here")

    with pytest.raises(ValueError, match="no decoder here"):
        TokenMap.from_tokenizer(slow_class(decode=broken)())


def encoding(ranks, special):
    tiktoken = pytest.importorskip("tiktoken", reason="needs the package tiktoken")
    return tiktoken.Encoding("x", pat_str=r"\w+|\W", mergeable_ranks=ranks, special_tokens=special)


def test_gaps_of_a_tiktoken_encoding_are_holes_and_bytes_keep_apart():
    ranks = {bytes([i]): i for i in range(256)} | {b"th": 256}
    token_map = TokenMap.from_tokenizer(encoding(ranks, {"<|pad|>": 300}))
    lookup = token_map.lookup.tolist()
    assert len(token_map) == 301
    assert token_map.holes == list(range(257, 300))
    assert lookup[300] not in lookup[:257]
    assert lookup[ord("A")] == lookup[ord("a")]
    assert len(set(lookup[128:256])) == 128
    assert len(TokenMap.from_tokenizer(encoding(ranks, {}), vocab_size=320)) == 320


def test_a_tiktoken_encoding_gives_the_map_of_the_byte_level_tokenizer_with_its_tokens():
    tokenizers = pytest.importorskip("tokenizers", reason="needs the package tokenizers")
    from engram_fast.token_map.decoding import byte_alphabet

    alphabet = byte_alphabet()
    assert set(alphabet) == set(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    words = ["the", " The", "\u00e6", "\ufffd", "\u4e2d", "  ", "\n", "\u00c9"]
    tokens = [*(bytes([i]) for i in range(256)), *(word.encode() for word in words), b"\xe4\xb8", b"a\xff"]
    tokens = list(dict.fromkeys(tokens))
    ranks = {token: rank for rank, token in enumerate(tokens)}
    pieces = ["".join(alphabet[byte] for byte in token) for token in tokens]
    byte_level = backend(numbered(pieces), tokenizers.decoders.ByteLevel())
    assert TokenMap.from_tokenizer(encoding(ranks, {})) == TokenMap.from_tokenizer(byte_level)


def test_a_tokenizer_with_parts_written_in_python_is_decoded_by_itself():
    tokenizers = pytest.importorskip("tokenizers", reason="needs the package tokenizers")

    class Shout:
        def decode_chain(self, tokens):
            return [token.upper() + "!" for token in tokens]

    plain = backend({"a": 0, "A": 1, "\ufffd": 2, "z": 5}, special=["<s>"])
    custom = backend(
        {"a": 0, "A": 1, "\ufffd": 2, "z": 5}, tokenizers.decoders.Decoder.custom(Shout()), special=["<s>"]
    )
    with pytest.raises(Exception, match="serialized"):
        custom.to_str()
    assert TokenMap.from_tokenizer(custom) == TokenMap.from_tokenizer(plain)
    assert TokenMap.from_tokenizer(custom).holes == TokenMap.from_tokenizer(plain).holes == [3]


@pytest.mark.parametrize("wrong", ["some/dir", b"x", None, 3, object(), {"a": 0}, TokenMap])
def test_anything_else_is_a_type_error_that_says_what_is_accepted(wrong):
    with pytest.raises(TypeError, match=r"tokenizers\.Tokenizer.*transformers.*tiktoken"):
        TokenMap.from_tokenizer(wrong)


def test_a_path_is_a_type_error_that_names_from_file(tmp_path):
    for path in (tmp_path, str(tmp_path)):
        with pytest.raises(TypeError, match="from_file"):
            TokenMap.from_tokenizer(path)


def test_a_folder_is_read_without_running_code_or_asking_a_hub(tmp_path):
    transformers = pytest.importorskip("transformers", reason="needs the package transformers")
    (tmp_path / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": ["evil.Tokenizer", null]}}')
    (tmp_path / "evil.py").write_text("raise SystemExit('run')")
    with mock.patch.object(transformers.AutoTokenizer, "from_pretrained", side_effect=RuntimeError) as loader:
        with pytest.raises(FileNotFoundError):
            TokenMap.from_file(tmp_path)
        backend({"a": 0}).save(str(tmp_path / "tokenizer.json"))
        assert len(TokenMap.from_file(tmp_path)) == 1
    assert not loader.called


def test_no_tokenizer_library_is_imported():
    names = "{'tokenizers', 'transformers', 'tiktoken', 'torch', 'safetensors'}"
    code = f"import sys, engram_fast; engram_fast.TokenMap.identity(3); assert not {names} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "content", ["", "{", "{}", "[]", "null", '{"model": {"type": "BPE"}}', "\x00" * 100, "[" * 10**5]
)
def test_what_is_no_tokenizer_is_a_value_error_that_names_the_file(tmp_path, content):
    file = tmp_path / "tokenizer.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        TokenMap.from_file(file)
    file.write_bytes(b"\xff\xfe{")
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        TokenMap.from_file(file)


@pytest.mark.parametrize("merges", [["a é"], [["a", "é"]]], ids=["lines", "lists"])
def test_a_prefix_that_cuts_a_character_is_an_error(tmp_path, merges):
    model = {"type": "BPE", "continuing_subword_prefix": "#", "vocab": {"a": 0, "é": 1}, "merges": merges}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))
    with pytest.raises(ValueError, match=r"tokenizer\.json: "):
        TokenMap.from_file(tmp_path)


@pytest.mark.parametrize("model", [{"type": "BPE", "merges": []}, {"type": "WordLevel", "unk_token": "a"}], ids=str)
def test_two_pieces_of_one_id_are_an_error(tmp_path, model):
    model["vocab"] = {"a": 0, "b": 1, "A": 1, "d": 2}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))
    with pytest.raises(ValueError, match='token id 1 belongs to two pieces, "A" and "b"'):
        TokenMap.from_file(tmp_path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        TokenMap.from_file(tmp_path / "none.json")
    assert caught.value.filename == str(tmp_path / "none.json")


def test_a_decoder_that_the_library_fails_in_is_a_value_error():
    tokenizers = pytest.importorskip("tokenizers", reason="needs the package tokenizers")
    # It strips more from the right than there is, and panics.
    tokenizer = backend({"a": 0, " ": 1}, tokenizers.decoders.Strip(content=" ", left=0, right=5))
    with pytest.raises(ValueError, match="failed while decoding"):
        TokenMap.from_tokenizer(tokenizer)
