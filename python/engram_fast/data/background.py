"""`Background`: calls made by one thread beside the caller, or by the caller where the thread has not begun them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class Background:
    """`start` hands a call to a thread; `wait` returns when the earliest call is made, or raises its error.

    A call that the thread has not begun when it is waited for is made by the caller instead: where every core is busy
    the thread may be given one only milliseconds after it was woken.

    Not an executor: its futures cost 0.1 ms and more per batch beside busy workers on two cores, as much as hashing.
    """

    def __init__(self) -> None:
        self._handed_over: SimpleQueue[_Call | None] = SimpleQueue()
        self._waited_for: deque[_Call] = deque()
        self._thread = threading.Thread(target=_run, args=(self._handed_over,), name="engram-rows", daemon=True)

    def __enter__(self) -> Background:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._handed_over.put(None)
        self._thread.join()

    def start(self, work: Callable[[], Any], hand_over: bool = True) -> None:
        """Hand over a call, or leave it to `wait`; its result is dropped."""
        call = _Call(work)
        self._waited_for.append(call)
        if hand_over:
            self._handed_over.put(call)

    def wait(self) -> None:
        """Wait for the earliest call not yet waited for."""
        self._waited_for.popleft().finish()


class _Call:
    """A call that is made once, by whoever begins it first."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._unbegun = threading.Lock()
        self._done = threading.Lock()
        self._done.acquire()
        self._error: BaseException | None = None

    def make(self) -> bool:
        """Make the call unless another thread has begun it."""
        if not self._unbegun.acquire(blocking=False):
            return False
        work = self._work
        del self._work  # what it holds is free when it has been made
        try:
            work()
        except BaseException as error:
            self._error = error
        finally:
            self._done.release()
        return True

    def finish(self) -> None:
        """Return, or raise, when the call has been made."""
        if not self.make():
            self._done.acquire()
        if self._error is not None:
            raise self._error


def _run(handed_over: SimpleQueue) -> None:
    while (call := handed_over.get()) is not None:
        call.make()
        del call
