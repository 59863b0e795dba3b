"""Small tokenizers for the tests of the token map."""

import numpy as np
import pytest


def backend(vocab, decoder=None, added=(), special=()):
    """A `tokenizers.Tokenizer` with this vocabulary; the first token is the unknown one."""
    tokenizers = pytest.importorskip("tokenizers", reason="needs the package tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token=next(iter(vocab))))
    if decoder is not None:
        tokenizer.decoder = decoder
    tokenizer.add_tokens(list(added))
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def fast(vocab, decoder=None, added=(), special=(), **options):
    """The same as a transformers fast tokenizer."""
    transformers = pytest.importorskip("transformers", reason="needs the package transformers")
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend(vocab, decoder, added, special), **options)


def numbered(pieces):
    """A vocabulary of these pieces, numbered in their order."""
    return {piece: token_id for token_id, piece in enumerate(pieces)}


def number_by_appearance(keys):
    """Each key's number in order of first appearance, int32."""
    seen = {}
    return np.array([seen.setdefault(key, len(seen)) for key in keys], dtype=np.int32)
