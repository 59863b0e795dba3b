"""`TokenMap`: raw token id to compressed id, a frozen artefact.

Models of the Engram family hash *compressed* ids: tokens whose text differs only in case, accents, compatibility
forms or white space at the edges share one. The key of an id is its decoded text, normalised by :func:`normalize`;
where the text holds U+FFFD (bytes that are no text by themselves) it is the raw piece; where normalising leaves nothing
it is the text itself. Compressed ids count up in order of first appearance of the key.

Every id is decoded alone, special tokens kept, without clean-up of spaces. So a decoder that strips one leading space
gives a lone "▁" the empty key, and in a byte-level vocabulary the letter "æ" shares its id with the byte 0xE6, whose
piece is that letter: both as the published models have it.

The number of compressed ids decides a model's multipliers, and two tokenizers may agree on that number and on nothing
else: compare maps by `digest` (or ``==``), never by size.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from . import megatron_json
from .tokenizers import read_tokenizer

__all__ = ["TokenMap", "normalize"]


def normalize(text: str) -> str:
    """The key normaliser: what the `tokenizers` library's normalizers make of `text`, in the published order.

    NFKC, NFD, accents stripped, lower case (character by character, so a final sigma stays as it is elsewhere), runs of
    space, tab and line breaks to one space, edges stripped, a lone space kept. The result may be empty; a map then
    takes the text itself.

    >>> normalize("  Café ")
    'cafe'
    """
    return _core.normalize(text)


class TokenMap(_core.TokenMap):
    """Raw token id to compressed id.

    Made by :meth:`from_tokenizer`, :meth:`from_file`, :meth:`from_pieces`, :meth:`identity`, :meth:`from_lookup` or
    :meth:`load`; ``TokenMap(other)`` is the same map again and shares its memory. Frozen: it can be shared between
    threads and processes, pickled, copied, hashed. Two maps are equal when their look-ups are, wherever they come from.

    >>> token_map = TokenMap.from_pieces(["The", "the", "dog"], ["The", "the", "dog"])
    >>> token_map.compress([[0, 1, 2]])
    array([[0, 0, 1]], dtype=int32)
    """

    __slots__ = ()

    @classmethod
    def from_tokenizer(cls, tok: Any, *, vocab_size: int | None = None) -> TokenMap:
        """The map of a loaded tokenizer.

        Args:
            tok: a `tokenizers.Tokenizer`, a transformers tokenizer (fast: its backend is read; slow: decoded with
                ``clean_up_tokenization_spaces=False``) or a tiktoken `Encoding` (bytes that are not UTF-8 are told
                apart as a byte-level tokenizer writes them).
            vocab_size: number of raw ids, e.g. the model's padded vocabulary; by default the largest id plus one. Ids
                that the tokenizer does not know, or cannot decode, are `holes`; they share the empty key.

        Raises:
            TypeError: `tok` is something else.
            ValueError: `vocab_size` would lose an id; the largest id is past 2^26; the tokenizer cannot be read.

        >>> from tokenizers import Tokenizer, models
        >>> tok = Tokenizer(models.WordLevel({"The": 0, "the": 1, "dog": 4}, unk_token="dog"))
        >>> TokenMap.from_tokenizer(tok).lookup
        array([0, 0, 1, 1, 2], dtype=int32)
        """
        return cls(read_tokenizer(tok, vocab_size))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], vocab_size: int | None = None) -> TokenMap:
        """The map of a `tokenizer.json`, or of the one in a folder; all of it done by the core, in parallel.

        Nothing is downloaded and no code beside the file is run. `vocab_size` as in :meth:`from_tokenizer`.

        Raises:
            OSError: the file cannot be read (FileNotFoundError where it is missing).
            ValueError: it is no tokenizer, or `vocab_size` would lose an id.

        >>> import tempfile
        >>> from tokenizers import Tokenizer, models
        >>> folder = tempfile.mkdtemp()
        >>> Tokenizer(models.WordLevel({"The": 0, "the": 1}, unk_token="the")).save(f"{folder}/tokenizer.json")
        >>> TokenMap.from_file(folder, vocab_size=4).lookup
        array([0, 0, 1, 1], dtype=int32)
        """
        return cls(_core.TokenMap.from_file(path, vocab_size))

    @classmethod
    def from_pieces(cls, texts: Sequence[str | None], pieces: Sequence[str | None]) -> TokenMap:
        """The map of decoded texts and raw pieces, one of each for every raw id.

        Args:
            texts: what each id decodes to by itself; None is a hole.
            pieces: what the vocabulary calls each id; looked at only where the text holds U+FFFD.

        Raises:
            ValueError: lengths differ, are 0 or past 2^26; a piece is needed and None.

        >>> TokenMap.from_pieces(["A", None, "a"], ["A", None, "a"]).holes
        [1]
        """
        return cls(_core.TokenMap.build(texts, pieces))

    @classmethod
    def identity(cls, n: int) -> TokenMap:
        """The map of `n` ids that changes none: for models that hash raw ids.

        Raises:
            ValueError: `n` is not in 1 to 2^26.

        >>> TokenMap.identity(3).lookup
        array([0, 1, 2], dtype=int32)
        """
        return cls(_core.TokenMap.identity(n))

    @classmethod
    def from_lookup(cls, lookup: ArrayLike) -> TokenMap:
        """The map that a one-dimensional array of integers holds: entry i is the compressed id of raw id i.

        Compressed ids need not be dense: any from 0 to 2^31 - 1 are taken, and `size` is the largest plus one. The
        numbers are copied.

        Raises:
            TypeError: the array is not of integers.
            ValueError: it is empty, has another number of dimensions, or an entry is negative or too large.

        >>> TokenMap.from_lookup([0, 1, 0]).size
        2
        """
        return cls(_core.TokenMap.from_numbers(lookup))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, tokenizer: Any = None) -> TokenMap:
        """The map that :meth:`save` wrote; all of the file is checked, its digest included.

        Args:
            path: the file.
            tokenizer: a loaded tokenizer (or the path of its `tokenizer.json` or folder) that the map must belong to;
                the tokenizer's map is built anew and compared by content.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is damaged, of another format, or not the map of `tokenizer`.

        >>> import tempfile
        >>> path = f"{tempfile.mkdtemp()}/token_map.safetensors"
        >>> TokenMap.from_lookup([0, 1, 0]).save(path)
        >>> TokenMap.load(path).lookup
        array([0, 1, 0], dtype=int32)
        """
        token_map = cls(_core.TokenMap.load(path))
        if tokenizer is not None:
            is_path = isinstance(tokenizer, (str, os.PathLike))
            build = cls.from_file if is_path else cls.from_tokenizer
            built = build(tokenizer, vocab_size=len(token_map))
            if built != token_map:
                found = f"the file holds {token_map!r}, the tokenizer gives {built!r}"
                raise ValueError(f"{os.fspath(path)}: not the map of this tokenizer: {found}")
        return token_map

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the map as one safetensors file.

        The file appears in one step: readers see the old one or the new one, several writers do not disturb each
        other, and an error leaves nothing behind. The same map gives the same bytes.

        Raises:
            OSError: the file cannot be written.

        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> TokenMap.identity(3).save(f"{folder}/token_map.safetensors")
        >>> os.listdir(folder)
        ['token_map.safetensors']
        """
        super().save(path)

    def compress(self, ids: ArrayLike) -> NDArray[np.int32]:
        """Compressed ids of raw ids, in an int32 array of the same shape.

        Args:
            ids: any integer array (every dtype, strides, byte order), nested list of ints, or CPU tensor.

        Raises:
            IndexError: an id is negative or not below ``len(self)``; the message names the first and its place.
            TypeError: the ids are floats, bools or no numbers.

        >>> TokenMap.from_lookup([0, 1, 0]).compress([2, 1])
        array([0, 1], dtype=int32)
        """
        return super().compress(ids)

    def to_megatron_json(
        self,
        path: str | os.PathLike[str],
        *,
        pad_token_id: int,
        layer_multipliers: Mapping[int, Sequence[int]],
        hash_seed: int = 0,
        padded_vocab_size: int | None = None,
    ) -> None:
        """Write the JSON token map that Megatron reads: :func:`engram_fast.token_map.megatron.write` with this map."""
        megatron_json.write(
            path,
            self,
            pad_token_id=pad_token_id,
            layer_multipliers=layer_multipliers,
            hash_seed=hash_seed,
            padded_vocab_size=padded_vocab_size,
        )

    @classmethod
    def from_megatron_json(cls, path: str | os.PathLike[str]) -> TokenMap:
        """Return the map of a Megatron file; :func:`engram_fast.token_map.megatron.read` gives its other fields too."""
        return cls(megatron_json.parse(path)["token_map"])

    def __copy__(self) -> TokenMap:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> TokenMap:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.to_bytes())


def _restore(cls: type[TokenMap], data: bytes) -> TokenMap:
    return cls(_core.TokenMap.from_bytes(data))
