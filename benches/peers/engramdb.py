"""engramdb-python's compiled `rowids_for_seq`, Qwen's per-layer embedding: one sequence a call, lists out."""

from __future__ import annotations

from typing import Any

import numpy as np

from benches import cases
from benches.peers.base import Peer

NAME, NEEDS, THREADS = "engramdb-python", ("engramdb",), (1,)
MAX_TOKENS = 1 << 17
"""Its lists of Python integers are too large for a million tokens."""


def case(base: cases.Case) -> cases.Case | None:
    return cases.QWEN if base.numbers["max_order"] == 3 else None


class EngramDB(Peer):
    adds_offsets = True

    def prepare(self) -> None:
        from engramdb import rowids_for_seq

        self.rowids_for_seq = rowids_for_seq

    def run(self) -> Any:
        return [self.rowids_for_seq(row) for row in self.ids]

    def arrange(self, answer: list[list[list[int]]]) -> np.ndarray:
        return np.array(answer, dtype=np.int64)[None]


make = EngramDB
