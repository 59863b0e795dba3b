"""Arrow and Parquet files: a column of lists is one document per row, a plain integer column one sequence.

An Arrow file (file or stream format, so also what Hugging Face `datasets` keeps on disk) is mapped and read in place. A
Parquet file is compressed: its column is decoded into memory once per process, and from there on not copied either.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .tokens import Tokens


def open_arrow(path: str, column: str) -> Tokens:
    """Map an Arrow file or stream."""
    import pyarrow as pa

    source = pa.memory_map(path)
    try:
        table = pa.ipc.open_file(source).read_all()
    except pa.ArrowInvalid:
        source.seek(0)
        table = pa.ipc.open_stream(source).read_all()
    _check_column(table.column_names, column, path)
    return tokens_of_column(table[column], path)


def open_parquet(path: str, column: str) -> Tokens:
    """Decode one column of a Parquet file."""
    import pyarrow.parquet as pq

    _check_column(pq.read_schema(path).names, column, path)
    return tokens_of_column(pq.read_table(path, columns=[column], memory_map=True)[column], path)


def _check_column(names: list[str], column: str, path: str) -> None:
    if column not in names:
        raise ValueError(f"{path} has no column {column!r}; it has {names}")


def tokens_of_column(column: Any, place: str) -> Tokens:
    """Read the ids of a chunked array without a copy, and its rows as documents."""
    flat, documents = flatten(column, place)
    return Tokens(flat, documents, place)


def flatten(column: Any, place: str) -> tuple[list[np.ndarray], np.ndarray | None]:
    """Read the integers of an Arrow (chunked) array as NumPy views, and the row starts [rows + 1] of a list column."""
    import pyarrow as pa

    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    views: list[np.ndarray] = []
    starts: list[np.ndarray] = [np.zeros(1, np.int64)]
    total = 0
    is_list = _is_list(column.type)
    for chunk in chunks:
        if isinstance(chunk, pa.ExtensionArray):
            chunk = chunk.storage
        if chunk.null_count:
            raise ValueError(f"{place} has a null in row {_first_null(chunk, len(views))}; token ids cannot be null")
        values = chunk
        if is_list:
            values, ends = _list_values(chunk)
            starts.append(ends + total)
        if not pa.types.is_integer(values.type):
            raise TypeError(f"{place} holds {values.type}, which is no integer type; token ids are integers")
        if values.null_count:
            raise ValueError(f"{place} has a null at value {_first_null(values, len(views))}; token ids cannot be null")
        views.append(values.to_numpy(zero_copy_only=True))
        total += len(values)
    if not views:
        views = [np.empty(0, np.int64)]
    return views, np.concatenate(starts) if is_list else None


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    if isinstance(kind, pa.ExtensionType):
        kind = kind.storage_type
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _list_values(chunk: Any) -> tuple[Any, np.ndarray]:
    """Return the values below a list array (its slice respected), and the end of each row among them."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(chunk.type):
        width = chunk.type.list_size
        values = chunk.values.slice(chunk.offset * width, len(chunk) * width)
        return values, np.arange(1, len(chunk) + 1, dtype=np.int64) * width
    offsets = chunk.offsets.to_numpy(zero_copy_only=True).astype(np.int64)
    return chunk.values.slice(offsets[0], offsets[-1] - offsets[0]), offsets[1:] - offsets[0]


def _first_null(array: Any, chunk: int) -> str:
    at = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
    return f"{at} of chunk {chunk}"
