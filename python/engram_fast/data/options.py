"""The options of `map_batch` and its relatives, as types that other calls pass on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from ..hash.options import RowOptions
from .boundary_names import Kind


class BoundaryOptions(TypedDict, total=False):
    """How the boundaries of a batch are read."""

    ignore: Sequence[str]
    boundary_keys: Mapping[str, Kind] | None
    boundaries: str


class MapOptions(RowOptions, BoundaryOptions, total=False):
    """The options of `map_batch` and `AddRows`."""

    column: str
    key: str
    layer_axis: int
    fixed_size: bool
