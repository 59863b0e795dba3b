"""torch.compile without a graph break and torch.export, with the hash inside the graph."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra `torch`)")
from engram_fast.nn import Engram, EngramV41, RowHasher  # noqa: E402
from hashing import demo_hasher  # noqa: E402
from torch import nn  # noqa: E402


class Model(nn.Module):
    """Token ids to logits, two layers with n-gram memory, hashed once."""

    def __init__(self) -> None:
        super().__init__()
        hasher = demo_hasher()
        self.hash = RowHasher(hasher)
        self.embedding = nn.Embedding(500, 16)
        self.engrams = nn.ModuleList()
        for layer in hasher.numbers["layers"]:
            self.engrams.append(
                Engram(hidden_size=16, hc_mult=2, sizes=layer["moduli"], head_dim=4, layer_id=layer["layer_id"])
            )
        self.v41 = EngramV41(
            hidden_size=16, hc_mult=2, num_embeddings=1000, head_dim=4, n_heads=2, max_ngram_size=3, layer_id=15
        )

    def forward(self, ids, mask, segment_ids):
        rows = self.hash(ids, mask=mask, segment_ids=segment_ids)
        hidden = self.embedding(ids)[:, :, None].expand(-1, -1, 2, -1)
        for engram in self.engrams:
            hidden = hidden + engram(hidden, rows, mask=mask, segment_ids=segment_ids)
        return self.v41(hidden, rows, mask).mean(2)


@pytest.fixture(scope="module")
def inputs():
    torch.manual_seed(0)
    ids = torch.randint(0, 500, (2, 9))
    return ids, torch.rand(2, 9) > 0.2, torch.randint(0, 3, (2, 9)).sort(1).values


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiles_to_one_graph_and_trains(inputs, near, backend) -> None:
    model = Model()
    model(*inputs).square().sum().backward()
    want = {name: p.grad.clone() for name, p in model.named_parameters()}
    out = model(*inputs).detach()
    model.zero_grad()
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    got = compiled(*inputs)
    near(got.detach(), out, 1e-5)
    got.square().sum().backward()
    for name, p in model.named_parameters():
        near(p.grad, want[name], 1e-4, what=name)


def test_range_check_stays_in_the_compiled_graph(engram, rows) -> None:
    module, ids = engram(), rows(2, 5)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    hidden = torch.randn(2, 5, 2, 16)
    compiled(hidden, ids)
    ids[1, 2, 3] = 19
    with pytest.raises(IndexError, match="row 19"):
        compiled(hidden, ids)


def test_exports_with_the_hash_as_one_node(inputs, near) -> None:
    model = Model().eval()
    with torch.no_grad():
        want = model(*inputs)
        program = torch.export.export(model, inputs)
        near(program.module()(*inputs), want, 1e-5)
    targets = [str(node.target) for node in program.graph.nodes]
    assert targets.count("engram_fast.hash_rows.default") == 1


def test_export_takes_any_length(inputs, near) -> None:
    model = Model().eval()
    length = torch.export.Dim("length", min=2, max=64)
    with torch.no_grad():
        program = torch.export.export(model, inputs, dynamic_shapes=[{1: length}] * 3)
        ids = torch.randint(0, 500, (2, 20))
        longer = (ids, torch.ones(2, 20, dtype=torch.bool), torch.zeros(2, 20, dtype=torch.int64))
        near(program.module()(*longer), model(*longer), 1e-5)
