"""What the tests of the modules share: golden arrays, small modules, comparison by the largest value."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra `torch`)")
torch.set_num_threads(1)  # small tensors, and other tests beside them

DATA = Path(__file__).parent.parent / "data"


class Golden:
    """Arrays of a golden file as tensors, its configuration, and the state that it names."""

    def __init__(self, name: str) -> None:
        with np.load(DATA / f"{name}.npz") as arrays:
            self.arrays = {key: arrays[key] for key in arrays.files}
        self.config = json.loads(str(self.arrays.pop("config"))) if "config" in self.arrays else {}

    def __getitem__(self, name: str) -> torch.Tensor:
        return torch.from_numpy(self.arrays[name])

    @property
    def state(self) -> dict[str, torch.Tensor]:
        return {key.removeprefix("state."): self[key] for key in self.arrays if key.startswith("state.")}

    @property
    def gradients(self) -> dict[str, torch.Tensor]:
        return {key.removeprefix("grad."): self[key] for key in self.arrays if key.startswith("grad.")}


@pytest.fixture(scope="session")
def golden():
    return Golden


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def engram():
    """A function that makes a small demo module with table, norms and convolution all random."""
    from engram_fast.nn import Engram

    def make(seed: int = 0, **options) -> Engram:
        torch.manual_seed(seed)
        settings = {"hidden_size": 16, "hc_mult": 2, "sizes": [11, 13, 17, 19], "head_dim": 4, "dilation": 3, **options}
        module = Engram(**settings)
        with torch.no_grad():
            for norm in (*module.norm1, *module.norm2, *module.short_conv.norms):
                norm.weight.copy_(1 + 0.3 * torch.randn_like(norm.weight))
        return module

    return make


@pytest.fixture
def rows():
    """A function that makes valid rows [B, T, C] for given head sizes."""

    def make(batch: int, length: int, sizes=(11, 13, 17, 19), seed: int = 1) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.stack([torch.randint(0, size, (batch, length), generator=generator) for size in sizes], -1)

    return make


@pytest.fixture
def sparse_norm() -> None:
    """For tests that clip sparse gradients by norm."""
    try:
        torch.linalg.vector_norm(torch.ones(1, 2).to_sparse(1))
    except NotImplementedError:
        pytest.skip("needs a torch with norms of sparse tensors (2.4 has none)")


def assert_near(got, want, bound: float = 1e-5, what: str = "") -> None:
    """max |got - want| <= bound * max |want|, the measure of the golden arrays."""
    got, want = torch.as_tensor(got).double(), torch.as_tensor(want).double()
    assert got.shape == want.shape, f"{what}: {tuple(got.shape)} instead of {tuple(want.shape)}"
    off, size = float((got - want).abs().max()), float(want.abs().max())
    assert off <= bound * size, f"{what}: off by {off:.3g}, {off / size:.3g} of the largest value"


@pytest.fixture(scope="session")
def near():
    return assert_near


@pytest.fixture(scope="session")
def demo_layout():
    """A function that makes a small layout of the demo's kind as JSON, from the numbers' own definition."""

    def make(moduli: dict[int, list[int]], size: int, fill: int, *, orders=(2, 3), seed: int = 0, **changes) -> str:
        half = max(1, ((2**63 - 1) // size) // 2)
        layers = []
        for layer, column_moduli in moduli.items():
            draws = np.random.default_rng(seed + 10007 * layer).integers(0, half, size=max(orders), dtype=np.int64)
            offsets = np.concatenate([[0], np.cumsum(column_moduli)[:-1]])
            layers.append(
                {
                    "layer_id": layer,
                    "multipliers": (2 * draws + 1).tolist(),
                    "moduli": list(column_moduli),
                    "offsets": offsets.tolist(),
                    "rows": sum(column_moduli),
                }
            )
        layout = {
            "format": "engram-fast-layout",
            "version": 1,
            "name": "engram-demo-v1",
            "parameters": {},
            "orders": list(orders),
            "heads": len(column_moduli) // len(orders),
            "max_order": max(orders),
            "columns": "order-major",
            "mix": "xor",
            "word_bits": 64,
            "align": "newest",
            "fill": fill,
            "boundary_ids": [],
            "ids": {"limit": None, "negative": "enter", "too_large": "enter"},
            "token_map": None,
            "adds_offsets": False,
            "layers": layers,
        }
        return json.dumps(layout | changes)

    return make


@pytest.fixture(scope="session")
def demo_golden_rows(demo_layout) -> torch.Tensor:
    """The rows of the demo golden's token ids: the file holds ids, and its module hashes them itself."""
    from engram_fast.nn.hash import formula
    from engram_fast.nn.hash.rules import numbers_of, rules_of

    arrays = Golden("nn_demo_engram")
    lookup = Golden("token_map_deepseek_v4")["lookup"]
    state = arrays.state
    starts = [*state["multi_head_embedding.offsets"].tolist(), state["multi_head_embedding.embedding.weight"].shape[0]]
    sizes = [after - before for before, after in pairwise(starts)]
    layout = demo_layout({arrays.config["layer_id"]: sizes}, int(lookup.max()) + 1, int(lookup[2]))
    multipliers, moduli, _ = (torch.tensor(part) for part in numbers_of(layout))
    return formula.hash_rows(arrays["input_ids"], lookup, multipliers, moduli, None, rules_of(layout))[0]
