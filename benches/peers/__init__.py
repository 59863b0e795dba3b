"""What a user would take instead of this library, one file each; none of them is needed to import this package."""

from __future__ import annotations

import importlib
from types import ModuleType

MODULES = ("numpy_demo", "numpy_broadcast", "torch_eager", "onnxruntime_op", "engram_peft", "engramdb")


def load() -> tuple[list[ModuleType], dict[str, str]]:
    """The peers whose packages are installed, and for the others the reason."""
    found, missing = [], {}
    for name in MODULES:
        module = importlib.import_module(f"{__name__}.{name}")
        try:
            getattr(module, "before_import", lambda: None)()
            for package in module.NEEDS:
                importlib.import_module(package)
        except ImportError as error:
            missing[module.NAME] = f"not installed ({error})"
        else:
            found.append(module)
    return found, missing
