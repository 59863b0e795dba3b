"""Reading and writing .npy files that are larger than memory: mapped, and written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def read_npy(path: Path) -> NDArray[Any]:
    """Map the array of a .npy file, read-only.

    Raises:
        ValueError: the file is no .npy file of numbers.
        OSError: the file cannot be read.
    """
    import numpy as np

    with path.open("rb"):
        pass  # raises the error that names the file
    try:
        return np.asarray(np.lib.format.open_memmap(path, mode="r"))
    except OSError:
        raise
    except Exception as error:  # a damaged header raises whatever Python's parser does
        raise ValueError(f"{path}: not a .npy file of numbers: {error}") from None


def check_target(path: Path, *sources: Path) -> None:
    """Raise ValueError if `path` cannot be written as a file, or is one of the `sources`."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: exists and is not a regular file")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: the folder {path.parent} does not exist")
    for source in sources:
        if path.exists() and source.exists() and path.samefile(source):
            raise ValueError(f"{path}: would replace the input")


@contextmanager
def writing_npy(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    """Yield a mapped array to fill; the file appears when the block ends, and does not change if the block raises."""
    import numpy as np

    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        if 0 in shape:  # nothing to map
            array = np.empty(shape, dtype)
            with temporary.open("xb") as file:
                np.lib.format.write_array(file, array)
            yield array
        else:
            mapped = np.lib.format.open_memmap(temporary, mode="w+", dtype=dtype, shape=shape)
            _reserve(temporary, path)
            yield np.asarray(mapped)
            mapped.flush()
            del mapped
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _reserve(temporary: Path, path: Path) -> None:
    # A mapped file has holes until it is written, and a disk that fills up then kills the process (SIGBUS).
    if not hasattr(os, "posix_fallocate"):
        return
    size = temporary.stat().st_size
    with temporary.open("r+b") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            raise OSError(f"{path}: no room for {size} bytes: {error.strerror}") from None
