"""The oracle: every step of a hash in plain NumPy, never fast, never importing the core."""

from __future__ import annotations

from .compression import normalizer, token_key, token_map
from .document import token_map_id
from .hashing import compress, hash_rows, layer_rows, mix, reach, segments_from_position_ids, stream, window
from .layouts import PRESETS, preset

__all__ = [
    "PRESETS",
    "compress",
    "hash_rows",
    "layer_rows",
    "mix",
    "normalizer",
    "preset",
    "reach",
    "segments_from_position_ids",
    "stream",
    "token_key",
    "token_map",
    "token_map_id",
    "window",
]
