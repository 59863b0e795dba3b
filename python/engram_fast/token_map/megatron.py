"""Write a `TokenMap` as Megatron's JSON token map, and read such a file."""

from __future__ import annotations

import os
from dataclasses import dataclass

from .map import TokenMap
from .megatron_json import parse, write

__all__ = ["MegatronMap", "read", "write"]


@dataclass(frozen=True)
class MegatronMap:
    """The content of a Megatron token map.

    `layer_multipliers` has one tuple of `max_ngram_order` odd numbers for each of `layer_ids`, which Megatron counts
    from 1. `pad_token_id` is a raw id, `compressed_pad_token_id` its compressed id.
    """

    token_map: TokenMap
    tokenizer_vocab_size: int
    pad_token_id: int
    compressed_pad_token_id: int
    max_ngram_order: int
    hash_seed: int
    layer_ids: tuple[int, ...]
    layer_multipliers: dict[int, tuple[int, ...]]


def read(path: str | os.PathLike[str]) -> MegatronMap:
    """Read a JSON token map of Megatron; fields that the format does not name are ignored.

    Raises:
        ValueError: the file is not JSON, or a field is missing or wrong; the message names the file and the field.
        OSError: the file cannot be read.

    >>> import tempfile
    >>> path = f"{tempfile.mkdtemp()}/map.json"
    >>> write(path, TokenMap.identity(5), pad_token_id=3, layer_multipliers={2: [3, 5, 7]}, hash_seed=9)
    >>> found = read(path)
    >>> found.compressed_pad_token_id, found.hash_seed, found.layer_multipliers
    (3, 9, {2: (3, 5, 7)})
    """
    fields = parse(path)
    token_map = TokenMap(fields["token_map"])
    others = {name: value for name, value in fields.items() if name != "token_map"}
    return MegatronMap(token_map, **others)  # type: ignore[arg-type]  # a TypedDict loses its types when it is copied
