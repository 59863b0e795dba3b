"""Hashing in the input pipeline: collate functions, loaders, token files, and batch functions for other pipelines.

torch, pyarrow, pandas, polars, datasets, ray and grain are imported by the first call that needs them, not before.
"""

from __future__ import annotations

from .collate import PadCollate
from .collator import EngramCollator
from .grain_transform import grain_rows
from .loader import RowsLoader, with_rows
from .map_batch import AddRows, map_batch
from .options import MapOptions
from .rows import batch_bytes
from .text import HashedTexts, hash_texts
from .token_dataset import TokenDataset

__all__ = [
    "AddRows",
    "EngramCollator",
    "HashedTexts",
    "MapOptions",
    "PadCollate",
    "RowsLoader",
    "TokenDataset",
    "batch_bytes",
    "grain_rows",
    "hash_texts",
    "map_batch",
    "with_rows",
]
