"""Code of the caller that runs while arguments are read and changes an array: nothing outside the buffers is read or
written, whatever the order of the arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from engram_fast import HashState, NgramHasher, TokenMap, _core
from field_hasher import hasher

H = hasher()
IDS = np.array([[5, 7, 5, 7], [9, 2, 2, 5]])
SHAPE = (2, 2, 4, 4)
UNTOUCHED = -7


class Guarded:
    """A buffer in the middle of memory that nobody may write to."""

    def __init__(self, shape: tuple[int, ...], dtype: type = np.int64) -> None:
        size = int(np.prod(shape))
        self.memory: np.ndarray = np.full(5 * size, UNTOUCHED, dtype)
        self.out = self.memory[2 * size : 3 * size].reshape(shape)

    def check_untouched(self) -> None:
        assert (self.memory == UNTOUCHED).all()


class Runs:
    """Runs code of the caller in every protocol that arguments are read by."""

    def __init__(self, action: Callable[[], object], value: Any) -> None:
        self.action, self.value = action, value

    def __index__(self) -> int:
        self.action()
        return int(self.value)

    def __iter__(self) -> Iterator[Any]:
        self.action()
        return iter(self.value)

    def __array__(self, *_arguments: Any, **_options: Any) -> np.ndarray:
        self.action()
        return np.asarray(self.value)

    @property
    def __array_interface__(self) -> Any:
        raise AttributeError


class RunsDtype:
    def __init__(self, action: Callable[[], object], value: Any) -> None:
        self.action, self.value = action, value

    @property
    def dtype(self) -> Any:
        self.action()
        return np.dtype(self.value)


def arguments(action: Callable[[], object]) -> dict[str, Any]:
    """Each argument of `hash_batch` that can run code, as one that does."""
    return {
        "dtype": RunsDtype(action, np.int64),
        "layers": Runs(action, [1, 15]),
        "layer_axis": Runs(action, 0),
        "num_threads": Runs(action, 1),
        "mask": Runs(action, np.ones((2, 4), bool)),
        "segment_ids": Runs(action, np.zeros((2, 4), int)),
    }


ARGUMENTS = list(arguments(lambda: None))


def verbs(h: NgramHasher) -> dict[str, Callable[..., Any]]:
    return {
        "hash_batch": h.hash_batch,
        "step": lambda ids, **options: h.step(ids, h.new_state(2), **options),
        "peek": lambda ids, **options: h.peek(ids, h.new_state(2), **options),
    }


def set_dtype(array: np.ndarray, dtype: Any) -> None:
    array.dtype = dtype  # type: ignore[misc]


def set_shape(array: np.ndarray, shape: tuple[int, ...]) -> None:
    array.shape = shape


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("verb", verbs(H))
def test_a_buffer_that_becomes_narrower_is_not_overrun(verb: str, argument: str) -> None:
    half = Guarded((2, 2, 4, 2))  # as int32 it has the shape of the result, and half of its bytes
    options = {argument: arguments(lambda: set_dtype(half.out, np.int32))[argument]}
    if argument != "dtype":
        options["dtype"] = np.int64
    with pytest.raises((ValueError, TypeError)):
        verbs(H)[verb](IDS, out=half.out, **options)
    half.check_untouched()


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("verb", verbs(H))
def test_a_buffer_that_becomes_another_is_checked_as_it_is(verb: str, argument: str) -> None:
    for change in (
        lambda out: out.setflags(write=False),
        lambda out: set_shape(out, (4, 2, 2, 4)),
        lambda out: set_dtype(out, np.float64),
    ):
        whole = Guarded(SHAPE)
        options = arguments(partial(change, whole.out))
        with pytest.raises((ValueError, TypeError), match=r"out|dtype"):
            verbs(H)[verb](IDS, out=whole.out, **{argument: options[argument]})
        whole.check_untouched()


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("verb", verbs(H))
def test_ids_that_become_shorter_are_not_overread(verb: str, argument: str) -> None:
    for change in (
        lambda ids: ids.resize((2, 1), refcheck=False),
        lambda ids: set_shape(ids, (4, 2)),
        lambda ids: set_dtype(ids, np.uint64),
    ):
        whole = Guarded(SHAPE)
        for out in (None, whole.out):
            ids = IDS.copy()
            options = arguments(partial(change, ids))
            with pytest.raises(ValueError, match="ids"):
                verbs(H)[verb](ids, out=out, **{argument: options[argument]})
        whole.check_untouched()


def test_masks_and_segments_that_become_shorter_are_not_overread() -> None:
    mask = np.ones((2, 4), bool)
    with pytest.raises(ValueError, match="mask"):
        H.hash_batch(
            IDS, mask=mask, segment_ids=Runs(lambda: mask.resize((1, 1), refcheck=False), np.zeros((2, 4), int))
        )
    segments = np.zeros((2, 4), np.int64)
    with pytest.raises(ValueError, match="segment_ids"):
        H.hash_batch(IDS, segment_ids=segments, layers=Runs(lambda: segments.resize((1, 1), refcheck=False), [1]))


def test_states_read_no_array_that_has_changed() -> None:
    def shrink(array: np.ndarray) -> Callable[[], object]:
        return lambda: array.resize((1, 1), refcheck=False)

    state, before = H.new_state(2), H.new_state(2)
    ids = IDS.copy()
    with pytest.raises(ValueError, match="ids"):
        H.commit(state, ids, Runs(shrink(ids), [4, 4]))
    assert state == before
    ids = IDS.copy()
    with pytest.raises(ValueError, match="ids_so_far"):
        H.seed(ids, mask=Runs(shrink(ids), np.ones((2, 4), bool)))
    for raw in (True, False):
        history = IDS.copy()
        with pytest.raises(ValueError, match="history"):
            HashState.from_numpy(history, H, raw=raw, lengths=Runs(shrink(history), [4, 4]))


class Lies(np.ndarray):
    """Says and returns what the caller wants of it."""

    @property  # type: ignore[misc]
    def shape(self) -> Any:
        return (10**6,)

    @property
    def dtype(self) -> Any:
        return np.dtype(np.int64)

    @property  # type: ignore[misc]
    def strides(self) -> Any:
        return (8,)

    @property
    def flags(self) -> Any:
        return {"WRITEABLE": True}

    def view(self, *_arguments: Any, **_options: Any) -> Any:
        return self

    def reshape(self, *_arguments: Any, **_options: Any) -> Any:
        return np.zeros(1, np.int64)

    def __array_function__(self, *_arguments: Any, **_options: Any) -> Any:
        return False


def lying(array: np.ndarray) -> Any:
    return np.ndarray.view(array, Lies)


def test_subclasses_are_read_as_they_lie_in_memory() -> None:
    token_map = TokenMap.identity(1000)
    cube = np.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(token_map.compress(lying(cube)), cube)
    np.testing.assert_array_equal(H.hash_batch(lying(IDS)), H.hash_batch(IDS))
    assert H.seed(lying(IDS)) == H.seed(IDS)


def test_subclasses_are_written_as_they_lie_in_memory() -> None:
    whole = Guarded(SHAPE)
    H.hash_batch(IDS, out=lying(whole.out))
    np.testing.assert_array_equal(whole.out, H.hash_batch(IDS))
    whole.out[:] = UNTOUCHED
    whole.check_untouched()
    frozen = Guarded(SHAPE)
    frozen.out.setflags(write=False)
    short = Guarded((2, 2, 4, 2))
    narrow = Guarded(SHAPE, np.int16)
    for guarded in (frozen, short, narrow):
        with pytest.raises((ValueError, TypeError), match="out"):
            H.hash_batch(IDS, out=lying(guarded.out))
        guarded.check_untouched()
    shared = np.arange(128)
    shared[:8] = IDS.reshape(-1)
    with pytest.raises(ValueError, match="shares memory"):
        H.hash_batch(shared[:8].reshape(2, 4), out=lying(shared[:64].reshape(SHAPE)))


@pytest.mark.skipif(not hasattr(_core, "fill_bytes"), reason="built without the feature measure")
def test_the_fill_writes_the_array_and_no_byte_more() -> None:
    guarded = Guarded((3, 5))
    _core.fill_bytes(lying(guarded.out), True)
    assert (guarded.out.view(np.uint8) == 0xA5).all()
    guarded.out[:] = UNTOUCHED
    guarded.check_untouched()


def test_a_class_that_changes_the_buffer_while_it_is_asked_for() -> None:
    half = Guarded((2, 2, 4, 2))

    class Asked(np.ndarray):
        @property  # type: ignore[misc]
        def __class__(self) -> Any:
            set_dtype(self, np.int32)
            return np.ndarray

    with pytest.raises(TypeError, match="dtype"):
        H.hash_batch(IDS, out=np.ndarray.view(half.out, Asked), dtype=np.int64)
    half.check_untouched()
