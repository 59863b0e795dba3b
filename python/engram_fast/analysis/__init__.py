"""Study a memory: the n-grams behind its rows, the n-grams that share a row, and pictures of its gates."""

from __future__ import annotations

from .pictures import plot_gates, print_gates
from .tracing import find_row, trace

__all__ = ["find_row", "plot_gates", "print_gates", "trace"]
