"""Exact, fast hashed n-gram memory: from token ids to embedding table rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _moved
from ._core import HashState, __version__
from .analysis import find_row
from .hash import NgramHasher, hash_batch, hash_slice
from .ids import segments_from_position_ids
from .layout import BackBoneConfig, EngramConfig, HashLayout, load_config
from .layout.hash_layout import presets
from .token_map import TokenMap

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

_moved.install()
if not TYPE_CHECKING:  # type checkers would take every misspelt name for a module
    __getattr__ = _moved.attributes(__name__)
