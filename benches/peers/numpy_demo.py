"""The published demo's way in NumPy: one shifted copy per look-back, one remainder per head, one stack per layer."""

from __future__ import annotations

import numpy as np

from benches.cases import Case, lookup
from benches.peers.base import Peer

NAME, NEEDS, THREADS = "the demo's NumPy", ("numpy",), (1,)


def case(base: Case) -> Case | None:
    return base


class Demo(Peer):
    def prepare(self) -> None:
        numbers = self.case.numbers
        self.lookup = lookup().astype(np.int64)
        self.fill, self.order, self.heads = numbers["fill"], numbers["max_order"], numbers["heads"]
        self.layers = [(np.array(layer["multipliers"], dtype=np.int64), layer["moduli"]) for layer in numbers["layers"]]

    def compress(self, ids: np.ndarray) -> np.ndarray:
        """Negative ids stay as they are."""
        mapped = ids.copy()
        known = ids >= 0
        mapped[known] = self.lookup[ids[known]]
        return mapped

    def shifted(self, x: np.ndarray, by: int) -> np.ndarray:
        if by == 0:
            return x
        blank = np.full((x.shape[0], min(by, x.shape[1])), self.fill, dtype=np.int64)
        return np.concatenate([blank, x[:, :-by]], axis=1)

    def layer(self, x: np.ndarray, multipliers: np.ndarray, moduli: list[int]) -> np.ndarray:
        tokens = [self.shifted(x, k) for k in range(self.order)]
        columns = []
        for n in range(2, self.order + 1):
            mix = tokens[0] * multipliers[0]
            for k in range(1, n):
                mix = np.bitwise_xor(mix, tokens[k] * multipliers[k])
            first = (n - 2) * self.heads
            columns += [mix % p for p in moduli[first : first + self.heads]]
        return np.stack(columns, axis=2)

    def run(self) -> list[np.ndarray]:
        x = self.compress(self.ids)
        return [self.layer(x, *layer) for layer in self.layers]

    def arrange(self, answer: list[np.ndarray]) -> np.ndarray:
        return np.stack(answer)


make = Demo
