"""engram-peft's token compression and hash, as its collator calls them; its own layout, aligned to the oldest token."""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
import typing
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benches import cases
from benches.peers.base import Peer

NAME, NEEDS, THREADS = "engram-peft", ("engram_peft.hashing", "engram_peft.compression"), (1,)


def before_import() -> None:
    """Let its modules be imported without its `__init__`, which loads half of the Hugging Face stack, and before Python
    3.12, which the package allows although it takes `override` from `typing`."""
    spec = importlib.util.find_spec("engram_peft")
    if spec is None:
        raise ModuleNotFoundError("No module named 'engram_peft'")
    if "engram_peft" not in sys.modules:
        bare = ModuleType("engram_peft")
        bare.__path__ = list(spec.submodule_search_locations)
        sys.modules["engram_peft"] = bare
    if not hasattr(typing, "override"):
        import typing_extensions

        typing.override = typing_extensions.override


def case(base: cases.Case) -> cases.Case | None:
    return cases.peft(base.numbers["max_order"])


class EngramPeft(Peer):
    setup = "peer.use_threads()"

    def prepare(self) -> None:
        import torch
        from engram_peft.compression import CompressedTokenizer
        from engram_peft.hashing import NgramHashMapping

        given, numbers = dict(self.case.parameters), self.case.numbers
        table = cases.lookup().tolist()
        # Its own way to a token map that needs no tokenizer: a folder that it saved.
        saved = {
            "tokenizer_name_or_path": None,
            "compressed_vocab_size": numbers["token_map"]["size"],
            "vocab_size": len(table),
            "mapping": dict(enumerate(table)),
        }
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "compression_config.json").write_text(json.dumps(saved), encoding="utf-8")
            self.tokenizer = CompressedTokenizer.from_pretrained(folder)
        given["pad_id"] = numbers["fill"]
        self.mapping = NgramHashMapping(compressed_vocab_size=numbers["token_map"]["size"], **given)
        self.set_num_threads = torch.set_num_threads

    def use_threads(self) -> None:
        self.set_num_threads(self.threads)

    def run(self) -> Any:
        return self.mapping.hash(self.tokenizer.compress(self.ids))

    def arrange(self, answer: dict[int, np.ndarray]) -> np.ndarray:
        return np.stack([answer[layer] for layer in self.case.layout.layer_ids])


make = EngramPeft
