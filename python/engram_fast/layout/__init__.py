"""Layouts: the numbers of one model, by preset, by the model's configuration, by given numbers, or from JSON."""

from __future__ import annotations

from .demo_config import BackBoneConfig, EngramConfig, load_config
from .hash_layout import HashLayout

__all__ = ["BackBoneConfig", "EngramConfig", "HashLayout", "load_config"]
