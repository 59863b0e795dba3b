"""The formula of DeepSeek-V4.1 in eager PyTorch on the CPU: blocked look-backs, XOR by order, one remainder."""

from __future__ import annotations

from typing import Any

import numpy as np

from benches.cases import Case, lookup
from benches.peers.base import Peer

NAME, NEEDS, THREADS = "torch eager", ("torch",), (1, 2)
SETTLE_S = 0.02


def case(base: Case) -> Case | None:
    return base


class TorchEager(Peer):
    adds_offsets = True
    setup = "peer.use_threads()"

    def prepare(self) -> None:
        import torch

        self.torch = torch
        numbers = self.case.numbers
        self.fill, self.order, heads = numbers["fill"], numbers["max_order"], numbers["heads"]
        self.lookup = torch.from_numpy(lookup().astype(np.int64))
        self.tokens = torch.from_numpy(self.ids)
        layers = numbers["layers"]
        per_order = (len(layers), self.order - 1, heads)
        self.multipliers = torch.tensor([layer["multipliers"] for layer in layers])
        self.moduli = torch.tensor([layer["moduli"] for layer in layers]).reshape(per_order)
        self.offsets = torch.tensor([layer["offsets"] for layer in layers])

    def use_threads(self) -> None:
        self.torch.set_num_threads(self.threads)

    def run(self) -> Any:
        torch = self.torch
        with torch.inference_mode():
            ids = self.lookup[self.tokens]
            positions = torch.arange(ids.shape[1])
            blocked = torch.zeros_like(ids, dtype=torch.bool)
            window = []
            for k in range(self.order):
                blocked = blocked | (positions < k)
                window.append(torch.where(blocked, self.fill, ids.roll(k, dims=1)))
            products = torch.stack(window, dim=-1).unsqueeze(2) * self.multipliers
            mix = products[..., 0]
            mixes = []
            for k in range(1, self.order):
                mix = mix ^ products[..., k]
                mixes.append(mix)
            rows = torch.stack(mixes, dim=-1).unsqueeze(-1) % self.moduli
            return rows.flatten(-2) + self.offsets

    def arrange(self, answer: Any) -> np.ndarray:
        return answer.movedim(2, 0).numpy()


make = TorchEager
