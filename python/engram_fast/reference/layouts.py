"""The numbers of every published layout, worked out slowly and plainly: the oracle for `HashLayout.preset`.

`preset(name, lookup=..., **parameters)` returns the content of the layout's JSON without the keys "format", "version",
"name" and "parameters": plain Python integers, lists and dictionaries. No code is shared with the core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .deepseek import deepseek_v41, engram_demo_v1, engram_peft, maxtext_int32, megatron, tilekernels
from .document import Layout, token_map_id
from .polynomials import BLT_PRIMES, blt, longcat, nanbeige
from .raw_ids import onnxruntime, qwen_ple

__all__ = ["BLT_PRIMES", "PRESETS", "Layout", "preset", "token_map_id"]

PRESETS: dict[str, Callable[..., Layout]] = {
    "engram-demo-v1": engram_demo_v1,
    "deepseek-v4.1": deepseek_v41,
    "qwen-ple": qwen_ple,
    "longcat": longcat,
    "nanbeige": nanbeige,
    "blt": blt,
    "onnxruntime": onnxruntime,
    "tilekernels": tilekernels,
    "engram-peft": engram_peft,
    "megatron": megatron,
    "maxtext-int32": maxtext_int32,
}


def preset(name: str, *, lookup: np.ndarray | None = None, **parameters: Any) -> Layout:
    """Return the layout of a published model.

    Args:
        name: one of `PRESETS`.
        lookup: the token map, int [n], if the layout hashes compressed ids.
        parameters: the published parameters by their published names.

    Raises:
        ValueError: the name is unknown (the message lists those that exist), the token map is missing or lacks the pad,
            the orders do not ascend, or sums disagree.
        TypeError: the layout does not have such a parameter.
    """
    if name not in PRESETS:
        raise ValueError(f"no layout is named {name!r}; there are {', '.join(PRESETS)}")
    if lookup is not None:
        parameters["lookup"] = np.asarray(lookup)
    return PRESETS[name](**parameters)
