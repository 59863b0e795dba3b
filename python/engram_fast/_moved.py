"""Old module names: importing an old name gives the module that holds its content now.

A finder reads this table, so no folder needs a stub file for each old name. Both names give one module object: pickles
and patches by the old name reach the code that runs.
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
    """A finder and loader of old names, which imports the new ones."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return a spec for an old name of this package; None for every other name."""
        package, _, rest = name.partition(".")
        if package != __package__ or rest not in MOVED:
            return None
        # A `Loader` would have to inherit from `importlib.abc`, whose import takes half as long as this package's.
        return ModuleSpec(name, self)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module of the new name."""
        module = importlib.import_module(f"{__package__}.{MOVED[spec.name.partition('.')[2]]}")
        # The import system overwrites the module's spec with the old name's; `exec_module` restores it.
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back; its code has run."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Make the old names importable; a second call changes nothing."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


def attributes(package: str) -> Callable[[str], ModuleType]:
    """Return the `__getattr__` of a package whose modules moved: ``engram_fast.trace`` needs no import of its own."""

    def attribute(name: str) -> ModuleType:
        if f"{package}.{name}".partition(".")[2] not in MOVED:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return attribute
