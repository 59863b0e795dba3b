"""The code in docs/data.md runs, from top to bottom."""

import re
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "data.md"


def test_data_md(tmp_path, monkeypatch):
    for module in ("torch", "tokenizers"):
        pytest.importorskip(module, reason=f"{module} is missing")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(DOCUMENT), "exec"), names)
