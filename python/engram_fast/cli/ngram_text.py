"""How an n-gram of token ids is shown to people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MISSING = "∅"
BOS = "<bos>"


def show_ngram(tokenizer: Any, ids: Sequence[int | None], *, bos: int | None = None) -> str:
    """The text of the n-gram, quoted and with control characters escaped.

    `∅` stands for each look-back that is missing, `<bos>` for a leading begin-of-sentence token.
    """
    marks = []
    present = list(ids)
    while present and (present[0] is None or present[0] == bos):
        marks.append(MISSING if present[0] is None else BOS)
        del present[0]
    text = [repr(tokenizer.decode(present, skip_special_tokens=False))] if present else []
    return " ".join([*marks, *text])
