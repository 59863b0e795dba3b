"""Every public name of the package, and every public attribute of its classes, says what it is."""

from __future__ import annotations

import importlib
import inspect

import pytest


def without_docstring(module: str) -> list[str]:
    names = importlib.import_module(module)
    public = {name: getattr(names, name) for name in names.__all__ if not name.startswith("_")}
    silent = [name for name, value in public.items() if not inspect.getdoc(value)]
    for name, value in public.items():
        if inspect.isclass(value):
            own = [base for base in value.__mro__ if base.__module__.startswith("engram_fast")]
            attributes = {attribute: of for base in reversed(own) for attribute, of in vars(base).items()}
            silent += [
                f"{name}.{attribute}"
                for attribute, of in attributes.items()
                # Slots of data classes and plain values have no place for a docstring.
                if not attribute.startswith("_")
                and (callable(of) or hasattr(of, "__get__"))
                and not inspect.ismemberdescriptor(of)
                and not inspect.getdoc(getattr(value, attribute))
            ]
    return silent


@pytest.mark.parametrize(
    "module",
    [
        "engram_fast",
        "engram_fast.hash",
        "engram_fast.demo_v1",
        "engram_fast.token_map.megatron",
        "engram_fast.token_map",
        "engram_fast.trace",
    ],
)
def test_public_names_have_docstrings(module: str) -> None:
    assert without_docstring(module) == []
