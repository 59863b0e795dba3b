"""The examples in the docstrings of the token map run and print what they say."""

import doctest

import pytest
from engram_fast.token_map import map as token_map
from engram_fast.token_map import megatron, megatron_json


@pytest.mark.parametrize("module", [token_map, megatron, megatron_json])
def test_examples(module):
    pytest.importorskip("tokenizers", reason="needs the package tokenizers")
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0
