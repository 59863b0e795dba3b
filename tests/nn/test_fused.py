"""The hand-written forward and backward against autograd of the plain formula, and against finite differences."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra `torch`)")

from engram_fast.nn import EngramGate, EngramV41  # noqa: E402
from engram_fast.nn.documents import look_back_limit  # noqa: E402
from engram_fast.nn.gate import fused_mix  # noqa: E402
from engram_fast.nn.gate.fused import Gate, GatedAdd  # noqa: E402
from engram_fast.nn.gate.fused_mix import EngramMix  # noqa: E402

CUTS = ["none", "mask", "segments", "mask and segments", "cu_seqlens"]


def cuts(kind: str, batch: int, length: int) -> dict:
    generator = torch.Generator().manual_seed(4)
    where = {}
    if "mask" in kind:
        where["mask"] = torch.rand(batch, length, generator=generator) > 0.3
    if "segments" in kind:
        where["segment_ids"] = torch.randint(0, 4, (batch, length), generator=generator).sort(1).values
    if kind == "cu_seqlens":
        where["cu_seqlens"] = torch.tensor([0, 0, 4, 5, length])
    return where


def run(module, hidden, rows, **where) -> dict:
    """Output, gate and all gradients of a loss that weighs every element differently."""
    module = copy.deepcopy(module)
    hidden = hidden.clone().requires_grad_()
    out, gate = module(hidden, rows, return_gate=True, **where)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(9)).to(out.dtype)
    (out * weight).sum().backward()
    grads = {name: p.grad for name, p in module.named_parameters()}
    return {"out": out.detach(), "gate": gate.detach(), "hidden": hidden.grad, **grads}


@pytest.mark.parametrize("block", [1, 10**9])
@pytest.mark.parametrize("kind", CUTS)
def test_demo_module_equals_the_formula(engram, rows, near, monkeypatch, kind, block) -> None:
    """With blocks of 16 tokens (several to a row, and shorter rows several to a block) and with one block."""
    monkeypatch.setattr(fused_mix, "BLOCK_ELEMENTS", block)
    for batch, length in ((3, 41), (5, 7)):
        if kind == "cu_seqlens":
            batch = 1
        module = engram(hc_mult=3).double()
        hidden, ids = torch.randn(batch, length, 3, 16, dtype=torch.float64), rows(batch, length)
        where = cuts(kind, batch, length)
        got = run(module, hidden, ids, **where)
        module.fused = False
        for name, want in run(module, hidden, ids, **where).items():
            near(got[name], want, 1e-10, what=name)


@pytest.mark.parametrize("fused", [True, False])
def test_no_tokens_and_no_rows_of_the_batch(engram, fused) -> None:
    module = engram(fused=fused)
    for shape in ((2, 0), (0, 3)):
        hidden = torch.randn(*shape, 2, 16, requires_grad=True)
        out = module(hidden, torch.zeros(*shape, 4, dtype=torch.int64))
        assert out.shape == hidden.shape
        out.sum().backward()


def test_demo_function_against_finite_differences() -> None:
    torch.manual_seed(1)
    batch, length, branches, width, taps = 2, 6, 2, 3, 3
    double = {"dtype": torch.float64, "requires_grad": True}
    inputs = (
        torch.randn(batch, length, branches, width, **double),
        torch.randn(batch, length, (branches + 1) * width, **double),
        torch.randn(branches, width, **double),
        torch.randn(branches, width, taps, **double),
    )
    mask = torch.rand(batch, length) > 0.2
    limit = look_back_limit(batch, length, segment_ids=torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 2, 2, 2, 2]]))
    for cut in ((None, None), (limit, mask)):
        # The epsilons are large so that they take part.
        for result in (0, 1):  # the contribution, the gate
            assert torch.autograd.gradcheck(
                lambda *a, cut=cut, r=result: EngramMix.apply(*a, *cut, 0.1, 0.2, 2)[r], inputs
            )


@pytest.mark.parametrize("masked", [False, True])
def test_v41_function_against_finite_differences(masked) -> None:
    torch.manual_seed(2)
    double = {"dtype": torch.float64, "requires_grad": True}
    hidden, keys = torch.randn(5, 2, 3, **double), torch.randn(5, 2, 3, **double)
    value, weight = torch.randn(5, 3, **double), torch.randn(2, 3, **double)
    mask = torch.tensor([True, True, False, True, False]) if masked else None
    for positive in (False, True):
        for result in (0, 1):  # the hidden states, the gate
            assert torch.autograd.gradcheck(
                lambda *a, p=positive, r=result: GatedAdd.apply(*a, mask, 0.1, p)[r], (hidden, keys, value, weight)
            )
        assert torch.autograd.gradcheck(lambda *a, p=positive: Gate.apply(*a, 0.1, p), (hidden, keys, weight))


@pytest.mark.parametrize("masked", [False, True])
def test_v41_module_equals_the_formula(near, masked) -> None:
    module = EngramV41(hidden_size=16, hc_mult=3, num_embeddings=40, head_dim=4, n_heads=2, max_ngram_size=3).double()
    hidden, rows = torch.randn(2, 40, 3, 16, dtype=torch.float64), torch.randint(0, 40, (2, 40, 4))
    where = {"mask": torch.rand(2, 40) > 0.3} if masked else {}
    got = run(module, hidden, rows, **where)
    module.fused = False
    for name, want in run(module, hidden, rows, **where).items():
        near(got[name], want, 1e-10, what=name)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_gradients_are_finite_at_zero(dtype, positive, fused) -> None:
    gate = EngramGate(hidden_size=8, hc_mult=2, zero_is_positive=positive, fused=fused).to(dtype)
    for zero in ("keys", "hidden", "both"):
        hidden = torch.randn(2, 3, 2, 8, dtype=dtype) * (zero == "keys")
        keys = torch.randn(2, 3, 2, 8, dtype=dtype) * (zero == "hidden")
        hidden.requires_grad_(), keys.requires_grad_()
        gate(hidden, keys).sum().backward()
        assert torch.isfinite(hidden.grad).all()
        assert torch.isfinite(keys.grad).all()
    large = torch.full((1, 1, 2, 8), 200.0, dtype=dtype)
    assert torch.isfinite(gate(large, large)).all()
    expected = torch.sigmoid(torch.tensor(1e-3)) if positive else torch.tensor(0.5)
    assert torch.allclose(gate(large, large * 0), expected)


@pytest.mark.parametrize("fused", [True, False])
def test_gate_is_float32_in_half_precision(engram, rows, fused) -> None:
    """The gate of a bfloat16 module is as good as float32 arithmetic on its bfloat16 inputs."""
    module = engram(fused=fused).bfloat16()
    hidden, ids = torch.randn(2, 9, 2, 16).bfloat16(), rows(2, 9)
    out, gate = module(hidden, ids, return_gate=True)
    assert (out.dtype, gate.dtype) == (torch.bfloat16, torch.float32)
    _, exact = engram().bfloat16().double()(hidden.double(), ids, return_gate=True)
    assert (gate - exact).abs().max() < 0.02  # the projection itself is rounded to 8 bits


def test_zero_table_trains(engram, rows) -> None:
    """A table of zeros and zero biases: every key is zero, and the value still gets its gradient."""
    module = engram()
    with torch.no_grad():
        module.multi_head_embedding.weight.zero_()
        for linear in (*module.key_projs, module.value_proj):
            linear.bias.zero_()
    module(torch.randn(2, 5, 2, 16), rows(2, 5)).sum().backward()
    for name, p in module.named_parameters():
        assert torch.isfinite(p.grad).all(), name
    assert module.value_proj.bias.grad.abs().sum() > 0


def test_second_derivatives_are_refused_by_the_fused_code_and_given_by_the_formula(engram, rows) -> None:
    hidden, ids = torch.randn(1, 3, 2, 16, requires_grad=True), rows(1, 3)
    (first,) = torch.autograd.grad(engram()(hidden, ids).square().sum(), hidden, create_graph=True)
    with pytest.raises(RuntimeError):
        first.sum().backward()
    (first,) = torch.autograd.grad(engram(fused=False)(hidden, ids).square().sum(), hidden, create_graph=True)
    first.sum().backward()
    assert torch.isfinite(hidden.grad).all()
