"""Arrow columns as NumPy arrays, read through pyarrow's own accessors: lists of every type, tensors, slices, chunks."""

from __future__ import annotations

from typing import Any

import numpy as np


def flatten(column: Any, place: str, kinds: str = "iu") -> tuple[list[np.ndarray], np.ndarray | None]:
    """Read an Arrow (chunked) array of numbers, or of lists of numbers; nothing is copied if Arrow need not.

    Args:
        column: a pyarrow Array or ChunkedArray: integers, or lists, large lists, lists of one size, list views or
            one-dimensional tensors of them, dictionary- and run-end-encoded ones too.
        place: the column's name in messages.
        kinds: the NumPy kinds that the numbers may be of.

    Returns:
        The numbers of each chunk, and the row starts int64 [rows + 1], or None if the column holds no lists.

    Raises:
        ValueError: the memory of the column is malformed; a null.
        TypeError: other types.
    """
    import pyarrow as pa

    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    views: list[np.ndarray] = []
    starts: list[np.ndarray] = [np.zeros(1, np.int64)]
    total = 0
    is_list = is_list_type(column.type)
    for chunk in chunks:
        try:
            chunk.validate(full=True)  # another program may have made it, and pyarrow has checked little so far
        except pa.ArrowInvalid as error:
            raise ValueError(f"{place}: chunk {len(views)} is malformed: {error}") from None
        chunk = _plain(chunk, place)
        if chunk.null_count:
            raise ValueError(f"{place} has a null in row {_first_null(chunk, len(views))}; nulls cannot be hashed")
        values = chunk
        if is_list:
            values, ends = _list_values(chunk)
            starts.append(ends + total)
            values = _plain(values, place)
        if not _is_number(values.type, kinds):
            raise TypeError(f"{place} holds {values.type}, which is no integer type; ids are integers")
        if values.null_count:
            raise ValueError(f"{place} has a null at value {_first_null(values, len(views))}; nulls cannot be hashed")
        views.append(values.to_numpy(zero_copy_only=not pa.types.is_boolean(values.type)))
        total += len(values)
    if not views:  # no chunk: an empty array of the column's type
        return flatten(pa.nulls(0, column.type), place, kinds)
    return views, np.concatenate(starts) if is_list else None


def is_list_type(kind: Any, of_numbers: bool = False) -> bool:
    """Tell whether a column of this type holds a list in each row, and, if asked, whether one of numbers."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
        if pa.types.is_struct(kind):  # Ray's tensors of several shapes
            return kind.get_field_index("data") >= 0 and is_list_type(kind.field("data").type, of_numbers)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not is_list and not (
        hasattr(pa, "list_view") and (pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))
    ):
        return False
    return not of_numbers or pa.types.is_primitive(kind.value_type) or pa.types.is_dictionary(kind.value_type)


def _plain(array: Any, place: str) -> Any:
    """Return the array without extension type and encoding; only the values of an encoded one are copied."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array.type, pa.BaseExtensionType):
        kind = array.type
        shape = getattr(kind, "shape", None)
        ndim = getattr(kind, "ndim", None) if shape is None else len(shape)
        if ndim is not None and ndim != 1:
            raise ValueError(f"{place} holds tensors of {ndim} dimensions; a row must be [tokens]")
        array = array.storage
        if pa.types.is_struct(array.type) and array.type.get_field_index("data") >= 0:
            array = pc.struct_field(array, "data")
        return _plain(array, place)
    if pa.types.is_dictionary(array.type):
        return _plain(array.dictionary_decode(), place)
    if pa.types.is_run_end_encoded(array.type):
        return _plain(pc.run_end_decode(array), place)
    return array


def _is_number(kind: Any, kinds: str) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_integer(kind)
        or ("b" in kinds and pa.types.is_boolean(kind))
        or ("f" in kinds and pa.types.is_floating(kind))
    )


def _list_values(chunk: Any) -> tuple[Any, np.ndarray]:
    """Return the values below a list array, in the order of its rows, and the end of each row among them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(chunk) == 0:  # its only offset may be any number, and pyarrow's flatten aborts the process at a wrong one
        return pa.nulls(0, chunk.type.value_type), np.empty(0, np.int64)
    if pa.types.is_fixed_size_list(chunk.type):
        return chunk.flatten(), np.arange(1, len(chunk) + 1, dtype=np.int64) * chunk.type.list_size
    if pa.types.is_list(chunk.type) or pa.types.is_large_list(chunk.type):  # half the time of the two calls below
        offsets = chunk.offsets.to_numpy(zero_copy_only=True).astype(np.int64)
        return chunk.values.slice(offsets[0], offsets[-1] - offsets[0]), offsets[1:] - offsets[0]
    lengths = pc.list_value_length(chunk).to_numpy(zero_copy_only=False)
    return chunk.flatten(), np.cumsum(lengths, dtype=np.int64)


def _first_null(array: Any, chunk: int) -> str:
    at = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
    return f"{at} of chunk {chunk}"
