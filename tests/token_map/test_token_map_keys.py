"""Which tokens share a compressed id."""

import pytest
from engram_fast import TokenMap
from engram_fast.token_map import normalize
from hypothesis import given, settings
from hypothesis import strategies as st
from token_map_tools import backend, number_by_appearance, numbered

tokenizers = pytest.importorskip("tokenizers", reason="needs the package tokenizers")
decoders, normalizers, pre_tokenizers = tokenizers.decoders, tokenizers.normalizers, tokenizers.pre_tokenizers

CHAIN = normalizers.Sequence(
    [
        normalizers.NFKC(),
        normalizers.NFD(),
        normalizers.StripAccents(),
        normalizers.Lowercase(),
        normalizers.Replace(tokenizers.Regex(r"[ \t\r\n]+"), " "),
        normalizers.Replace(tokenizers.Regex(r"^ $"), "\ue000"),
        normalizers.Strip(),
        normalizers.Replace("\ue000", " "),
    ]
)

KEYS = {
    **dict.fromkeys([" ", "\t", "\n\n", "\u3000", "\u00a0", " \u0301"], " "),
    **{text: text for text in ["\x0b", "\x0c", "\x85", "\u2028", "\u0301", "\u0345"]},  # nothing left: the text
    **{text: text for text in ["\u200b", "\ufeff", "\xad"]},  # kept
    **{"\ue000": " ", "a\ue000b": "a b", " a ": "a", "\ufb01": "fi", "\u2163": "iv", "\u2460": "1"},
    **{"\u339e": "km", "\u00df": "\u00df", "\u0130": "i"},
}


def lookup_of(vocab, decoder=None):
    return TokenMap.from_tokenizer(backend(vocab, decoder)).lookup


def test_a_lone_space_and_a_text_that_normalises_to_nothing_keep_their_own_keys():
    lookup = lookup_of(numbered(["<u>", *KEYS]))
    assert lookup.tolist() == number_by_appearance(["<u>", *KEYS.values()]).tolist()
    assert [normalize(text) or text for text in KEYS] == list(KEYS.values())


def test_every_code_point_normalises_as_in_the_installed_library():
    points = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    different = [hex(ord(c)) for c in points if normalize(c) != CHAIN.normalize_str(c)]
    assert different == []


def test_the_steps_before_white_space_agree_on_every_code_point_between_letters():
    # Between letters nothing is stripped, so that white space and marks show what became of them.
    points = ["x" + chr(code) + "Y" for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    assert [hex(ord(s[1])) for s in points if normalize(s) != CHAIN.normalize_str(s)] == []


AWKWARD = st.text(
    alphabet=st.one_of(
        st.sampled_from(" \t\r\n\x0b\x0c\x85\xa0\u2028\u3000\ue000\u0301\u0345\u03a3\u03c2\u0130I\u0307\u1e9b\u0323"),
        st.sampled_from("\U000113c2\U000113b8\U000113bb\uac00\u1100\u1161\u11a8\ufb01\u339eAz"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=500)
@given(AWKWARD)
def test_texts_normalise_as_in_the_installed_library(text):
    assert normalize(text) == CHAIN.normalize_str(text)


def test_newer_composed_characters_normalise_as_in_the_installed_library():
    text = "\U000113c2\U000113b8"
    assert normalize(text) == CHAIN.normalize_str(text)


def test_bytes_that_are_no_text_are_told_apart_by_their_piece():
    vocab = numbered(sorted(pre_tokenizers.ByteLevel.alphabet()))
    vocab |= {"\u00c3\u00a6": 256, "\u00ef\u00bf\u00bd": 257, "\u0120the": 258, "The": 259, "\u0120\u0120": 260}
    tokenizer = backend(vocab, decoders.ByteLevel())
    lookup = TokenMap.from_tokenizer(tokenizer).lookup
    no_text = [i for i in range(256) if "\ufffd" in tokenizer.decode([i])]
    assert len(no_text) == 128
    assert len(set(lookup[no_text].tolist())) == 128
    assert lookup[vocab["\u00e6"]] == lookup[256]  # the piece of byte 0xE6 is the letter: one id, as published
    assert lookup[258] == lookup[259]
    assert lookup[vocab["\u0120"]] == lookup[260]
    assert lookup[257] not in lookup[:256]  # a genuine U+FFFD


def test_a_decoder_that_strips_one_space_leaves_the_empty_key():
    blank = "\u2581"
    pieces = ["<unk>", blank, blank * 2, f"{blank}the", "the", "The", f"{blank * 2}the", f"{blank}in{blank}the"]
    pieces += ["<0x20>", "<0x0A>", "<0xE2>"]
    strip = decoders.Strip(content=" ", left=1, right=0)
    decoder = decoders.Sequence([decoders.Replace(blank, " "), decoders.ByteFallback(), decoders.Fuse(), strip])
    token_map = TokenMap.from_tokenizer(backend(numbered(pieces), decoder), vocab_size=12)
    lookup = token_map.lookup.tolist()
    assert lookup[1] == lookup[8] == lookup[11]  # "▁", a space byte and a hole
    assert token_map.holes == [11]
    assert lookup[2] == lookup[9] != lookup[1]
    assert len(set(lookup[3:7])) == 1
    assert lookup[7] != lookup[3]
    assert len({lookup[10], lookup[1], lookup[2]}) == 3


def test_lower_casing_is_per_character():
    lookup = lookup_of(numbered(["<u>", "\u03a3\u0391\u03a3", "\u03c3\u03b1\u03c3", "\u03c3\u03b1\u03c2"]))
    assert lookup[1] == lookup[2] != lookup[3]


def test_composed_and_decomposed_spellings_share_an_id():
    pieces = ["<u>", "\u00e9", "e\u0301", "E", "\u00c5", "A\u030a", "\u212b", "\u1e9b\u0323", "s"]
    assert lookup_of(numbered(pieces)).tolist() == [0, 1, 1, 1, 2, 2, 2, 3, 3]


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), AWKWARD, st.just("\ufffd")), min_size=1, max_size=60))
def test_ids_count_up_in_order_of_first_appearance(texts):
    pieces = [None if text is None else f"piece {i % 3}" for i, text in enumerate(texts)]
    token_map = TokenMap.from_pieces(texts, pieces)
    rule = [
        "" if text is None else piece if "\ufffd" in text else CHAIN.normalize_str(text) or text
        for text, piece in zip(texts, pieces, strict=True)
    ]
    assert token_map.lookup.tolist() == number_by_appearance(rule).tolist()
    assert token_map.holes == [i for i, text in enumerate(texts) if text is None]
    assert token_map.size == len(set(rule))
