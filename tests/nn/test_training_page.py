"""The code in docs/training.md runs, each block by itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra `torch`)")

PAGE = Path(__file__).parents[2] / "docs" / "training.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_blocks_run(number) -> None:
    exec(compile(BLOCKS[number], f"{PAGE}, block {number}", "exec"), {})


def test_docstring_examples_run() -> None:
    import doctest

    from engram_fast.nn import embedding, engram_v41, short_conv
    from engram_fast.nn.gate import module as gate

    for module in (engram_v41, gate, embedding, short_conv):
        result = doctest.testmod(module)
        assert result.attempted
        assert not result.failed
