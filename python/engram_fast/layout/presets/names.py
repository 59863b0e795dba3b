"""The names of the published layouts, as a type: an editor completes them, and a type checker finds a misspelt one."""

from __future__ import annotations

from typing import Literal

PresetName = Literal[
    "engram-demo-v1",
    "deepseek-v4.1",
    "qwen-ple",
    "longcat",
    "nanbeige",
    "blt",
    "onnxruntime",
    "tilekernels",
    "engram-peft",
    "megatron",
    "maxtext-int32",
]
