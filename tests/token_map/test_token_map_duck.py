"""Tokenizers that are known by three methods only, and ids that are no characters."""

import pytest
from engram_fast import TokenMap, reference

PIECES = ["<s>", "The", "the", "\ufffd", "dog"]


class Duck:
    """The three methods that the published code calls."""

    def __len__(self):
        return len(PIECES)

    def convert_ids_to_tokens(self, token_id):
        return PIECES[token_id]

    def decode(self, ids, skip_special_tokens=True):
        return "".join(PIECES[token_id] for token_id in ids if not (skip_special_tokens and token_id == 0))


EXPECTED = [0, 1, 1, 2, 3]


def test_a_tokenizer_with_len_decode_and_convert_ids_to_tokens_is_taken():
    assert TokenMap.from_tokenizer(Duck()).lookup.tolist() == EXPECTED
    padded = TokenMap.from_tokenizer(Duck(), vocab_size=7)
    assert padded.lookup.tolist() == [*EXPECTED, 4, 4]
    assert padded.holes == [5, 6]
    with pytest.raises(ValueError, match="vocab_size: 4 loses token id 4"):
        TokenMap.from_tokenizer(Duck(), vocab_size=4)


def test_its_decode_may_take_the_ids_alone_or_any_option():
    class Plain(Duck):
        def decode(self, ids):
            return "".join(PIECES[token_id] for token_id in ids)

    class Open(Duck):
        def decode(self, ids, **options):
            assert options == {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
            return "".join(PIECES[token_id] for token_id in ids)

    for kind in (Plain, Open):
        assert TokenMap.from_tokenizer(kind()).lookup.tolist() == EXPECTED


def test_an_id_without_a_token_is_a_hole():
    class Holed(Duck):
        def convert_ids_to_tokens(self, token_id):
            return None if token_id == 1 else PIECES[token_id]

    assert TokenMap.from_tokenizer(Holed()).holes == [1]
    assert TokenMap.from_tokenizer(Holed()).lookup.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("missing", ["__len__", "decode", "convert_ids_to_tokens"])
def test_without_one_of_the_three_the_error_names_from_pieces(missing):
    methods = {name: value for name, value in vars(Duck).items() if callable(value) and name != missing}
    with pytest.raises(TypeError, match=r"__len__, decode and convert_ids_to_tokens.*TokenMap\.from_pieces"):
        TokenMap.from_tokenizer(type("Other", (), methods)())


def test_a_class_is_no_tokenizer():
    with pytest.raises(TypeError, match="from_pieces"):
        TokenMap.from_tokenizer(Duck)


class CodePoints:
    """As CANINE: every id is a code point, and some code points are half of a surrogate pair."""

    ids = (0x41, 0x61, 0xD800, 0xDFFF, 0xFFFD, 0xE000)

    def __len__(self):
        return len(self.ids)

    def convert_ids_to_tokens(self, token_id):
        return chr(self.ids[token_id])

    def decode(self, ids):
        return "".join(chr(self.ids[token_id]) for token_id in ids)


def test_an_id_that_is_half_of_a_surrogate_pair_is_a_hole():
    pytest.importorskip("tokenizers", reason="needs the package tokenizers")
    token_map = TokenMap.from_tokenizer(CodePoints())
    assert token_map.holes == [2, 3]
    texts = ["A", "a", None, None, "\ufffd", "\ue000"]
    assert token_map.lookup.tolist() == reference.token_map(texts, texts, reference.normalizer()).tolist()


def test_canine_has_2048_holes_for_the_surrogates():
    transformers = pytest.importorskip("transformers", reason="needs the package transformers")

    class Canine(transformers.CanineTokenizer):
        def get_vocab(self):  # its own has all 1114112, which take a minute
            return {chr(code): code for code in range(0xE010)}

    token_map = TokenMap.from_tokenizer(Canine())
    assert token_map.holes == list(range(0xD800, 0xE000))
    assert token_map.lookup[ord("A")] == token_map.lookup[ord("a")]


@pytest.mark.parametrize(
    ("texts", "pieces", "place"),
    [
        (["a", "b\ud800"], ["a", "b"], "texts, token id 1"),
        (["a", None, "c"], ["a", None, "\udfff"], "pieces, token id 2"),
    ],
)
def test_from_pieces_names_the_id_that_is_no_character(texts, pieces, place):
    with pytest.raises(UnicodeEncodeError, match=f"{place}; None makes that id a hole"):
        TokenMap.from_pieces(texts, pieces)
