"""Arrow and Parquet files: a column of lists is one document per row, a plain integer column one sequence.

An Arrow file (file or stream format, so also the files that Hugging Face `datasets` keeps on disk) is mapped and read
in place. A Parquet file is compressed: its column is decoded into memory once per process, and then not copied either.
"""

from __future__ import annotations

import os
from typing import Any

from ..arrow_lists import flatten
from .first_bytes import reason
from .tokens import Tokens


def open_arrow(path: str, column: str) -> Tokens:
    """Map an Arrow file or stream."""
    import pyarrow as pa

    if os.path.getsize(path) == 0:
        raise ValueError(reason(path, "an Arrow file"))
    source = pa.memory_map(path)
    try:
        table = pa.ipc.open_file(source).read_all()
    except pa.ArrowInvalid:
        source.seek(0)
        try:
            table = pa.ipc.open_stream(source).read_all()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ValueError(f"{reason(path, 'an Arrow file or stream')} ({error})") from None
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{reason(path, 'an Arrow file')} ({error})") from None
    _check_column(table.column_names, column, path)
    return tokens_of_column(table[column], path)


def open_parquet(path: str, column: str) -> Tokens:
    """Decode one column of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path, memory_map=True)
        names = file.schema_arrow.names
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{reason(path, 'a Parquet file')} ({error})") from None
    _check_column(names, column, path)
    try:
        table = file.read(columns=[column])
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    return tokens_of_column(table[column], path)


def _check_column(names: list[str], column: str, path: str) -> None:
    if column not in names:
        raise ValueError(f"{path} has no column {column!r}; it has {names}")


def tokens_of_column(column: Any, place: str) -> Tokens:
    """Read the ids of a chunked array without a copy, and its rows as documents."""
    flat, documents = flatten(column, place)
    return Tokens(flat, documents, place)
