"""NumPy as good as it gets: one look-up, the mix grown order by order, all heads of an order in one remainder."""

from __future__ import annotations

import numpy as np

from benches.cases import Case, lookup
from benches.peers.base import Peer

NAME, NEEDS, THREADS = "broadcast NumPy", ("numpy",), (1,)


def case(base: Case) -> Case | None:
    return base


class Broadcast(Peer):
    def prepare(self) -> None:
        numbers = self.case.numbers
        self.lookup = lookup().astype(np.int64)
        self.fill, self.order, self.heads = numbers["fill"], numbers["max_order"], numbers["heads"]
        self.multipliers = np.array([layer["multipliers"] for layer in numbers["layers"]], dtype=np.int64)
        moduli = np.array([layer["moduli"] for layer in numbers["layers"]], dtype=np.int64)
        self.moduli = moduli.reshape(len(moduli), self.order - 1, self.heads)

    def run(self) -> np.ndarray:
        ids, order, heads = self.ids, self.order, self.heads
        padded = np.full((ids.shape[0], ids.shape[1] + order - 1), self.fill, dtype=np.int64)
        np.take(self.lookup, ids, out=padded[:, order - 1 :])
        length = ids.shape[1]
        out = np.empty((len(self.multipliers), *ids.shape, (order - 1) * heads), dtype=np.int64)
        for layer, (multipliers, moduli) in enumerate(zip(self.multipliers, self.moduli, strict=True)):
            mix = padded[:, order - 1 :] * multipliers[0]
            for k in range(1, order):
                start = order - 1 - k
                mix ^= padded[:, start : start + length] * multipliers[k]
                columns = out[layer, :, :, (k - 1) * heads : k * heads]
                np.remainder(mix[:, :, None], moduli[k - 1], out=columns)
        return out

    def arrange(self, answer: np.ndarray) -> np.ndarray:
        return answer


make = Broadcast
