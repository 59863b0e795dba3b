"""`Background`: one thread that makes calls in order, handed over as cheaply as Python can."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class Background:
    """Calls are made one after another in a thread of their own; `wait` returns, or raises, once per call, in order.

    Not an executor: its futures cost 0.1 ms and more per batch beside busy workers on two cores, as much as hashing.
    """

    def __init__(self, name: str = "engram-rows") -> None:
        self._calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._ends: SimpleQueue[BaseException | None] = SimpleQueue()
        self._thread = threading.Thread(target=_run, args=(self._calls, self._ends), name=name, daemon=True)

    def __enter__(self) -> Background:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._calls.put(None)
        self._thread.join()

    def start(self, call: Callable[[], Any]) -> None:
        """Hand over a call; its result is dropped."""
        self._calls.put(call)

    def wait(self) -> None:
        """Wait for the earliest call not yet waited for."""
        error = self._ends.get()
        if error is not None:
            raise error


def _run(calls: SimpleQueue, ends: SimpleQueue) -> None:
    while (call := calls.get()) is not None:
        try:
            call()
        except BaseException as error:
            ends.put(error)
        else:
            ends.put(None)
        del call
