"""`grain_rows`: the rows as a Grain transform, NumPy int32 as JAX devices want them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from .boundaries import boundaries_of
from .rows import DEFAULT_KEY, check_absent, check_present, probe_rows

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..hasher import NgramHasher


def grain_rows(
    hasher: NgramHasher,
    *,
    key: str = DEFAULT_KEY,
    ids_key: str = "input_ids",
    dtype: DTypeLike = np.int32,
    num_threads: int | None = 1,
    ignore: tuple[str, ...] = (),
    **options: Any,
) -> Any:
    """Return a `grain.transforms.Map` for `dataset.map(...)` or the operations of a `grain.DataLoader`.

    An element {"input_ids": [T]} gets `engram_rows` [L, T, C], a batch [B, T] gets [B, L, T, C]: NumPy, int32 unless
    another dtype is asked for, so no 64-bit integers reach the device. `options`: layers, add_offsets.
    """
    probe_rows(hasher, dtype=dtype, **options)  # refuses here what would fail in a worker
    return _transform_class()(
        hasher, key, ids_key, tuple(ignore), {"dtype": dtype, "num_threads": num_threads, **options}
    )


@functools.cache
def _transform_class() -> type:
    import grain

    class GrainRows(grain.transforms.Map):  # type: ignore[misc, unused-ignore]
        """Adds rows to an element or a batch of elements."""

        def __init__(
            self, hasher: NgramHasher, key: str, ids_key: str, ignore: tuple[str, ...], options: dict[str, Any]
        ) -> None:
            self.hasher, self.key, self.ids_key, self.ignore, self.options = hasher, key, ids_key, ignore, options

        def map(self, element: Any) -> Any:
            check_absent(self.key, element)
            check_present(self.ids_key, element, "element")
            ids = np.asarray(element[self.ids_key])
            where = boundaries_of(element, ids.shape, self.ignore)
            flat = ids.ndim == 1
            if flat:
                ids, where = ids[None], {name: value[None] for name, value in where.items()}
            rows = self.hasher.hash_batch(ids, layer_axis=1, **where, **self.options)
            return {**element, self.key: rows[0] if flat else rows}

        def __reduce__(self) -> Any:
            return _rebuild, (self.hasher, self.key, self.ids_key, self.ignore, self.options)

    return GrainRows


def _rebuild(*arguments: Any) -> Any:
    return _transform_class()(*arguments)
