"""The demo's results for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .demo_check import Checked
    from .demo_steps import Prepared, Sentence, Speed


def report(prepared: Prepared, sentence: Sentence, speed: Speed, checked: Checked) -> dict[str, Any]:
    """All of it for machines."""
    layouts = []
    for n, hasher in enumerate(prepared.hashers):
        layout, (_, _, seconds) = hasher.layout, speed.hashing[n]
        layers = {
            str(layer): {"shape": list(rows.shape), "dtype": str(rows.dtype), "rows": rows.tolist()}
            for layer, rows in sentence.rows[n].items()
        }
        ngrams = [
            {"position": read.place[0], "order": read.order, "text": prepared.show(read.ids), "ids": read.ids}
            for read in sentence.reads[n]
            if read.layer == layout.layer_ids[0]
        ]
        layouts.append(
            {
                "name": layout.name,
                "digest": layout.digest,
                "table_rows": list(layout.rows.values()),
                "sentence": {"layers": layers, "ngrams": ngrams},
                "hash_seconds": seconds,
                "hash_tokens_per_second": speed.tokens / max(seconds, 1e-9),
            }
        )
    token_map = prepared.token_map
    return {
        "tokenizer": str(prepared.path),
        "token_map": {"length": len(token_map), "size": token_map.size, "digest": token_map.digest},
        "token_map_seconds": prepared.seconds,
        "sentence": {"text": sentence.text, "ids": sentence.ids},
        "text": {
            "source": speed.source,
            "bytes": speed.bytes,
            "pieces": speed.pieces,
            "tokens": speed.tokens,
            "tokenise_seconds": speed.tokenising,
            "tokenise_tokens_per_second": speed.tokens / max(speed.tokenising, 1e-9),
        },
        "layouts": layouts,
        "left_out": prepared.left_out,
        "compared": {"equal": checked.equal, "tokens": checked.tokens, "rows": checked.rows},
    }
