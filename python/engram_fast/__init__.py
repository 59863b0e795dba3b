"""Exact, fast hashed n-gram memory: from token ids to embedding table rows."""

from ._core import __version__
from .token_map import TokenMap

__all__ = ["TokenMap", "__version__"]
