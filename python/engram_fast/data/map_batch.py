"""`map_batch` and `AddRows`: rows for the columns of a batch, for datasets, Ray Data, Spark and their like."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _checks
from .arrow_rows import rows_column, rows_type
from .boundaries import Boundaries
from .columns import Columns, read_columns
from .rows import DEFAULT_KEY, check_absent, probe_rows

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..hash import NgramHasher
    from ..hash.options import RowOptions
    from .boundary_names import Kind
    from .options import MapOptions

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
    boundary_keys: Mapping[str, Kind] | None = None,
    boundaries: str = "auto",
    **options: Unpack[RowOptions],
) -> Any:
    """Return the batch with a column of rows: for example i an array [T_i, L, C] (`layer_axis=-2`) or [L, T_i, C] (1).

    No id passes through a Python list. The batch itself stays as it is.

    Args:
        batch: one of these; the result is of the same kind.
            - a pyarrow Table or RecordBatch, or a polars or pandas DataFrame: the rows are a nested Arrow column;
            - a mapping of columns (lists, arrays, tensors): the rows are NumPy arrays, one for each example, or one
              array if the ids were one;
            - a single example of `datasets.map` without `batched=True`: the rows are those of the example.
        hasher: the hasher.
        column: the name of the ids.
        key: the name of the rows.
        layer_axis: -2 or 1, see above.
        fixed_size: Arrow lists of one size for layers and columns; False gives plain lists, which Spark needs.
        ignore: columns that say nothing about documents here.
        boundary_keys: more names of columns that do, with their kinds: "segment ids", "position ids", "lengths",
            "cumulative lengths" or "mask". The known ones are read as in `EngramCollator`; lengths are those of single
            examples here, so `cu_seqlens` over a whole batch is refused.
        boundaries: "required" refuses a batch that does not say where documents end.
        **options: those of `hash_batch`: layers, dtype, add_offsets, num_threads.

    Raises:
        ValueError: a shape, a length or a mask does not fit the ids; a column looks like a boundary and is not
            understood; the batch has rows already; more numbers than an Arrow list can count.
        TypeError: another kind of batch, unknown options, ids or boundaries that are no integers.
        IndexError: an id outside the vocabulary.
    """
    if layer_axis not in (1, -2):
        raise ValueError(f"layer_axis is {layer_axis}; per example it may be -2 ([T, L, C]) or 1 ([L, T, C])")
    if unknown := set(options) - set(OPTIONS):
        raise TypeError(f"unknown option {sorted(unknown)[0]!r}; known are {', '.join(OPTIONS)}")
    rules = _rules(column, ignore, boundary_keys, boundaries)
    if isinstance(batch, Mapping):
        check_absent(key, batch)
        names = [name for name in batch if not _is_none(batch, name)]
        columns = read_columns(names, _column_reader(batch), rules)
        result: Any = copy.copy(batch)
        rows = _split(columns, _hash(columns, hasher, layer_axis, options), layer_axis)
        result[key] = rows[0] if _is_lazy_row(batch) else rows
        return result
    frame = _frame_library(batch)
    if frame == "pandas":
        check_absent(key, batch.columns)
        columns = read_columns(list(batch.columns), lambda name: _pandas_column(batch[name]), rules)
        rows = _hash(columns, hasher, layer_axis, options)
        return _with_pandas_column(batch, key, rows_column(columns.starts, rows, layer_axis, fixed_size))
    table = batch.to_arrow() if frame == "polars" else _checked_arrow(batch)
    names = table.schema.names
    check_absent(key, names)
    columns = read_columns(names, table.column, rules)
    rows = _hash(columns, hasher, layer_axis, options)
    added = rows_column(columns.starts, rows, layer_axis, fixed_size)
    if frame == "polars":
        polars = sys.modules["polars"]
        return batch.with_columns(polars.Series(key, added))
    return batch.append_column(key, added)


def _rules(column: str, ignore: Sequence[str], boundary_keys: Mapping[str, Kind] | None, boundaries: str) -> Boundaries:
    """Return the rules; the usual ones are kept, since they remember how the names of a batch were sorted."""
    if not ignore and boundary_keys is None and boundaries == "auto":
        return _usual_rules(column)
    return Boundaries(column, ignore=ignore, boundary_keys=boundary_keys, boundaries=boundaries)


@functools.lru_cache(maxsize=16)
def _usual_rules(column: str) -> Boundaries:
    return Boundaries(column)


def _is_none(batch: Mapping[str, Any], name: str) -> bool:
    return name not in getattr(batch, "keys_to_format", ()) and batch[name] is None


def _column_reader(batch: Mapping[str, Any]) -> Any:
    """Return the function that gives a column of a mapping by its name.

    A lazy batch of `datasets` keeps its Arrow table: a column that nobody has read or replaced comes from there, not
    formatted and not copied.
    """
    table, unread = getattr(batch, "pa_table", None), getattr(batch, "keys_to_format", ())
    single = _is_lazy_row(batch)

    def column_of(name: str) -> Any:
        if table is not None and name in unread:
            return table.column(name)
        return [batch[name]] if single else batch[name]

    return column_of


def _is_lazy_row(batch: Any) -> bool:
    """Tell whether this is a single example of `datasets.map`; that library is not imported to ask."""
    return any(kind.__name__ == "LazyRow" for kind in type(batch).__mro__)


def _frame_library(batch: Any) -> str | None:
    for library in ("polars", "pandas"):
        frame = getattr(sys.modules.get(library), "DataFrame", None)
        if frame is not None and isinstance(batch, frame):
            return library
    return None


def _checked_arrow(batch: Any) -> Any:
    if "pyarrow" in sys.modules:
        import pyarrow as pa

        if isinstance(batch, (pa.Table, pa.RecordBatch)):
            return batch
    raise TypeError(
        f"the batch is a {type(batch).__name__}; it must be an Arrow table or a mapping of columns, or a pandas or "
        "polars DataFrame"
    )


def _pandas_column(series: Any) -> Any:
    """Return the Arrow array of a series that is one, else the list of its values."""
    if hasattr(series.array, "__arrow_array__") and hasattr(series.dtype, "pyarrow_dtype"):
        import pyarrow as pa

        return pa.array(series.array)
    return series.tolist() if series.dtype == object else series.to_numpy()


def _with_pandas_column(frame: Any, key: str, column: Any) -> Any:
    pandas = sys.modules["pandas"]
    result = frame.copy(deep=False)
    # An Arrow column: `datasets` and Ray turn it back into Arrow as it is, and refuse arrays of three dimensions.
    result[key] = pandas.Series(pandas.array(column, dtype=pandas.ArrowDtype(column.type)), index=frame.index)
    return result


def _hash(columns: Columns, hasher: NgramHasher, layer_axis: int, options: RowOptions) -> np.ndarray:
    """Return rows [N, L, C] of all examples one after another, or [L, N, C] for layer_axis 1."""
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


class AddRows:
    """`map_batch` with its hasher and options: a picklable callable for every pipeline that maps batches.

    - Hugging Face datasets: `dataset.map(AddRows(hasher), batched=True, num_proc=4)` or `dataset.with_transform(...)`
    - Ray Data: `dataset.map_batches(AddRows(hasher), batch_format="pyarrow")`
    - Spark: `add = AddRows(hasher, fixed_size=False)`, then
      `frame.mapInArrow(add.record_batches, schema)` with the schema of `add.arrow_schema`
    """

    def __init__(self, hasher: NgramHasher, **options: Unpack[MapOptions]) -> None:
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

        asked = self.options
        probe = probe_rows(
            self.hasher, layers=asked.get("layers"), dtype=asked.get("dtype"), add_offsets=asked.get("add_offsets")
        )
        kind = rows_type(probe, self.options.get("layer_axis", -2), self.options.get("fixed_size", True))
        return schema.append(pa.field(self.options.get("key", DEFAULT_KEY), kind))
