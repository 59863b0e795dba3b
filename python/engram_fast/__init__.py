"""Exact, fast hashed n-gram memory: from token ids to embedding table rows."""

from engram_fast._core import HashState, __version__
from engram_fast.config import BackBoneConfig, EngramConfig, load_config
from engram_fast.hasher import NgramHasher, hash_batch
from engram_fast.layouts import HashLayout, presets
from engram_fast.token_map import TokenMap

__all__ = [
    "BackBoneConfig",
    "EngramConfig",
    "HashLayout",
    "HashState",
    "NgramHasher",
    "TokenMap",
    "__version__",
    "hash_batch",
    "load_config",
    "presets",
]
