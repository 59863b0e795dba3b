"""Files of a user: inputs that are named with the reason if they cannot be read, outputs that appear whole or not."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Bytes of output that are synced at once, while the next ones are hashed: one sync of gigabytes at the end would keep
# Ctrl-C waiting for many seconds.
_SYNCED = 64 << 20


def check_input(path: Path) -> Path:
    """Return `path`; an empty or a compressed file is a ValueError that names it, a missing one an OSError."""
    if path.is_dir():
        return path
    with path.open("rb") as file:  # raises the error that names the file
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return path
        head = file.read(8)
    if not head:
        raise ValueError(f"{path}: the file is empty")
    from ..data.files.first_bytes import compression

    if (kind := compression(head)) is not None:
        raise ValueError(f"{path}: the file is compressed with {kind}: decompress it first")
    return path


def check_target(path: Path, *sources: Path | None, ending: str) -> None:
    """Raise ValueError if `path` cannot be written as a file of this ending, or is one of the `sources`."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: exists and is not a regular file")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: the folder {path.parent} does not exist")
    for source in sources:
        if source is not None and path.exists() and source.exists() and path.samefile(source):
            raise ValueError(f"{path}: would replace the input")
    if path.suffix != ending:
        raise ValueError(f"{path}: the name of this output ends in {ending}")


@contextmanager
def writing_npy(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[OutputArray]:
    """Yield an array on disk to fill; the file appears when the block ends, and does not change if the block raises.

    A link is followed, and an existing file keeps its permissions. The temporary files of earlier runs that were
    killed are removed first; those of runs that still write are locked and stay.
    """
    import numpy as np

    path = path.resolve() if path.is_symlink() else path
    _remove_stale(path)
    temporary, file = _create(path)
    try:
        if path.exists():
            os.chmod(temporary, stat.S_IMODE(path.stat().st_mode))
        if 0 in shape:  # nothing to map
            array = np.empty(shape, dtype)
            np.lib.format.write_array(file, array)
            file.flush()
            yield OutputArray(array)
        else:
            mapped = np.lib.format.open_memmap(temporary, mode="w+", dtype=dtype, shape=shape)
            _reserve(temporary, path)
            with ThreadPoolExecutor(1) as background:
                yield OutputArray(mapped, lambda: background.submit(os.fsync, file.fileno()))
            mapped.flush()
            del mapped
        os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        file.close()
        temporary.unlink(missing_ok=True)


class OutputArray:
    """An array that is filled piece by piece; `sync` starts to bring the pieces so far to the disk."""

    def __init__(self, array: NDArray[Any], sync: Callable[[], Future[None]] | None = None) -> None:
        import numpy as np

        self._array = np.asarray(array)
        self._sync = sync
        self._syncing: Future[None] | None = None
        self._dirty = 0

    def write(self, index: tuple[slice, ...], values: NDArray[Any]) -> None:
        """Write `values` at `index`."""
        self._array[index] = values
        self._dirty += values.nbytes
        if self._sync is not None and self._dirty >= _SYNCED:
            self._dirty = 0
            if self._syncing is not None:
                self._syncing.result()
            self._syncing = self._sync()


def _create(path: Path) -> tuple[Path, IO[bytes]]:
    """Create and lock a temporary file beside `path`."""
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        file = temporary.open("xb")
        _lock(file)
        if temporary.exists():  # another run may have taken it for a stale one before it was locked
            return temporary, file
        file.close()


def _remove_stale(path: Path) -> None:
    """Remove the temporary files for `path` that no living process has locked."""
    name = re.compile(re.escape(f".{path.name}.") + r"[0-9a-f]{16}\.tmp")
    for candidate in path.parent.iterdir():
        if name.fullmatch(candidate.name) and candidate.is_file() and not candidate.is_symlink():
            with suppress(OSError), candidate.open("rb+") as file:
                if _lock(file):
                    candidate.unlink()


def _lock(file: IO[bytes]) -> bool:
    """Lock the file until it is closed; False if another process has locked it, or files cannot be locked there."""
    try:
        import fcntl
    except ImportError:  # Windows, which lets nobody remove an open file
        return True
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


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
