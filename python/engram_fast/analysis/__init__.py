"""Studying a memory: what its rows, tables and gates look like."""

from .pictures import plot_gates, print_gates

__all__ = ["plot_gates", "print_gates"]
