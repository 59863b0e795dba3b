"""`TokenMap`: raw token id to compressed id, frozen.

Models of the Engram family hash *compressed* ids. Tokens share a compressed id if their texts differ only in case,
accents, compatibility forms or white space at the edges. Every id has a key:

- its decoded text, normalised by :func:`normalize`;
- the text itself, if normalising leaves nothing;
- the raw piece, if the text holds U+FFFD, because the token's bytes are no text by themselves.

Compressed ids count up in the order in which keys first appear.

Every id is decoded alone, special tokens kept, without clean-up of spaces. A decoder that strips one leading space
therefore gives a lone "▁" the empty key. In a byte-level vocabulary the letter "æ" shares its compressed id with the
byte 0xE6, because the piece of that byte is "æ". The published models do the same.

A model's multipliers depend on the number of compressed ids. Two tokenizers may have equal numbers and different maps,
so compare maps by `digest` or ``==``, never by size.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from . import megatron_json
from .decoding import refuse_surrogates
from .files import read_file
from .tokenizers import read_tokenizer

__all__ = ["TokenMap", "normalize"]


def normalize(text: str) -> str:
    """Return the normalised text, as the normalizers of the `tokenizers` library give it in the published order.

    The steps are NFKC, NFD, accents stripped, lower case, runs of space, tab and line breaks to one space, edges
    stripped. A lone space is kept. Lower case goes character by character, so a final sigma is no special case. The
    result may be empty; a map then uses the text itself.

    >>> normalize("  Café ")
    'cafe'
    """
    return _core.normalize(text)


class TokenMap(_core.TokenMap):
    """Raw token id to compressed id.

    :meth:`from_tokenizer`, :meth:`from_file`, :meth:`from_pieces`, :meth:`identity`, :meth:`from_lookup` and
    :meth:`load` make maps; ``TokenMap(other)`` is the same map and shares its memory. A map never changes: threads and
    processes can share it, and it can be pickled, copied and hashed. Two maps are equal if their lookups are equal.

    >>> token_map = TokenMap.from_pieces(["The", "the", "dog"], ["The", "the", "dog"])
    >>> token_map.compress([[0, 1, 2]])
    array([[0, 0, 1]], dtype=int32)
    """

    __slots__ = ()

    @classmethod
    def from_tokenizer(cls, tok: Any, *, vocab_size: int | None = None) -> TokenMap:
        """Build the map of a loaded tokenizer.

        Args:
            tok: one of these, recognised by its methods:
                a `tokenizers.Tokenizer`;
                a transformers tokenizer (fast: its backend is read; slow: decoded with
                ``clean_up_tokenization_spaces=False``);
                a tiktoken `Encoding` or a mistral_common `Tekkenizer` (bytes that are not UTF-8 get the piece that a
                byte-level tokenizer writes);
                a sentencepiece `SentencePieceProcessor` (its `decode` drops control symbols, so they share the empty
                key);
                any object with ``len(tok)``, ``tok.decode([id])`` and ``tok.convert_ids_to_tokens(id)``.
            vocab_size: number of raw ids, e.g. the model's padded vocabulary; by default the largest id plus one. Ids
                that the tokenizer does not know, or cannot decode, are `holes`; they share the empty key.

        Raises:
            TypeError: `tok` is none of these; :meth:`from_pieces` takes the texts and pieces of any tokenizer.
            ValueError: `vocab_size` would lose an id; the largest id is past 2^26; the tokenizer cannot be read.

        >>> from tokenizers import Tokenizer, models
        >>> tok = Tokenizer(models.WordLevel({"The": 0, "the": 1, "dog": 4}, unk_token="dog"))
        >>> TokenMap.from_tokenizer(tok).lookup
        array([0, 0, 1, 1, 2], dtype=int32)
        """
        return cls(read_tokenizer(tok, vocab_size))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], vocab_size: int | None = None) -> TokenMap:
        """Build the map of a tokenizer's file or folder. Nothing is downloaded, and no code beside the file runs.

        Args:
            path: a `tokenizer.json`, a `tekken.json`, a tiktoken list of ranks (`.tiktoken`), a sentencepiece `.model`
                (needs the package sentencepiece), or a folder with a `tokenizer.json` or a `tekken.json`. In a folder,
                the tokens that only `tokenizer_config.json` lists (in older folders `added_tokens.json` and
                `special_tokens_map.json`) are added as transformers' `AutoTokenizer` adds them. A list of ranks names
                no special tokens: `vocab_size` makes room for them.
            vocab_size: as in :meth:`from_tokenizer`.

        Raises:
            OSError: the file cannot be read (FileNotFoundError if it is missing).
            ValueError: it is no tokenizer, or `vocab_size` would lose an id.
            ImportError: it is a sentencepiece model, and the package sentencepiece is not installed.

        >>> import tempfile
        >>> from tokenizers import Tokenizer, models
        >>> folder = tempfile.mkdtemp()
        >>> Tokenizer(models.WordLevel({"The": 0, "the": 1}, unk_token="the")).save(f"{folder}/tokenizer.json")
        >>> TokenMap.from_file(folder, vocab_size=4).lookup
        array([0, 0, 1, 1], dtype=int32)
        """
        return cls(read_file(path, vocab_size))

    @classmethod
    def from_pieces(cls, texts: Sequence[str | None], pieces: Sequence[str | None]) -> TokenMap:
        """Build the map of decoded texts and raw pieces, one of each for every raw id.

        Args:
            texts: each id decoded by itself; None is a hole.
            pieces: the vocabulary's entry of each id; used only if the text holds U+FFFD.

        Raises:
            ValueError: lengths differ, are 0 or past 2^26; a piece is needed and None.
            UnicodeEncodeError: a string holds half of a surrogate pair, which is no character; the id is named.

        >>> TokenMap.from_pieces(["A", None, "a"], ["A", None, "a"]).holes
        [1]
        """
        try:
            return cls(_core.TokenMap.build(texts, pieces))
        except UnicodeEncodeError:
            refuse_surrogates(texts=texts, pieces=pieces)
            raise

    @classmethod
    def identity(cls, n: int) -> TokenMap:
        """Return the map of `n` ids that changes none: for models that hash raw ids.

        Raises:
            ValueError: `n` is not in 1 to 2^26.

        >>> TokenMap.identity(3).lookup
        array([0, 1, 2], dtype=int32)
        """
        return cls(_core.TokenMap.identity(n))

    @classmethod
    def from_lookup(cls, lookup: ArrayLike) -> TokenMap:
        """Build the map of a one-dimensional array of integers: entry i is the compressed id of raw id i.

        Compressed ids may have gaps: any numbers from 0 to 2^31 - 1 are taken, and `size` is the largest plus one. The
        multipliers of a layout depend on `size`, but the layout "megatron" counts the different ids, as Megatron does.
        A layout refuses a map whose `size` exceeds its length. The numbers are copied.

        Raises:
            TypeError: the array is not of integers.
            ValueError: it is empty, has another number of dimensions, or an entry is negative or too large.

        >>> TokenMap.from_lookup([0, 1, 0]).size
        2
        """
        return cls(_core.TokenMap.from_numbers(lookup))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, tokenizer: Any = None) -> TokenMap:
        """Read the map that :meth:`save` wrote, and check all of the file, its digest included.

        Args:
            path: the file.
            tokenizer: a loaded tokenizer (or the path of its `tokenizer.json` or folder) that the map must belong to;
                its map is built again, and the two are compared by content.

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
        """Write the map as one safetensors file, in one step.

        Readers see the old file or the new one, several writers do not disturb each other, and an error leaves nothing
        behind. The same map gives the same bytes.

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
        """Return the compressed ids of raw ids, an int32 array of the same shape.

        Args:
            ids: integers of any shape: an array of any integer dtype, strides and byte order, a nested list of ints,
                or a CPU tensor.

        Raises:
            IndexError: an id is negative or not below ``len(self)``; the message names the first and its place.
            TypeError: the ids are not integers; floats and bools are none.

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
