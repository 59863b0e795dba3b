"""`grain_rows`: the rows as a Grain transform, NumPy int32 as JAX devices want them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .boundaries import Boundaries
from .rows import DEFAULT_KEY, check_absent, check_present, probe_rows

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..hash import NgramHasher
    from ..hash.options import RowOptions
    from .boundary_names import Kind


def grain_rows(
    hasher: NgramHasher,
    *,
    key: str = DEFAULT_KEY,
    ids_key: str = "input_ids",
    layers: Sequence[int] | None = None,
    dtype: DTypeLike = np.int32,
    add_offsets: bool | None = None,
    num_threads: int | None = 1,
    ignore: Sequence[str] = (),
    boundary_keys: Mapping[str, Kind] | None = None,
    boundaries: str = "auto",
) -> Any:
    """Return a `grain.transforms.Map` for `dataset.map(...)` or the operations of a `grain.DataLoader`.

    An element {"input_ids": [T]} gets `engram_rows` [L, T, C], a batch [B, T] gets [B, L, T, C]: NumPy, int32 unless
    another dtype is asked for, so no 64-bit integers reach the device. Of elements that Grain's packers made,
    `<ids_key>_segment_ids` and `<ids_key>_positions` tell the documents apart.

    Args:
        hasher: the hasher.
        key: the key of the rows.
        ids_key: the key of the ids.
        layers: the layers to hash; None: all.
        dtype: int32 or int64; a row number that int32 cannot hold is an error here, not in a worker.
        add_offsets: as in `NgramHasher.hash_batch`.
        num_threads: the threads that hash.
        ignore: keys that say nothing about documents.
        boundary_keys: more keys that do, with their kinds, as in `EngramCollator`.
        boundaries: "required" refuses an element that does not say where documents end.
    """
    options: RowOptions = {"layers": layers, "dtype": dtype, "add_offsets": add_offsets}
    probe_rows(hasher, **options)  # refuses here what would fail in a worker
    rules = Boundaries(ids_key, ignore=ignore, boundary_keys=boundary_keys, boundaries=boundaries)
    return _transform_class()(hasher, key, rules, {**options, "num_threads": num_threads})


@functools.cache
def _transform_class() -> type:
    import grain

    class GrainRows(grain.transforms.Map):  # type: ignore[misc, unused-ignore]
        """Adds rows to an element or a batch of elements."""

        def __init__(self, hasher: NgramHasher, key: str, boundaries: Boundaries, options: RowOptions) -> None:
            self.hasher, self.key, self.boundaries, self.options = hasher, key, boundaries, options

        def map(self, element: Any) -> Any:
            check_absent(self.key, element)
            ids_key = self.boundaries.ids_key
            check_present(ids_key, element, "element")
            ids = np.asarray(element[ids_key])
            where = self.boundaries.of_batch(element, ids.shape)
            flat = ids.ndim == 1
            if flat:
                ids, where = ids[None], {name: value[None] for name, value in where.items()}
            rows = self.hasher.hash_batch(ids, layer_axis=1, **where, **self.options)
            return {**element, self.key: rows[0] if flat else rows}

        def __reduce__(self) -> Any:
            return _rebuild, (self.hasher, self.key, self.boundaries, self.options)

    return GrainRows


def _rebuild(*arguments: Any) -> Any:
    return _transform_class()(*arguments)
