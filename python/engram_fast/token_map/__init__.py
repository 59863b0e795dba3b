"""Token maps: raw token id to compressed id, from any tokenizer."""

from __future__ import annotations

from .map import TokenMap, normalize

__all__ = ["TokenMap", "normalize"]
