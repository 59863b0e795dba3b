"""The published layouts: one file per family, each turning published parameters into the numbers of a layout."""

from __future__ import annotations

from typing import Any

from . import blt, deepseek, longcat, onnxruntime, peft, qwen
from .base import Preset
from .names import PresetName

__all__ = ["PRESETS", "PresetName", "find"]

PRESETS: dict[PresetName, Preset] = {
    preset.name: preset
    for preset in (
        deepseek.DEMO_V1,
        deepseek.V41,
        qwen.PLE,
        longcat.LONGCAT,
        longcat.NANBEIGE,
        blt.BLT,
        onnxruntime.ONNXRUNTIME,
        deepseek.TILEKERNELS,
        peft.ENGRAM_PEFT,
        deepseek.MEGATRON,
        deepseek.MAXTEXT_INT32,
    )
}


def find(name: Any) -> Preset:
    """Return the preset of that name; ValueError lists the names."""
    if not isinstance(name, str):
        raise TypeError(f"name: expected the name of a preset, got {type(name).__name__}")
    if name not in PRESETS:
        raise ValueError(f"name: {name[:80]!r} is not a preset; there are {', '.join(PRESETS)}")
    return PRESETS[name]
