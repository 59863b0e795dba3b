"""Bad input to every argument of every function on hashers and states: the named exception, and nothing has changed."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from engram_fast import HashLayout, HashState, NgramHasher, TokenMap, hash_batch, hash_slice

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


@pytest.mark.parametrize(("ids", "error"), [*NO_INTEGERS, *WRONG_SHAPES], ids=shown)
def test_ids_that_are_no_batch_of_integers(ids: Any, error: type[Exception]) -> None:
    everything_that_takes_ids("ids", ids, error, "^ids: ")
    refused(error, "^ids: ", HASHER.hash, ids)


@pytest.mark.parametrize("token_id", OUTSIDE, ids=lambda token_id: shown(token_id)[:30])
def test_ids_outside_the_range(token_id: int) -> None:
    digits = str(token_id) if abs(token_id) < 2**128 else "of"
    message = f"^token id {digits}.* at row 1, column 3 is outside"
    everything_that_takes_ids("ids", with_id(token_id), IndexError, message)
    for dtype in (np.int64, np.uint64, np.int32, ">i8"):
        if np.iinfo(dtype).min <= token_id <= np.iinfo(dtype).max:
            everything_that_takes_ids("ids", np.array(with_id(token_id), dtype=dtype), IndexError, message)
    refused(IndexError, message, HASHER.hash, with_id(token_id))
    flat = f"^token id {digits}.* at position 3 is outside"
    refused(IndexError, flat, HASHER.hash_batch, with_id(token_id)[1], cu_seqlens=[0, 2, 4])


def test_ids_that_no_integer_type_holds_together() -> None:
    refused(IndexError, f"token id {2**63} at row 0, column 1 is outside 64 bits", HASHER.hash_batch, [[-1, 2**63]])
    refused(IndexError, f"token id {2**63} at position 1 is outside 64 bits", TOKEN_MAP.compress, [-1, 2**63])


def test_an_exception_of_the_argument_itself_comes_through() -> None:
    for options in ({"ids": Broken()}, {"ids": IDS, "mask": Broken()}, {"ids": IDS, "segment_ids": Broken()}):
        refused(KeyError, "broken on purpose", HASHER.hash_batch, out=out_of(), **options)


@pytest.mark.parametrize("name", ["mask", "segment_ids"])
@pytest.mark.parametrize(("value", "error"), [*NO_INTEGERS[1:], *WRONG_SHAPES], ids=shown)
def test_masks_and_segment_ids_that_are_none(name: str, value: Any, error: type[Exception]) -> None:
    if name == "mask" and np.asarray(value, dtype=object).ravel()[0] in (True, False):
        # Booleans are what masks are made of; a lone one has the wrong shape.
        if value is not True:
            return
        error = ValueError
    everything_that_takes_ids(name, IDS, error, f"^{name}: ", **{name: value})


@pytest.mark.parametrize("name", ["mask", "segment_ids"])
@pytest.mark.parametrize("shape", [(2,), (4,), (8,), (4, 2), (1, 4), (2, 3), (2, 5), (0, 4), (2, 0), (2, 4, 1)])
def test_masks_and_segment_ids_of_another_shape(name: str, shape: tuple[int, ...]) -> None:
    everything_that_takes_ids(name, IDS, ValueError, f"^{name}: ", **{name: np.ones(shape, dtype=np.int64)})
    refused(ValueError, f"^{name}: ", HASHER.hash_batch, IDS[0], **{name: np.ones((1, 4), dtype=np.int64)})


@pytest.mark.parametrize("value", [2, -1, 255, 2**62, -(2**63), 2**64 - 1, 256, 2**32])
def test_mask_values_other_than_0_and_1(value: int) -> None:
    mask = np.ones((2, 4), dtype=np.uint64 if value > 0 else np.int64)
    mask[1, 2] = value
    everything_that_takes_ids(
        "mask", IDS, ValueError, f"^mask: expected 0 or 1, got {value} at row 1, column 2", mask=mask
    )
    for dtype in (np.int8, np.uint8, np.int16, ">i2", ">u4", np.int64):
        if np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
            everything_that_takes_ids("mask", IDS, ValueError, "^mask: expected 0 or 1", mask=mask.astype(dtype))


@pytest.mark.parametrize(
    ("value", "error"),
    [
        *[(value, error) for value, error in NO_INTEGERS[1:]],
        ([], ValueError),
        (np.zeros(0, int), ValueError),
        ([0], ValueError),
        ([4], ValueError),
        ([0, 3], ValueError),
        ([0, 5], ValueError),
        ([1, 4], ValueError),
        ([-1, 4], ValueError),
        ([0, 3, 2, 4], ValueError),
        ([0, 5, 4], ValueError),
        ([0, -1, 4], ValueError),
        ([0, 2**63 - 1, 4], ValueError),
        ([0, -(2**63), 4], ValueError),
        (np.array([0, 2**64 - 1, 4], np.uint64), ValueError),
        (np.array([0, 2**63], np.uint64), ValueError),
        ([0, 2**70, 4], ValueError),
        ([[0, 4]], ValueError),
        (4, ValueError),
        (np.array(4), ValueError),
        (np.broadcast_to(np.int64(0), 2**45), MemoryError),
    ],
    ids=shown,
)
def test_cu_seqlens_that_are_none(value: Any, error: type[Exception]) -> None:
    message = "^cu_seqlens"
    refused(error, message, HASHER.hash_batch, IDS[0], cu_seqlens=value)
    refused(error, message, HASHER.hash_batch, IDS[0], cu_seqlens=value, out=out_of((2, 4, 4)))
    refused(error, message, HASHER.hash_batch, IDS[0], cu_seqlens=value, layers=[], out=out_of((0, 4, 4)))


def test_cu_seqlens_are_for_flat_ids_alone() -> None:
    refused(ValueError, "^cu_seqlens: is for flat ids", HASHER.hash_batch, IDS, cu_seqlens=[0, 8], out=out_of())
    refused(ValueError, "^cu_seqlens: is for flat ids", HASHER.hash_batch, IDS[:1], cu_seqlens=[0, 4])
    for call in (HASHER.step, HASHER.peek):
        refused(TypeError, "cu_seqlens", call, IDS[0], HASHER.new_state(1), cu_seqlens=[0, 4])


READ_ONLY = out_of()
READ_ONLY.flags.writeable = False
SHARED = np.arange(70)


@pytest.mark.parametrize(
    ("out", "error"),
    [
        (out_of((2, 2, 4)), ValueError),
        (out_of((2, 2, 4, 4, 1)), ValueError),
        (out_of((2, 4, 2, 4)), ValueError),
        (out_of((64,)), ValueError),
        (out_of((2, 2, 4, 5)), ValueError),
        (out_of((2, 2, 4, 4))[:0], ValueError),
        (out_of((2, 2, 4, 8))[..., ::2], ValueError),
        (np.asfortranarray(out_of()), ValueError),
        (out_of()[::-1], ValueError),
        (READ_ONLY, ValueError),
        (np.zeros(64 * 8 + 1, np.uint8)[1:].view(np.int64).reshape(SHAPE), ValueError),
        (np.broadcast_to(np.zeros((1, 2, 4, 4), np.int64), SHAPE), ValueError),
        (out_of(dtype=np.float64), TypeError),
        (np.zeros(SHAPE, np.uint32), TypeError),
        (np.zeros(SHAPE, np.uint64), TypeError),
        (out_of(dtype=np.int16), TypeError),
        (out_of(dtype=">i4"), TypeError),
        (out_of(dtype=">i8"), TypeError),
        (np.zeros(SHAPE, bool), TypeError),
        (np.zeros(SHAPE, object), TypeError),
        (np.zeros(SHAPE, "m8[s]"), TypeError),
        (np.ma.array(out_of()), TypeError),
        (out_of().tolist(), TypeError),
        (memoryview(out_of()), TypeError),
        (bytearray(512), TypeError),
        ("out", TypeError),
        (1.5, TypeError),
        (True, TypeError),
    ],
    ids=lambda value: (
        shown(value) if not isinstance(value, np.ndarray) else f"{value.dtype}{value.shape}{value.strides}"
    ),
)
def test_buffers_that_cannot_take_the_result(out: Any, error: type[Exception]) -> None:
    refused(error, "^out: ", HASHER.hash_batch, IDS, out=out)
    for call in (HASHER.step, HASHER.peek):
        refused(error, "^out: ", call, IDS, HASHER.new_state(2), out=out)


def test_buffers_that_share_memory_with_an_input() -> None:
    for offset in (0, 1, 7, 8, 62):
        ids = SHARED[offset : offset + 8].reshape(2, 4)
        refused(ValueError, "^out: shares memory", HASHER.hash_batch, ids, out=SHARED[:64].reshape(SHAPE))
        refused(ValueError, "^out: shares memory", HASHER.hash_batch, ids[::-1, ::-1], out=SHARED[6:].reshape(SHAPE))
    zeros = np.zeros(70, np.int64)
    for name in ("mask", "segment_ids"):
        given = {name: zeros[:8].reshape(2, 4)}
        refused(ValueError, "^out: shares memory", HASHER.hash_batch, IDS, out=zeros[6:].reshape(SHAPE), **given)
    # Beside each other, and interleaved without touching, is fine.
    HASHER.hash_batch(zeros[:8].reshape(2, 4)[:, :3], out=np.zeros(48, np.int64).reshape(2, 2, 3, 4))
    HASHER.hash_batch(zeros[:4].reshape(1, 4), out=zeros[4:36].reshape(2, 1, 4, 4))


@pytest.mark.parametrize(
    ("dtype", "error"),
    [
        *[
            (dtype, TypeError)
            for dtype in ("float32", float, bool, "uint32", np.uint64, "int16", ">i4", object, "i8,i8")
        ],
        *[(dtype, TypeError) for dtype in ("nonsense", 5, 1.5, [], {}, "")],
    ],
    ids=shown,
)
def test_dtypes_other_than_int32_and_int64(dtype: Any, error: type[Exception]) -> None:
    refused(error, "^dtype: ", HASHER.hash_batch, IDS, dtype=dtype)
    refused(error, "^dtype: ", HASHER.hash_batch, IDS, dtype=dtype, out=out_of())
    refused(error, "^dtype: ", HASHER.step, IDS, HASHER.new_state(2), dtype=dtype)


def test_dtypes_that_contradict_the_buffer_or_cannot_hold_the_rows() -> None:
    refused(TypeError, "^dtype: int32 differs from out's int64", HASHER.hash_batch, IDS, dtype="int32", out=out_of())
    refused(TypeError, "^dtype: ", HASHER.hash_batch, IDS, dtype=np.int64, out=out_of(dtype=np.int32))
    refused(ValueError, "^dtype: int32 cannot hold row", LARGE.hash_batch, IDS, dtype=np.int32)
    shape = (2, 2, 4, 16)
    refused(ValueError, "^out: int32 cannot hold row", LARGE.hash_batch, IDS, out=out_of(shape, np.int32))
    assert LARGE.hash_batch(IDS).dtype == np.int64


@pytest.mark.parametrize(
    ("axis", "error"),
    [
        *[(axis, ValueError) for axis in (2, 3, -1, -3, 2**70, -(2**70))],
        *[(axis, TypeError) for axis in ("x", 1.0, True, False, [0], b"0", np.bool_(True), np.float64(1))],
    ],
    ids=shown,
)
def test_layer_axes_that_there_are_not(axis: Any, error: type[Exception]) -> None:
    refused(error, "^layer_axis: ", HASHER.hash_batch, IDS, layer_axis=axis, out=out_of())
    refused(error, "^layer_axis: ", HASHER.peek, IDS, HASHER.new_state(2), layer_axis=axis)


@pytest.mark.parametrize(
    ("layers", "error"),
    [
        *[([layer], ValueError) for layer in (0, 2, -1, 2**63 - 1, 2**63, -(2**70))],
        ([1, 2], ValueError),
        (itertools.repeat(1), ValueError),
        (itertools.count(1), ValueError),
        *[(layers, TypeError) for layers in (1, "1", b"x", [1.0], [True], [None], ["1"], [[1]], object())],
        (np.array([1.0]), TypeError),
        (b"\x02", ValueError),
    ],
    ids=shown,
)
def test_layers_that_the_layout_has_not(layers: Any, error: type[Exception]) -> None:
    error = ValueError if isinstance(layers, bytes) else error
    refused(error, "^layers: ", HASHER.hash_batch, IDS, layers=layers)


@pytest.mark.parametrize("flag", [0, 1, 2, "yes", 1.0, [], np.int64(1), np.array([True, False])], ids=shown)
def test_add_offsets_that_is_no_bool(flag: Any) -> None:
    refused(TypeError, "^add_offsets: ", HASHER.hash_batch, IDS, add_offsets=flag, out=out_of())
    refused(TypeError, "^add_offsets: ", HASHER.step, IDS, HASHER.new_state(2), add_offsets=flag)


@pytest.mark.parametrize(
    ("threads", "error"),
    [
        *[(threads, ValueError) for threads in (0, -1, -(2**63), -(10**30), 10**30)],
        *[(threads, TypeError) for threads in (True, False, 1.5, 2.0, "2", [2], np.float64(2), np.bool_(True))],
    ],
    ids=shown,
)
def test_numbers_of_threads_that_are_none(threads: Any, error: type[Exception]) -> None:
    refused(error, "^num_threads: ", HASHER.hash_batch, IDS, num_threads=threads, out=out_of())
    refused(error, "^num_threads: ", HASHER.step, IDS, HASHER.new_state(2), num_threads=threads)


def test_more_threads_than_there_are_is_fine() -> None:
    ids = np.tile(IDS, (1, 2000))
    expected = HASHER.hash_batch(ids)
    for threads in (10**6, 2**62, np.int8(3)):
        np.testing.assert_array_equal(HASHER.hash_batch(ids, num_threads=threads), expected)


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        *[(batch, ValueError) for batch in (-1, 2**30, 2**63 - 1, 10**30)],
        *[(batch, TypeError) for batch in (None, True, 1.0, "1", [1])],
    ],
    ids=shown,
)
def test_batches_that_no_state_has(batch: Any, error: type[Exception]) -> None:
    refused(error, "^batch: ", HASHER.new_state, batch)


def test_more_rows_than_a_state_has_are_refused_before_memory_is_taken() -> None:
    refused(ValueError, "^ids_so_far: ", HASHER.seed, np.zeros((2**40, 0), int))
    refused(ValueError, "^history: ", HashState.from_numpy, np.zeros((2**40, 0), int), HASHER)
    refused(ValueError, "^index: ", HASHER.new_state(1).select, np.broadcast_to(0, 2**45))
    # The result's shape would not fit an address, or any memory.
    refused(ValueError, "^ids: the result", HASHER.hash_batch, np.broadcast_to(np.uint8(1), (2**31, 2**31)))
    with pytest.raises(MemoryError):
        HASHER.hash_batch(np.broadcast_to(np.uint8(1), (2**21, 2**21)))
    with pytest.raises(MemoryError):
        TOKEN_MAP.compress(np.broadcast_to(np.uint8(1), (2**21, 2**21)))


@pytest.mark.parametrize("state", [None, 5, "state", HASHER, HASHER.new_state(2).to_numpy()], ids=["none", *"5sht"])
def test_states_that_are_none(state: Any) -> None:
    for call in (HASHER.step, HASHER.peek):
        refused(TypeError, "state", call, IDS, state)
    refused(TypeError, "state", HASHER.commit, state, IDS, [1, 1])


def test_states_of_another_layout_or_another_batch() -> None:
    other = NgramHasher(LAYOUT, TOKEN_MAP).new_state(2)
    for call in (HASHER.step, HASHER.peek):
        refused(ValueError, "^state: ", call, IDS, other)
        refused(ValueError, "the state has 3 rows", call, IDS, HASHER.new_state(3), out=out_of())
        refused(ValueError, "the state has 2 rows", call, IDS[0], HASHER.new_state(2))
        refused(ValueError, "the state has 0 rows", call, IDS[0], HASHER.new_state(0))
    refused(ValueError, "^state: ", HASHER.commit, other, IDS, [0, 0])
    refused(ValueError, "the state has 3 rows", HASHER.commit, HASHER.new_state(3), IDS, [0, 0])


@pytest.mark.parametrize(
    ("accepted", "error"),
    [
        *[(value, error) for value, error in NO_INTEGERS],
        (1, ValueError),
        ([1], ValueError),
        ([1, 1, 1], ValueError),
        ([[1, 1]], ValueError),
        ([-1, 1], ValueError),
        ([1, 5], ValueError),
        ([1, 2**63 - 1], ValueError),
        (np.array([1, 2**63], np.uint64), ValueError),
        ([1, 2**70], ValueError),
    ],
    ids=shown,
)
def test_accepted_counts_that_cannot_be(accepted: Any, error: type[Exception]) -> None:
    refused(error, "^accepted: ", HASHER.commit, HASHER.seed(IDS[:, :1]), IDS, accepted)


@pytest.mark.parametrize(
    ("index", "error"),
    [
        *[(value, error) for value, error in NO_INTEGERS[1:]],
        (0, ValueError),
        ([[0]], ValueError),
        ([2], IndexError),
        ([0, -1], IndexError),
        ([2**63 - 1], IndexError),
        (np.array([2**63], np.uint64), ValueError),
    ],
    ids=shown,
)
def test_rows_that_a_state_has_not(index: Any, error: type[Exception]) -> None:
    state = HASHER.seed(IDS)
    before = state.copy()
    for call in (state.select, state.reset):
        with pytest.raises(error, match=r"^index: |^row (2|-1|9223372036854775807) is outside the state's 2 rows"):
            call(index)
        assert state == before


@pytest.mark.parametrize(
    ("history", "error"),
    [*NO_INTEGERS, (np.array(5), ValueError), ([1, 2], ValueError), (np.zeros((1, 1, 1), int), ValueError)],
    ids=shown,
)
def test_histories_that_are_none(history: Any, error: type[Exception]) -> None:
    for raw in (True, False):
        refused(error, "^history: ", HashState.from_numpy, history, HASHER, raw=raw)


def test_histories_of_refused_ids_and_lengths() -> None:
    for bad in (-1, 1000, 2**63 - 1):
        message = f"^token id {bad} at row 1, column 2 is outside"
        refused(IndexError, message, HashState.from_numpy, [[5, 7, 9], [1, 2, bad]], HASHER)
    ids = np.array([[1, 2**64 - 1]], np.uint64)
    refused(IndexError, f"^token id {2**64 - 1} at row 0, column 1", HashState.from_numpy, ids, HASHER)
    refused(ValueError, f"^history: {2**64 - 1}", HashState.from_numpy, ids, HASHER, raw=False)
    for lengths, error in (
        *((value, error) for value, error in NO_INTEGERS[1:]),
        ([1], ValueError),
        ([1, -1], ValueError),
        ([1, 5], ValueError),
        ([[1, 1]], ValueError),
    ):
        refused(error, "^lengths: ", HashState.from_numpy, IDS, HASHER, lengths=lengths)
    refused(TypeError, "hasher", HashState.from_numpy, IDS, None)
    refused(TypeError, "raw", HashState.from_numpy, IDS, HASHER, raw="yes")
    # What the length leaves out is not looked at.
    assert HashState.from_numpy([[-5, 7]], HASHER, lengths=[1]) == HASHER.seed([[7]])


def test_raw_ids_of_a_state_from_compressed_ones() -> None:
    state = HashState.from_numpy([[3, 4]], HASHER, raw=False)
    with pytest.raises(ValueError, match="raw"):
        state.to_numpy(raw=True)
    HASHER.step([[8, 9]], state)
    assert state.to_numpy(raw=True)[0].tolist() == [[8, 9]]


def test_pickles_that_contradict_themselves() -> None:
    make, (content,) = HASHER.seed(IDS).__reduce__()
    for broken in (b"", b"{}", content[:-5], content.replace(b'"reach":2', b'"reach":3'), content.replace(b"2", b"x")):
        with pytest.raises(ValueError, match=r"."):
            make(broken)
    longer = make(content.replace(b'"reach":2', b'"reach":3').replace(b'"rows":[', b'"rows":[],"ignored":['))
    assert len(longer) == 0
    refused(ValueError, "^state: ", HASHER.step, np.zeros((0, 4), int), longer)


def test_hashers_of_what_are_no_layouts_and_token_maps() -> None:
    refused(TypeError, "layout", NgramHasher, None)
    refused(TypeError, "layout", NgramHasher, STRICT.to_json())
    refused(TypeError, "token_map", NgramHasher, STRICT, TOKEN_MAP.lookup)
    refused(ValueError, "^token_map: ", NgramHasher, STRICT)
    refused(ValueError, "^token_map: ", NgramHasher, STRICT, TokenMap.identity(999))
    refused(ValueError, "^token_map: ", NgramHasher, HashLayout.preset("qwen-ple"), TOKEN_MAP)
    lying = HashLayout.from_json(STRICT.to_json().replace('"size":1000', '"size":999'))
    refused(ValueError, "^token_map: ", NgramHasher, lying, TOKEN_MAP)
    refused(ValueError, "^kernel: 'none'|^kernel: \"none\"", NgramHasher, STRICT, TOKEN_MAP, kernel="none")
    refused(TypeError, "hasher", hash_batch, IDS, None)
    refused(TypeError, "hasher", hash_batch, IDS, STRICT)
    with pytest.raises(TypeError):
        HashState()


def test_unknown_options_are_named() -> None:
    for call in (HASHER.hash_batch, lambda ids, **more: hash_batch(ids, HASHER, **more)):
        refused(TypeError, "threads", call, IDS, threads=1)
    refused(TypeError, "threads", hash_slice, IDS, HASHER, threads=1)
    refused(TypeError, "threads", HASHER.step, IDS, HASHER.new_state(2), threads=1)


@pytest.mark.parametrize("shape", [(0,), (0, 0), (0, 5), (5, 0), (2**20, 0), (1,), (1, 1)])
def test_empty_and_smallest_batches(shape: tuple[int, ...]) -> None:
    ids = np.zeros(shape, dtype=np.int64)
    rows = HASHER.hash_batch(ids)
    assert rows.shape == (2, *shape, 4)
    out = np.full(rows.shape, -1, dtype=rows.dtype)
    assert HASHER.hash_batch(ids, out=out, num_threads=3) is out
    np.testing.assert_array_equal(out, rows)
    if len(shape) == 2:
        state = HASHER.new_state(shape[0])
        assert HASHER.step(ids, state).shape == rows.shape
        assert (state == HASHER.new_state(shape[0])) == (ids.size == 0)
    else:
        bounds = [0, 0, shape[0], shape[0]]
        np.testing.assert_array_equal(HASHER.hash_batch(ids, cu_seqlens=bounds), rows)
