"""Fixtures of the data-loading tests: a small hasher, and text-like ids."""

import numpy as np
import pytest

VOCABULARY = 1000


def small_hasher():
    """A hasher over 1000 ids: layers 1 and 15, orders 2 and 3, two heads; ids outside are refused."""
    from engram_fast import HashLayout, NgramHasher, TokenMap

    token_map = TokenMap.identity(VOCABULARY)
    layout = HashLayout.preset(
        "megatron", token_map=token_map, engram_vocab_size=[97, 97], n_head_per_ngram=2, pad_id=0
    )
    return NgramHasher(layout, token_map)


@pytest.fixture(scope="session")
def hasher():
    return small_hasher()


@pytest.fixture(scope="session")
def demo():
    """The hasher whose rows the tests of faults quote: the demo's layout over 1000 ids."""
    from engram_fast import HashLayout, NgramHasher, TokenMap

    token_map = TokenMap.identity(VOCABULARY)
    layout = HashLayout.preset(
        "engram-demo-v1", token_map=token_map, engram_vocab_size=[97, 97], n_head_per_ngram=2, pad_id=0
    )
    return NgramHasher(layout, token_map)


@pytest.fixture
def rng():
    return np.random.default_rng(0)
