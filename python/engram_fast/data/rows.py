"""`RowWriter`: hashes a batch into a torch tensor, in the memory in which the batch will travel."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _checks
from .boundaries import Boundaries
from .boundary_values import as_array
from .buffers import Buffers

if TYPE_CHECKING:
    from numpy.typing import DTypeLike
    from typing_extensions import Unpack

    from ..hash import NgramHasher
    from ..hash.options import RowOptions

DEFAULT_KEY = "engram_rows"


class RowWriter:
    """Adds the rows of a batch to the batch; the common part of `EngramCollator` and `with_rows`.

    Inside a DataLoader worker the tensor is allocated in shared memory, as torch's own collate does, and hashed into
    there: nothing is copied on the way to the consuming process.
    """

    def __init__(
        self,
        hasher: NgramHasher,
        *,
        layer_axis: int = 1,
        per_layer: bool = False,
        layers: Sequence[int] | None = None,
        dtype: DTypeLike | None = None,
        add_offsets: bool | None = None,
        pin_memory: bool = False,
        num_threads: int | None = None,
        key: str = DEFAULT_KEY,
        boundaries: Boundaries | None = None,
    ) -> None:
        self.hasher = hasher
        self.layer_axis = 0 if per_layer else layer_axis
        self.per_layer = per_layer
        self.options: dict[str, Any] = {
            "layers": layers if layers is None else list(layers),
            "add_offsets": add_offsets,
        }
        self.pin_memory = pin_memory
        self.num_threads = num_threads
        self.key = key
        self.boundaries = Boundaries() if boundaries is None else boundaries
        self.ids_key = self.boundaries.ids_key
        self._buffers = Buffers()
        probe = probe_rows(hasher, dtype=dtype, **self.options)
        self.layer_count, self.columns, self.dtype = probe.shape[0], probe.shape[-1], probe.dtype
        if self.layer_axis not in (0, 1, -2):
            raise ValueError(f"layer_axis is {layer_axis}; it may be 0, 1 or -2")

    def shape(self, ids_shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the rows for ids [B, T], or for flat ids [N]."""
        shape = list(ids_shape)
        shape.insert(self.layer_axis if self.layer_axis >= 0 else len(shape), self.layer_count)
        return (*shape, self.columns)

    def add(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a shallow copy of `batch` with the rows; the batch itself and its tensors stay as they are."""
        result, fill = self.prepare(batch)
        fill()
        return result

    def prepare(self, batch: Mapping[str, Any]) -> tuple[Mapping[str, Any], Callable[[], Any]]:
        """Return the copy with unwritten rows, and the call that hashes them, in any thread."""
        if not isinstance(batch, Mapping):
            raise TypeError(
                f"the batch is a {type(batch).__name__}; rows are added to a mapping that holds {self.ids_key!r}"
            )
        check_present(self.ids_key, batch, "batch")
        ids = as_array(batch[self.ids_key])
        rows = self._allocate(self.shape(ids.shape))
        named = {self.key: rows}
        if self.per_layer:
            layers = self.options["layers"] or self.hasher.layout.layer_ids
            named = {f"{self.key}_{layer}": rows[index] for index, layer in enumerate(layers)}
        result: Any = copy.copy(batch)
        for key, value in named.items():
            check_absent(key, result)
            result[key] = value
        where = self.boundaries.of_batch(batch, ids.shape)
        options = {"layer_axis": self.layer_axis, "num_threads": self.num_threads, **self.options, **where}
        return result, functools.partial(self.hasher.hash_batch, ids, out=rows.numpy(), **options)

    def _allocate(self, shape: tuple[int, ...]) -> Any:
        import torch

        dtype = torch.int32 if self.dtype == np.int32 else torch.int64
        if torch.utils.data.get_worker_info() is not None:
            count = int(np.prod(shape))
            # torch's default collate allocates a batch for another process in the same way.
            new_shared: Any = torch.UntypedStorage._new_shared
            storage = new_shared(count * self.dtype.itemsize)
            empty: Any = torch.empty(0, dtype=dtype)
            return empty.set_(storage, 0, shape)
        if self.pin_memory:
            return torch.empty(shape, dtype=dtype, pin_memory=True)  # torch recycles page-locked memory itself
        return self._buffers.take(shape, self.dtype)


def check_present(key: str, batch: Mapping[str, Any], what: str) -> None:
    """Refuse a batch, or an element of one, that has no ids; the message lists what it has."""
    if key not in batch:
        raise ValueError(f"the {what} has no {key!r}; it has {list(batch)}")


def check_absent(key: str, names: Container[str]) -> None:
    """Refuse a batch that has rows already."""
    if key in names:
        raise ValueError(f"the batch already has {key!r}: its rows have been hashed before")


def probe_rows(hasher: NgramHasher, **options: Unpack[RowOptions]) -> np.ndarray:
    """Return the rows [L, 1, 1, C] of a masked token: no id is looked up, the layout decides shape and dtype."""
    _checks.hasher(hasher)
    return hasher.hash_batch(np.zeros((1, 1), np.int64), mask=np.zeros((1, 1), bool), layer_axis=0, **options)


def batch_bytes(
    batch: int,
    length: int,
    hasher: NgramHasher,
    *,
    layers: Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> int:
    """Return the bytes of the rows of a batch: batch * length * layers * columns * itemsize.

    A batch holds that much shared memory from the moment a worker makes it until the consumer frees it: with
    `EngramCollator` in workers about num_workers * (prefetch_factor + 1) batches do.

    Args:
        batch: the sequences of a batch.
        length: the tokens of a sequence.
        hasher: the hasher.
        layers: the layers to hash; None: all.
        dtype: int32 or int64; None: int32 if every row number fits.
    """
    probe = probe_rows(hasher, layers=layers, dtype=dtype)
    return batch * length * probe.nbytes
