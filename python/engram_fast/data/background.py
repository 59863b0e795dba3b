"""`Background`: one thread that makes calls beside the caller; the caller makes those that the thread has not begun."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class Background:
    """Makes calls in a thread: `start` hands a call over, `wait` returns when the earliest call is done.

    `wait` raises the error of its call. If the thread has not begun that call, `wait` makes it in the calling thread:
    on a machine whose cores are all busy, a woken thread may get a core only milliseconds later.

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
        """Hand a call to the thread, or leave it to `wait` (`hand_over=False`); its result is dropped."""
        call = _Call(work)
        self._waited_for.append(call)
        if hand_over:
            self._handed_over.put(call)

    def wait(self) -> None:
        """Wait for the earliest call that nobody has waited for; raise its error."""
        self._waited_for.popleft().finish()


class _Call:
    """A call that the first thread to begin it makes, once."""

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
        del self._work  # a finished call keeps nothing alive
        try:
            work()
        except BaseException as error:
            self._error = error
        finally:
            self._done.release()
        return True

    def finish(self) -> None:
        """Return when the call is done, or raise its error."""
        if not self.make():
            self._done.acquire()
        if self._error is not None:
            raise self._error


def _run(handed_over: SimpleQueue[_Call | None]) -> None:
    while (call := handed_over.get()) is not None:
        call.make()
        del call
