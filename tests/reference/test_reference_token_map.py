"""The reference's token map: keys of awkward texts, holes, pieces behind U+FFFD, and the order of new ids."""

from __future__ import annotations

import goldens
import numpy as np
import pytest
from engram_fast import reference

tokenizers = pytest.importorskip("tokenizers", reason="the Python package tokenizers is missing")

SAME_AS_A_SPACE = [" ", "\t", "\n\n", "\u3000", "\u00a0", " \u0301", "\ue000"]
NOTHING_LEFT = ["\x0b", "\x0c", "\x85", "\u2028", "\u0301", "\u0345"]
KEPT = ["\u200b", "\ufeff", "\xad"]
REWRITTEN = {"a\ue000b": "a b", " a ": "a", "ﬁ": "fi", "Ⅳ": "iv", "①": "1", "㎞": "km", "ß": "ß", "İ": "i"}


def lookup_of(texts: list[str | None]) -> list[int]:
    return reference.token_map(texts, texts, reference.normalizer()).tolist()


@pytest.mark.parametrize(
    ("text", "key"),
    [*((text, " ") for text in SAME_AS_A_SPACE), *((text, text) for text in NOTHING_LEFT + KEPT), *REWRITTEN.items()],
)
def test_key(text: str, key: str) -> None:
    assert reference.token_key(text, text, reference.normalizer()) == key


def test_new_ids_count_up_as_keys_first_appear() -> None:
    lookup = reference.token_map(["b", "A", " B", "a", "c"], list("bABac"), reference.normalizer())
    assert lookup.dtype == np.int32
    assert lookup.tolist() == [0, 1, 0, 1, 2]


def test_holes_share_the_empty_key() -> None:
    assert lookup_of(["x", None, "", None, " "]) == [0, 1, 1, 1, 2]


def test_texts_with_the_replacement_character_go_by_their_piece() -> None:
    texts, pieces = ["æ", "\ufffd", "\ufffd", "a\ufffd"], ["Ã¦", "æ", "ç", "ï"]
    assert reference.token_map(texts, pieces, reference.normalizer()).tolist() == [0, 0, 1, 2]
    with pytest.raises(ValueError, match="no piece"):
        reference.token_map(["\ufffd"], [None], reference.normalizer())


def test_final_sigma_stays_sigma() -> None:
    capital, small, final = "\u03a3\u0391\u03a3", "\u03c3\u03b1\u03c3", "\u03c3\u03b1\u03c2"
    assert lookup_of([capital, small, final]) == [0, 0, 1]


def test_accents_are_stripped_after_decomposition() -> None:
    assert lookup_of(["é", "e\u0301", "E", "Å", "A\u030a", "\u212b", "\u1e9b\u0323", "s"]) == [0, 0, 0, 1, 1, 1, 2, 2]


def test_lists_of_different_length() -> None:
    with pytest.raises(ValueError, match="2 texts, but 1 pieces"):
        reference.token_map(["a", "b"], ["a"], reference.normalizer())


def test_sentencepiece_decoding_of_lone_tokens() -> None:
    tokens = ["<unk>", "▁", "▁▁", "▁the", "the", "The", "▁▁the", "▁in▁the", "<0x20>", "<0x0A>", "<0xE2>"]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({t: i for i, t in enumerate(tokens)}, "<unk>"))
    d = tokenizers.decoders
    tokenizer.decoder = d.Sequence([d.Replace("▁", " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)])
    lookup = reference.token_map(*goldens.texts_and_pieces(tokenizer, 13), reference.normalizer()).tolist()
    assert lookup == [0, 1, 2, 3, 3, 3, 3, 4, 1, 2, 5, 1, 1]  # ids 11 and 12 are holes
