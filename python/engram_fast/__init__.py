"""Exact, fast hashed n-gram memory: from token ids to embedding table rows."""

from engram_fast._core import HashState, __version__
from engram_fast.config import BackBoneConfig, EngramConfig, load_config
from engram_fast.context import hash_slice, segments_from_position_ids
from engram_fast.hasher import NgramHasher, hash_batch
from engram_fast.layouts import HashLayout, presets
from engram_fast.token_map import TokenMap
from engram_fast.trace import find_row

__all__ = [
    "BackBoneConfig",
    "EngramConfig",
    "HashLayout",
    "HashState",
    "NgramHasher",
    "TokenMap",
    "__version__",
    "find_row",
    "hash_batch",
    "hash_slice",
    "load_config",
    "presets",
    "segments_from_position_ids",
]
