"""Faults seen in the field when processes fork and threads share: each with what shows it, none of which may happen
here."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from field_hasher import hasher, random_ids, same

H = hasher()
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
IN_FORKED_TEST = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


# ---- fork ---------------------------------------------------------------------------------------------------------


def exit_status_of_fork(check: Callable[[], bool], seconds: float = 30) -> int | None:
    """What a forked child ends with: 0 where `check` holds, None where it hung and was ended."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if check() else 2
        finally:
            os._exit(status)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


@FORKS
@IN_FORKED_TEST
def test_a_child_forked_after_the_threads_were_used_works() -> None:
    ids = random_ids(0, (64, 1024))
    want = H.hash_batch(ids, num_threads=4)

    def check() -> bool:
        return all(np.array_equal(H.hash_batch(ids, num_threads=n), want) for n in (4, 1, 2, 4))

    for _ in range(5):
        assert exit_status_of_fork(check) == 0
    # And a child of the child, and the parent afterwards.
    assert exit_status_of_fork(lambda: check() and exit_status_of_fork(check) == 0) == 0
    assert check()


@FORKS
@IN_FORKED_TEST
def test_forking_while_other_threads_are_hashing() -> None:
    ids = random_ids(0, (32, 1024))
    want = H.hash_batch(ids, num_threads=1)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            H.hash_batch(ids, num_threads=3)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        statuses = [
            exit_status_of_fork(lambda: np.array_equal(H.hash_batch(ids, num_threads=3), want)) for _ in range(15)
        ]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert statuses == [0] * 15


def put_equal(queue: Any, ids: np.ndarray, want: np.ndarray) -> None:
    queue.put(np.array_equal(H.hash_batch(ids, num_threads=4), want))


@FORKS
@IN_FORKED_TEST
def test_a_multiprocessing_child_by_fork_works() -> None:
    ids = random_ids(0, (64, 1024))
    want = H.hash_batch(ids, num_threads=4)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=put_equal, args=(queue, ids, want))
    child.start()
    child.join(30)
    hung = child.is_alive()
    if hung:
        child.kill()
    assert not hung
    assert queue.get(timeout=5)


@FORKS
@IN_FORKED_TEST
def test_a_torch_data_loader_by_fork_works() -> None:
    data = pytest.importorskip("torch.utils.data", reason="needs the package torch")
    ids = random_ids(0, (8, 4096))
    want = H.hash_batch(ids, num_threads=4)

    class Rows(data.Dataset):
        def __len__(self) -> int:
            return len(ids)

        def __getitem__(self, index: int) -> np.ndarray:
            return H.hash_batch(ids[index], num_threads=2 if index % 2 else None)

    loader = data.DataLoader(Rows(), batch_size=2, num_workers=2, multiprocessing_context="fork", timeout=60)
    rows = np.concatenate([batch.numpy() for batch in loader])
    same(rows, want.transpose(1, 0, 2, 3))


# ---- threads ------------------------------------------------------------------------------------------------------


def test_threads_share_a_hasher_and_a_shared_state_says_so() -> None:
    batches = [random_ids(seed, (16, 512)) for seed in range(16)]
    want = [H.hash_batch(ids, num_threads=1) for ids in batches]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda ids: H.hash_batch(ids, num_threads=2), batches * 5))
    for rows, expected in zip(got, want * 5, strict=True):
        same(rows, expected)

    state, ids = H.new_state(1), random_ids(0, (1, 20_000))
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(H.step, ids, state) for _ in range(100)]
        errors = [future.exception() for future in futures]
    assert all(error is None or (type(error) is RuntimeError and "concurrent" in str(error)) for error in errors)
    assert None in errors
    # Whoever was refused changed nothing: the state is that of the others, all of whom fed the same.
    assert state == H.seed(ids)


def test_every_verb_refuses_a_state_that_is_in_use() -> None:
    state = H.new_state(1)

    class Nosy:
        """Looks at the state while the call that holds it reads its arguments."""

        def __init__(self, use: Callable[[], Any]) -> None:
            self.use = use

        def __array__(self, *arguments: Any, **options: Any) -> np.ndarray:
            self.use()
            return np.array([[1]])

    for use in (
        lambda: H.step([[1]], state),
        lambda: H.peek([[1]], state),
        lambda: H.commit(state, [[1]], [1]),
        lambda: state.copy(),
        lambda: state.select([0]),
        lambda: state.reset(),
        lambda: state.to_numpy(),
        lambda: state.batch,
        lambda: state == H.new_state(1),
    ):
        with pytest.raises(RuntimeError, match="concurrent use of a HashState"):
            H.step(Nosy(use), state)
    assert state == H.new_state(1)


def longest_silence(call: Callable[[], Any]) -> tuple[float, float]:
    """How long the call took, and the longest time in it during which another thread did not get to run."""
    beats: list[float] = []
    stop = threading.Event()

    def beat() -> None:
        while not stop.is_set():
            beats.append(time.perf_counter())
            time.sleep(0.002)

    thread = threading.Thread(target=beat)
    thread.start()
    begin = time.perf_counter()
    call()
    end = time.perf_counter()
    stop.set()
    thread.join()
    inside = [begin, *(beat for beat in beats if begin <= beat <= end), end]
    return end - begin, max(b - a for a, b in itertools.pairwise(inside))


def test_other_threads_go_on_while_the_core_works() -> None:
    ids = np.tile(random_ids(0, (8, 16384)), (24, 1))
    masks, wide, rows = np.ones(ids.shape, dtype=np.int64), np.tile(ids, (3, 1)), H.hash_batch(ids)
    for call in (
        lambda: H.hash_batch(ids, out=rows, num_threads=1),
        lambda: H.hash_batch(ids, mask=masks, out=rows, num_threads=1),
        lambda: H.seed(ids, mask=masks),
        lambda: H.token_map.compress(wide),
    ):
        # The machine may be busy with other things; once undisturbed is enough.
        tries = [longest_silence(call) for _ in range(4)]
        assert any(took < 0.02 or silence < 0.4 * took + 0.01 for took, silence in tries), tries
