"""Hashing inside torch models: the module, the operator that graphs keep, and its implementations for each device."""

from .row_hasher import RowHasher, rows_of_layer, split_layers

__all__ = ["RowHasher", "rows_of_layer", "split_layers"]
