"""For the tests of bad arguments: what is no integers, and a call that must be refused and change nothing."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from engram_fast import HashLayout, HashState, NgramHasher, TokenMap, hash_batch

TOKEN_MAP = TokenMap.identity(1000)
LAYOUT = HashLayout.preset(
    "engram-demo-v1", token_map=TOKEN_MAP, engram_vocab_size=[97, 97], n_head_per_ngram=2, pad_id=0, layer_ids=[1, 15]
)
# Refuses negative ids, too.
STRICT = HashLayout.preset(
    "megatron", token_map=TOKEN_MAP, engram_vocab_size=[97, 97], n_head_per_ngram=2, pad_id=0, layer_ids=[1, 15]
)
HASHER = NgramHasher(STRICT, TOKEN_MAP)
LARGE = NgramHasher(
    HashLayout.preset("engram-demo-v1", token_map=TOKEN_MAP, engram_vocab_size=[2**31, 2**31], pad_id=0), TOKEN_MAP
)
IDS = np.array([[5, 7, 5, 7], [9, 2, 2, 5]])
SHAPE = (2, 2, 4, 4)


class Broken:
    """Fails in the array protocol."""

    def __array__(self, *arguments: Any, **options: Any) -> np.ndarray:
        raise KeyError("broken on purpose")


def shown(value: Any) -> str:
    return f"{type(value).__name__}-{value!r}"[:60].replace("\n", "")


# What holds no integers, whatever it is for.
NO_INTEGERS = [
    (None, TypeError),
    ("abc", TypeError),
    (b"abc", TypeError),
    ({}, TypeError),
    ({1, 2}, TypeError),
    (1.5, TypeError),
    (True, TypeError),
    (object(), TypeError),
    (iter([1, 2]), TypeError),
    ([[None] * 4] * 2, TypeError),
    ([["a"] * 4] * 2, TypeError),
    ([[1.0] * 4] * 2, TypeError),
    ([[True] * 4] * 2, TypeError),
    ([[1, 2, 3, 4], [1, 2, 3]], ValueError),
    ([[[1], 2, 3, 4], [1, 2, 3, 4]], ValueError),
    (np.zeros((2, 4)), TypeError),
    (np.zeros((2, 4), np.float16), TypeError),
    (np.zeros((2, 4), complex), TypeError),
    (np.zeros((2, 4), bool), TypeError),
    (np.zeros((2, 4), object), TypeError),
    (np.zeros((2, 4), "S3"), TypeError),
    (np.zeros((2, 4), "U3"), TypeError),
    (np.zeros((2, 4), "M8[s]"), TypeError),
    (np.zeros((2, 4), "m8[s]"), TypeError),
    (np.zeros((2, 4), [("a", "i8")]), TypeError),
    (np.ma.array(IDS, mask=IDS > 5), TypeError),
    (np.ma.array(IDS), TypeError),
]
WRONG_SHAPES = [
    (np.array(5), ValueError),
    (5, ValueError),
    (np.zeros((1, 2, 4), int), ValueError),
    (np.zeros((2, 4, 1, 1, 1), int), ValueError),
    ([[[1]]], ValueError),
]
OUTSIDE = [-1, -100, 1000, 2**31, 2**32, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, 2**70, -(2**64), 10**400]


def with_id(token_id: int) -> list[list[int]]:
    return [[1, 2, 3, 4], [5, 6, 7, token_id]]


def refused(error: type[Exception], message: str, call: Any, *arguments: Any, **options: Any) -> None:
    """The call raises exactly that (a panic would be no Exception) and changes neither `out` nor the state."""
    out, states = options.get("out"), [value for value in arguments if isinstance(value, HashState)]
    before = None if not isinstance(out, np.ndarray) else out.tobytes()
    states_before = [pickle.dumps(state) for state in states]
    with pytest.raises(Exception, match=message) as raised:
        call(*arguments, **options)
    assert type(raised.value) is error, repr(raised.value)
    if before is not None:
        assert out.tobytes() == before
    assert [pickle.dumps(state) for state in states] == states_before


def out_of(shape: tuple[int, ...] = SHAPE, dtype: Any = np.int64) -> np.ndarray:
    return np.full(shape, -77, dtype=dtype)


def everything_that_takes_ids(name: str, ids: Any, error: type[Exception], message: str, **options: Any) -> None:
    """hash_batch with and without `out`, step, peek, commit and seed refuse the same."""
    state = HASHER.seed(IDS[:, :1])
    if "cu_seqlens" not in options:
        for call in (HASHER.step, HASHER.peek):
            refused(error, message, call, ids, state, **options)
            refused(error, message, call, ids, state, out=out_of(), **options)
            refused(error, message, call, ids, state, layers=[], **options)
        refused(error, message, HASHER.commit, state, ids, [4, 4], **options)
        seed_message = message.replace("ids", "ids_so_far") if name == "ids" and message.startswith("^ids") else message
        refused(error, seed_message, HASHER.seed, ids, **options)
    for call in (HASHER.hash_batch, lambda ids, **more: hash_batch(ids, HASHER, **more)):
        refused(error, message, call, ids, **options)
        for threads in (1, 3):
            refused(error, message, call, ids, out=out_of(), num_threads=threads, **options)
