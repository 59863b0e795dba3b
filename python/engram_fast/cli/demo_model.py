"""`engram-fast demo --model`: the flow of the paper's demo with torch, from `engram_fast.nn.demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .sources import demo_tokenizer, open_tokenizer


def run_model(tokenizer: Path | None, png: Path | None) -> None:
    """One forward pass, printed by `engram_fast.nn.demo.run_demo`; the gates' heat map goes to `png`."""
    path = tokenizer or demo_tokenizer()
    open_tokenizer(path)  # its errors name what is missing
    try:
        from engram_fast.nn.demo import run_demo
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "torch":
            raise ValueError("--model needs torch: run pip install 'engram-fast[torch]' (the extra torch)") from None
        raise
    file = path / "tokenizer.json" if path.is_dir() else path
    options: dict[str, Any] = {} if png is None else {"png": png}
    run_demo(tokenizer_file=file, **options)
