"""Old module names: importing one gives the module that has its content now.

The table is the only record of a move. A finder instead of a file for each name keeps the folders free of stubs, and
the two names give one module object, so that pickles and patches by the old name reach the code that runs.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "config": "layout.demo_config",
    "context": "hash.slices",
    "hasher": "hash.hasher",
    "hf_config": "layout.model_config",
    "layout_check": "layout.check",
    "layouts": "layout.hash_layout",
    "megatron_map": "token_map.megatron",
    "nn.demo_engram": "nn.engram",
    "nn.dispatch": "nn.gate.dispatch",
    "nn.formula": "nn.gate.formula",
    "nn.fused_demo": "nn.gate.fused_mix",
    "nn.fused_v41": "nn.gate.fused",
    "nn.gate_map": "analysis.pictures",
    "nn.gate_math": "nn.gate.arithmetic",
    "nn.hash_op": "nn.hash.op",
    "nn.hash_rules": "nn.hash.rules",
    "nn.hash_torch": "nn.hash.formula",
    "nn.multi_head_embedding": "nn.embedding",
    "nn.row_hasher": "nn.hash.row_hasher",
    "nn.triton_gate": "nn.gate.triton",
    "nn.triton_hash": "nn.hash.triton",
    "reference_generators": "reference.generators",
    "reference_numbers": "reference.layouts",
    "trace": "analysis.tracing",
}


class _Finder:
    """Finds an old name, and loads it by importing the new one."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        package, _, rest = name.partition(".")
        if package != __package__ or rest not in MOVED:
            return None
        # `importlib.abc`, whose classes the type wants, takes as long to import as half of this package.
        return ModuleSpec(name, self)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(f"{__package__}.{MOVED[spec.name.partition('.')[2]]}")
        # The import system writes the old name's spec onto the module that it gets: the module keeps its own.
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Make the old names importable, once."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


def attributes(package: str) -> Callable[[str], ModuleType]:
    """Return the `__getattr__` of a package whose modules moved: ``engram_fast.trace`` needs no import of its own."""

    def attribute(name: str) -> ModuleType:
        if f"{package}.{name}".partition(".")[2] not in MOVED:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return attribute
