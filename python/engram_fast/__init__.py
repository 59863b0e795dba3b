"""Exact, fast hashed n-gram memory: token ids in, embedding table rows out."""

from .config import BackBoneConfig, EngramConfig, load_config
from .layouts import HashLayout, presets

__all__ = ["BackBoneConfig", "EngramConfig", "HashLayout", "load_config", "presets"]
