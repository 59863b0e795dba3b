"""Hashing: token ids in, table rows out."""

from __future__ import annotations

from .hasher import NgramHasher, hash_batch
from .slices import hash_slice

__all__ = ["NgramHasher", "hash_batch", "hash_slice"]
