"""The demo's last step: compare the token map, the sentence and a sample of the text with the reference."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import NgramHasher, presets, reference

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .steps import Prepared, Sentence, Speed


@dataclass(frozen=True)
class Checked:
    """The result of the comparison: one line for each part, and how many tokens and rows it covered."""

    equal: bool
    lines: list[str]
    tokens: int
    rows: int


def compare(prepared: Prepared, sentence: Sentence, speed: Speed) -> Checked:
    """Compare the token map, the sentence's rows and the text's samples with those of `engram_fast.reference`."""
    equal, lines, rows = True, [], 0
    if any(hasher.token_map is not None for hasher in prepared.hashers):
        built = _reference_map(prepared)
        equal = bool(np.array_equal(built, prepared.token_map.lookup))
        lines.append(f"token map, all {len(built)} ids: {_verdict(equal)}")
    lookup = np.asarray(prepared.token_map.lookup)
    tokens = sum(len(ids) for ids in speed.samples) + len(sentence.ids)
    for n, hasher in enumerate(prepared.hashers):
        used = None if hasher.token_map is None else lookup
        layout, same = _reference_layout(hasher, used), True
        for ids, got in zip(speed.samples, speed.sample_rows[n], strict=True):
            expected = reference.hash_rows(layout, ids, lookup=used)
            same &= bool(np.array_equal(expected, got))
            rows += got.size
        expected = reference.hash_rows(layout, [sentence.ids], lookup=used)
        got_sentence = np.stack(list(sentence.rows[n].values()))
        same &= expected.dtype == got_sentence.dtype and bool(np.array_equal(expected, got_sentence))
        equal &= same
        rows += got_sentence.size
        lines.append(f"{hasher.layout.name}, {tokens} tokens, every layer and head: {_verdict(same)}")
    return Checked(equal, lines, tokens, rows)


def _verdict(same: bool) -> str:
    return "equal" if same else "different"


def _reference_map(prepared: Prepared) -> NDArray[np.int32]:
    tokenizer = prepared.tokenizer
    pieces = [tokenizer.id_to_token(token) for token in range(len(prepared.token_map))]
    texts = [
        None if piece is None else tokenizer.decode([token], skip_special_tokens=False)
        for token, piece in enumerate(pieces)
    ]
    return reference.token_map(texts, pieces, reference.normalizer())


def _reference_layout(hasher: NgramHasher, lookup: NDArray[np.int32] | None) -> dict[str, Any]:
    """Return the layout as the reference's own generators draw it; a layout from a file keeps its numbers."""
    layout = hasher.layout
    if layout.name in presets() and layout.parameters:
        return reference.preset(layout.name, lookup=lookup, **layout.parameters)
    found: dict[str, Any] = json.loads(layout.to_json())
    return found
