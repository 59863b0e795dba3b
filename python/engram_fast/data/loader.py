"""`with_rows`: adds the rows in the consuming process, a batch ahead, to whatever a loader yields."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .background import Background
from .boundaries import Boundaries
from .rows import DEFAULT_KEY, RowWriter

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..hash import NgramHasher
    from .boundary_names import Kind

# Seconds. If the consumer is back sooner, the thread can only run while the loader works. With workers on every core,
# waking the thread (0.1 to 0.2 ms) then cost more than it saved; with a loader that only waits it would save time.
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
    boundary_keys: Mapping[str, Kind] | None = None,
    boundaries: str = "auto",
    ahead: int = 1,
) -> RowsLoader:
    """Wrap any iterable of batches; each comes out as a copy with `engram_rows` [B, L, T, C].

    Rows are 48 to 96 times the bytes of the ids, and hashing them is cheaper than carrying them from a worker. So the
    workers ship ids alone, and a background thread of this process hashes batch k + 1 while batch k is consumed (or
    the calling thread does, if the last batch was consumed in less than half a millisecond).

    With accelerate, prepare the loader first: `with_rows(accelerator.prepare(loader), hasher)`. The reverse order is
    refused: every process would read all the data.

    Args:
        loader: any iterable of batches. It is iterated in the calling thread; its length and attributes (`dataset`,
            `sampler`, …) are passed on.
        hasher: the hasher.
        num_threads: the threads that hash.
        pin_memory: allocates page-locked rows.
        ahead: 0 hashes in the calling thread and reads nothing ahead; a loader whose position is saved in checkpoints
            needs that, and one that accelerate prepared gets it.
        layer_axis: as in `EngramCollator`, and so are the others:
        per_layer: one key for each layer.
        layers: the layers to hash.
        dtype: int32 or int64.
        add_offsets: as in `NgramHasher.hash_batch`.
        key: the key of the rows.
        ids_key: the key of the ids.
        ignore: keys that say nothing about documents.
        boundary_keys: more keys that do, with their kinds.
        boundaries: "required" refuses a batch that does not say where documents end.

    Raises:
        ValueError: `ahead` is neither 0 nor 1. While iterating: as `EngramCollator`; the batches before the bad one
            come out.
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
        boundaries=Boundaries(ids_key, ignore=ignore, boundary_keys=boundary_keys, boundaries=boundaries),
    )
    return RowsLoader(loader, writer, ahead)


class RowsLoader:
    """A loader with rows: the result of `with_rows`."""

    def __init__(self, loader: Iterable[Any], writer: RowWriter, ahead: int) -> None:
        if ahead not in (0, 1):
            raise ValueError(f"ahead is {ahead}; it may be 0 or 1")
        self.loader: Any = loader
        self._writer = writer
        # accelerate's loaders tell its optimizers and metrics which batch is the last one as they hand it out.
        self._ahead = 0 if hasattr(loader, "end_of_dataloader") else ahead

    def __len__(self) -> int:
        return len(self.loader)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # If the loader is a torch DataLoader, this one is too for `isinstance`, as accelerate's own wrappers are. Its
        # `prepare` passes other objects by in silence, and each process would read all the data.
        torch_loader = getattr(sys.modules.get("torch.utils.data"), "DataLoader", None)
        loader = self.__dict__.get("loader")
        return loader.__class__ if torch_loader is not None and isinstance(loader, torch_loader) else RowsLoader

    @property
    def _is_accelerate_prepared(self) -> bool:
        # accelerate's `prepare` reads this attribute of a loader before any other.
        if getattr(self.loader, "_is_accelerate_prepared", False):
            return True
        raise ValueError(
            "accelerate would split this loader's data without its rows: prepare the loader itself, then add the rows: "
            "with_rows(accelerator.prepare(loader), hasher)"
        )

    @_is_accelerate_prepared.setter
    def _is_accelerate_prepared(self, value: bool) -> None:
        """Take accelerate's note; the loader has its own."""

    def __reduce__(self) -> Any:
        return RowsLoader, (self.loader, self._writer, self._ahead)

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
