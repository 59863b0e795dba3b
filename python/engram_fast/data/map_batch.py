"""`map_batch` and `AddRows`: rows for the columns of a batch, for datasets, Ray Data, Spark and their like."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _checks
from .columns import Columns, columns_of_arrow, columns_of_mapping
from .rows import DEFAULT_KEY, check_absent, probe_rows

if TYPE_CHECKING:
    from ..hasher import NgramHasher

OPTIONS = ("layers", "dtype", "add_offsets", "num_threads")


def map_batch(
    batch: Any,
    hasher: NgramHasher,
    *,
    column: str = "input_ids",
    key: str = DEFAULT_KEY,
    layer_axis: int = -2,
    fixed_size: bool = True,
    ignore: Sequence[str] = (),
    **options: Any,
) -> Any:
    """Return the batch with a column of rows: for example i an array [T_i, L, C] (`layer_axis=-2`) or [L, T_i, C] (1).

    `batch` is a pyarrow Table or RecordBatch, and comes back as one with a nested list column (of fixed-size lists,
    or of plain lists with `fixed_size=False`, which Spark needs); or a mapping of columns (lists, arrays, tensors),
    and comes back as a shallow copy with NumPy arrays, or one array where the ids were one. No id passes through a
    Python list.

    Columns `attention_mask`, `segment_ids`, `seq_idx` and `position_ids` of the batch are respected as in
    `EngramCollator`; cumulative lengths are refused, since an example here is not a whole batch. `options` are those
    of `hash_batch`: layers, dtype, add_offsets, num_threads.
    """
    if layer_axis not in (1, -2):
        raise ValueError(f"layer_axis is {layer_axis}; per example it may be -2 ([T, L, C]) or 1 ([L, T, C])")
    if unknown := set(options) - set(OPTIONS):
        raise TypeError(f"unknown option {sorted(unknown)[0]!r}; known are {', '.join(OPTIONS)}")
    arrow = _is_arrow(batch)
    check_absent(key, batch.schema.names if arrow else batch)
    if arrow:
        columns = columns_of_arrow(batch, column, ignore)
        rows = _hash(columns, hasher, layer_axis, options)
        return append_arrow(batch, key, columns, rows, layer_axis, fixed_size)
    # A lazy batch of `datasets` keeps its Arrow table; reading that one leaves every column unformatted and unchanged.
    table = getattr(batch, "pa_table", None)
    result = copy.copy(batch)
    source = columns_of_mapping(batch, column, ignore) if table is None else columns_of_arrow(table, column, ignore)
    result[key] = _split(source, _hash(source, hasher, layer_axis, options), layer_axis)
    return result


def _is_arrow(batch: Any) -> bool:
    if isinstance(batch, Mapping):
        return False
    import pyarrow as pa

    if isinstance(batch, (pa.Table, pa.RecordBatch)):
        return True
    raise TypeError(f"the batch is a {type(batch).__name__}; it must be an Arrow table or a mapping of columns")


def _hash(columns: Columns, hasher: NgramHasher, layer_axis: int, options: Mapping[str, Any]) -> np.ndarray:
    """Rows [N, L, C] of all examples one after another, or [L, N, C] for layer_axis 1."""
    _checks.hasher(hasher)
    return hasher.hash_batch(
        columns.ids, cu_seqlens=columns.starts, layer_axis=-2 if layer_axis == -2 else 0, **columns.where, **options
    )


def _split(columns: Columns, rows: np.ndarray, layer_axis: int) -> Any:
    starts = columns.starts
    if columns.shape is not None:
        if layer_axis == -2:
            rows = rows.reshape(*columns.shape, *rows.shape[1:])
        else:
            rows = np.ascontiguousarray(rows.reshape(len(rows), *columns.shape, rows.shape[-1]).swapaxes(0, 1))
        if columns.torch:
            import torch

            return torch.from_numpy(rows)
        return rows
    bounds = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    if layer_axis == -2:
        return [rows[start:stop] for start, stop in bounds]
    return [np.ascontiguousarray(rows[:, start:stop]) for start, stop in bounds]


def append_arrow(batch: Any, key: str, columns: Columns, rows: np.ndarray, layer_axis: int, fixed_size: bool) -> Any:
    """Return the Arrow batch with a nested column of rows; for layer_axis -2 its values are the memory of `rows`."""
    import pyarrow as pa

    width = rows.shape[-1]
    if layer_axis == -2:
        layers = rows.shape[1]
        inner = _lists(_lists(pa.array(rows.reshape(-1)), width, fixed_size), layers, fixed_size)
        column = (
            pa.LargeListArray.from_arrays(pa.array(columns.starts), inner)
            if _large(columns.starts)
            else (pa.ListArray.from_arrays(pa.array(columns.starts.astype(np.int32)), inner))
        )
    else:
        layers = rows.shape[0]
        pieces = [
            rows[:, start:stop].reshape(-1) for start, stop in zip(columns.starts, columns.starts[1:], strict=False)
        ]
        values = np.concatenate(pieces) if pieces else rows.reshape(-1)
        per_layer = np.repeat(np.diff(columns.starts), layers)
        ends = np.concatenate([[0], np.cumsum(per_layer)]).astype(np.int32)
        column = _lists(
            pa.ListArray.from_arrays(pa.array(ends), _lists(pa.array(values), width, fixed_size)), layers, fixed_size
        )
    return batch.append_column(key, column)


def _large(starts: np.ndarray) -> bool:
    return int(starts[-1]) > np.iinfo(np.int32).max


def _lists(values: Any, size: int, fixed_size: bool) -> Any:
    import pyarrow as pa

    if fixed_size:
        return pa.FixedSizeListArray.from_arrays(values, size)
    return pa.ListArray.from_arrays(pa.array(np.arange(0, len(values) + 1, size, dtype=np.int32)), values)


class AddRows:
    """`map_batch` with its hasher and options: a picklable callable for every pipeline that maps batches.

    - Hugging Face datasets: `dataset.map(AddRows(hasher), batched=True, num_proc=4)` or `dataset.with_transform(...)`
    - Ray Data: `dataset.map_batches(AddRows(hasher), batch_format="pyarrow")`
    - Spark: `add = AddRows(hasher, fixed_size=False)`, then
      `frame.mapInArrow(add.record_batches, schema)` with the schema of `add.arrow_schema`
    """

    def __init__(self, hasher: NgramHasher, **options: Any) -> None:
        self.hasher = hasher
        self.options = options

    def __call__(self, batch: Any) -> Any:
        """Return the batch with the rows, as `map_batch` does."""
        return map_batch(batch, self.hasher, **self.options)

    def record_batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Map an iterator of Arrow record batches, as Spark's `mapInArrow` hands them over."""
        for batch in batches:
            yield self(batch)

    def arrow_schema(self, schema: Any) -> Any:
        """Return the schema of the batches that come out for batches of `schema`."""
        import pyarrow as pa

        options = {name: self.options[name] for name in ("layers", "dtype", "add_offsets") if name in self.options}
        probe = probe_rows(self.hasher, **options)
        fixed = self.options.get("fixed_size", True)
        layers, width = (probe.shape[0], probe.shape[-1]) if fixed else (-1, -1)
        value = pa.from_numpy_dtype(probe.dtype)
        if self.options.get("layer_axis", -2) == -2:
            kind = pa.list_(pa.list_(pa.list_(value, width), layers))
        else:
            kind = pa.list_(pa.list_(pa.list_(value, width)), layers)
        return schema.append(pa.field(self.options.get("key", DEFAULT_KEY), kind))
