"""`TokenDataset`: a file of token ids as a map-style dataset of windows or of documents."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .files import Tokens, join, open_tokens
from .files.documents import IndexFile, ends_after, index_argument, positions_of, scan_documents, segments_within
from .files.shards import ShardFile, find_shards
from .files.tokens import check_documents, check_integer

_SCAN = 1 << 20
# Bytes. A pickle goes to every worker that is not forked; larger arrays in it get a warning.
_PICKLED = 1 << 20


class TokenDataset:
    """Windows of `seq_len` ids, or whole documents, of one token file or of several.

    `dataset[i]` is `{"input_ids": int64 tensor [seq_len]}`. Window i begins at token i * seq_len; a shorter tail is
    left out. If documents are known, two more keys say where they end: `"segment_ids"` (int32 [seq_len]) changes
    wherever one ends, and `"position_ids"` (int64 [seq_len]) counts from 0 in each document of the window.
    `EngramCollator` lets no look-back cross these ends. Hugging Face's Trainer keeps `position_ids` and drops
    `segment_ids`, unless its model takes them. With `seq_len=None` item i is document i, of its own length.

    Args:
        path: a raw file, `.npy`, `.parquet`, `.arrow`/`.feather`/`.ipc` (Arrow file or stream), or the prefix, `.bin`
            or `.idx` of a Megatron pair. A list of paths, or a pattern such as `"shards/*.npy"` (in the order of the
            names), is read as one sequence, and its files must be of one dtype. An array is accepted too.
        dtype: the integer dtype of a raw file, for example `"uint16"`; other formats name their own, and refuse a
            different one.
        seq_len: the window length in tokens, or None for documents.
        eod_id: the end-of-document id: a document ends after it (it still belongs to that document).
        documents: where documents begin: an int array [documents + 1] from 0 to the number of tokens, or a `.npy` file
            of it. None takes `eod_id`, else what the file itself says (Megatron's index, the rows of a list column or
            of a 2-D `.npy`); False ignores boundaries.
        vocab_size: the number of ids, for example `len(token_map)`. A dtype that cannot hold it is refused at once, and
            an id outside it when it is read, as an IndexError with file, position and value. Without it the hasher
            still refuses such an id, but knows only its place in the batch.
        format: raw, npy, megatron, arrow or parquet, if the name does not tell it. `"raw"` also says that the bytes are
            ids although they look like text, a compressed file or ids of a wider dtype, which is refused otherwise.
        column: the column of Arrow and Parquet.
        offset: the bytes to skip at the head of a raw file.

    Raises:
        FileNotFoundError: there is no such file, or none matches the pattern.
        ValueError: a file is empty, cut, damaged, compressed or of another format; an index does not fit its tokens.
        TypeError: the dtype is missing, is no integer, or is not the file's.

    A pickle holds the path, never ids; the file is opened again on first use, and refused if its size has changed. An
    index goes by its file too, if it has one (a path, or `np.load(..., mmap_mode="r")`). Arrays that lie in memory
    alone go by value, with a warning above a megabyte.

    >>> np.arange(10, dtype=np.uint16).tofile("ids.bin")
    >>> dataset = TokenDataset("ids.bin", dtype="uint16", seq_len=4)
    >>> len(dataset), dataset[1]["input_ids"].tolist()
    (2, [4, 5, 6, 7])
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | np.ndarray,
        *,
        dtype: Any = None,
        seq_len: int | None,
        eod_id: int | None = None,
        documents: Any = None,
        vocab_size: int | None = None,
        format: str | None = None,
        column: str = "input_ids",
        offset: int = 0,
    ) -> None:
        if seq_len is not None and operator.index(seq_len) < 1:
            raise ValueError(f"seq_len is {seq_len}; it must be at least 1, or None for documents")
        self.seq_len = seq_len
        self.eod_id = eod_id
        self.vocab_size = vocab_size
        self._dtype = None if dtype is None else np.dtype(dtype)
        if self._dtype is not None:
            check_integer(self._dtype, "dtype")
        self._given = documents if documents is None or documents is False else index_argument(documents)
        self._column, self._offset = column, offset
        self._array: np.ndarray | None = None
        self._sure = format is not None
        self._files: tuple[ShardFile, ...] = ()
        if isinstance(path, np.ndarray):
            self._array = _array_argument(path)
            self.path, self.format = f"<array of {len(path)} ids>", "array"
        else:
            self._files = find_shards(path, format)
            first, last = self._files[0], self._files[-1]
            self.format = first.format
            self.path = first.path
            if len(self._files) > 1:
                self.path = f"{len(self._files)} files from {first.path} to {last.path}"
        self._drop_open_files()
        self._check_dtype_holds_vocabulary()

    def _drop_open_files(self) -> None:
        self._tokens: Tokens | None = None
        self._index: np.ndarray | None = None
        self._index_known = False

    @property
    def tokens(self) -> Tokens:
        """The opened file."""
        if self._tokens is None:
            if self._array is not None:
                tokens = Tokens([self._array], None, self.path)
                if self._dtype not in (None, tokens.dtype):
                    raise TypeError(f"{self.path} is {tokens.dtype}, and dtype {self._dtype} was asked for")
            else:
                tokens = join([self._open(file) for file in self._files], self.path)
            self._tokens = tokens
        return self._tokens

    def _open(self, file: ShardFile) -> Tokens:
        file.check_size()
        return open_tokens(
            file.path,
            format=file.format,
            dtype=self._dtype,
            offset=self._offset,
            column=self._column,
            sure=self._sure,
            with_documents=self._given is None and self.eod_id is None,
        )

    @property
    def documents(self) -> np.ndarray | None:
        """Where documents begin, int64 [documents + 1], or None. With `eod_id` the first use reads the file once."""
        if not self._index_known:
            self._index, self._index_known = self._find_documents(), True
        return self._index

    def _find_documents(self) -> np.ndarray | None:
        if self._given is False:
            return None
        if self._given is None:
            return self.tokens.documents if self.eod_id is None else scan_documents(self.tokens, self.eod_id)
        index = self._given
        if isinstance(index, IndexFile):
            index = index.open()
        check_documents(index, len(self.tokens), self.path)
        return index

    def __len__(self) -> int:
        if self.seq_len is not None:
            return len(self.tokens) // self.seq_len
        return len(self._need_documents()) - 1

    def _need_documents(self) -> np.ndarray:
        documents = self.documents
        if documents is None:
            raise ValueError(f"seq_len is None, and nothing says where the documents of {self.path} end")
        return documents

    def __getitem__(self, index: int) -> dict[str, Any]:
        import torch

        index, count = operator.index(index), len(self)
        if not -count <= index < count:
            raise IndexError(f"item {index} is outside the {count} items of {self.path}")
        index %= count
        if self.seq_len is None:
            start, stop = (int(at) for at in self._need_documents()[index : index + 2])
            return {"input_ids": torch.from_numpy(self._ids(start, stop))}
        start = index * self.seq_len
        ids = self._ids(start, start + self.seq_len)
        item = {"input_ids": torch.from_numpy(ids)}
        segments = self._segments(ids, start)
        if segments is not None:
            item["segment_ids"] = torch.from_numpy(segments)
            item["position_ids"] = torch.from_numpy(positions_of(segments))
        return item

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for index in range(len(self)):
            yield self[index]

    def _ids(self, start: int, stop: int) -> np.ndarray:
        stored = self.tokens.read(start, stop)
        self._check_ids(stored, start)
        return stored.astype(np.int64)

    def _segments(self, ids: np.ndarray, start: int) -> np.ndarray | None:
        if self._given is None and self.eod_id is not None:
            return ends_after(ids, self.eod_id)  # no index needed: the window itself tells
        documents = self.documents
        return None if documents is None else segments_within(documents, start, len(ids))

    def _check_ids(self, stored: np.ndarray, start: int) -> None:
        if self.vocab_size is None or not len(stored):
            return
        if stored.max() < self.vocab_size and (stored.dtype.kind == "u" or stored.min() >= 0):
            return
        at = int(np.argmax((stored >= self.vocab_size) | (stored < 0)))
        raise IndexError(
            f"token id {stored[at]} at {self.tokens.where(start + at)} is outside the vocabulary of "
            f"{self.vocab_size} ids"
        )

    def check(self) -> None:
        """Read the whole file once and refuse an id outside `vocab_size`, as reading its window would."""
        if self.vocab_size is None:
            raise ValueError(f"vocab_size is None; check needs the number of ids that {self.path} may use")
        for start in range(0, len(self.tokens), _SCAN):
            self._check_ids(self.tokens.read(start, min(start + _SCAN, len(self.tokens))), start)

    def _check_dtype_holds_vocabulary(self) -> None:
        dtype = self.tokens.dtype
        if self.vocab_size is not None and self.vocab_size - 1 > np.iinfo(dtype).max:
            raise ValueError(
                f"{self.path} stores {dtype}, which ends at {np.iinfo(dtype).max} and cannot hold the ids of a "
                f"vocabulary of {self.vocab_size}: larger ids were cut when it was written"
            )

    def __getstate__(self) -> dict[str, Any]:
        self._warn_of_large_arrays()
        state = self.__dict__.copy()
        state.update(_tokens=None, _index=None, _index_known=False)
        return state

    def _warn_of_large_arrays(self) -> None:
        by_value = {
            "its ids": (self._array, "write them to a file and give its path"),
            "its document index": (self._given, "save it with np.save and give documents the path"),
        }
        for what, (array, remedy) in by_value.items():
            if isinstance(array, np.ndarray) and array.nbytes > _PICKLED:
                warnings.warn(
                    f"the pickle of the dataset over {self.path} holds {array.nbytes} bytes of {what}, and each worker "
                    f"that is not forked gets them; more than {_PICKLED} should not travel: {remedy}",
                    stacklevel=3,
                )

    def __repr__(self) -> str:
        return (
            f"TokenDataset({self.path!r}, dtype={str(self.tokens.dtype)!r}, seq_len={self.seq_len}, items={len(self)})"
        )


def _array_argument(array: np.ndarray) -> np.ndarray:
    if array.ndim != 1:
        raise ValueError(f"an array of ids must be flat; its shape is {list(array.shape)}")
    return np.asarray(array)
