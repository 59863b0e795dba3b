"""`with_rows`: adds the rows in the consuming process, a batch ahead, to whatever a loader yields."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .background import Background
from .rows import DEFAULT_KEY, RowWriter

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..hasher import NgramHasher

# Seconds. A consumer that is back sooner leaves the thread no time but the loader's own. Beside workers that keep every
# core busy, waking it (0.1 to 0.2 ms) then cost more than it saved; beside a loader that only waits it would save.
PAYS = 0.5e-3


def with_rows(
    loader: Iterable[Any],
    hasher: NgramHasher,
    *,
    layer_axis: int = 1,
    per_layer: bool = False,
    layers: Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    add_offsets: bool | None = None,
    num_threads: int | None = 1,
    pin_memory: bool = False,
    key: str = DEFAULT_KEY,
    ids_key: str = "input_ids",
    ignore: Sequence[str] = (),
    ahead: int = 1,
) -> RowsLoader:
    """Wrap any iterable of batches; each comes out as a copy with `engram_rows` [B, L, T, C].

    Rows are 48 to 96 times the bytes of the ids, and hashing them is cheaper than carrying them from a worker: so the
    workers ship ids alone, and a background thread of this process hashes batch k + 1 while batch k is consumed (or
    the calling thread, where the last batch was consumed in less than half a millisecond).
    Options are those of `EngramCollator`; `pin_memory` allocates page-locked rows; `ahead=0` hashes in the calling
    thread and reads nothing ahead, which a loader whose position is saved in checkpoints needs.

    The loader itself is iterated in the calling thread. Its length and attributes (`dataset`, `sampler`, …) are
    passed on.
    """
    writer = RowWriter(
        hasher,
        layer_axis=layer_axis,
        per_layer=per_layer,
        layers=layers,
        dtype=dtype,
        add_offsets=add_offsets,
        num_threads=num_threads,
        pin_memory=pin_memory,
        key=key,
        ids_key=ids_key,
        ignore=ignore,
    )
    return RowsLoader(loader, writer, ahead)


class RowsLoader:
    """What `with_rows` returns: the loader, with rows."""

    def __init__(self, loader: Iterable[Any], writer: RowWriter, ahead: int) -> None:
        if ahead not in (0, 1):
            raise ValueError(f"ahead is {ahead}; it may be 0 or 1")
        self.loader: Any = loader
        self._writer = writer
        self._ahead = ahead

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "loader":  # a half-made copy or pickle has no loader yet
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __iter__(self) -> Iterator[Any]:
        if self._ahead == 0:
            yield from map(self._writer.add, self.loader)
            return
        # The thread lives as long as the iteration: this iteration has none while its loader forks workers.
        batches = iter(self.loader)
        with Background() as background:
            waiting: list[Any] = []
            away = 0.0
            while True:
                failure: Exception | None = None
                try:
                    result, fill = self._writer.prepare(next(batches))
                except StopIteration:
                    result = None
                except Exception as error:  # the batch before it is still good: hand it out first
                    result, failure = None, error
                if result is not None:
                    background.start(fill, hand_over=away > PAYS)
                    waiting.append(result)
                if len(waiting) > (result is not None):
                    background.wait()
                    left = time.perf_counter()
                    yield waiting.pop(0)
                    away = time.perf_counter() - left
                if failure is not None:
                    raise failure
                if result is None:
                    return
