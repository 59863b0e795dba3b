"""Show the meaning of rows: the n-grams behind the rows of a text, and the n-grams that share a row."""

from __future__ import annotations

from .tracing import find_row, trace

__all__ = ["find_row", "trace"]
