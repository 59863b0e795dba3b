"""Training around the modules: autocast, checkpointing, accumulation, scaling, and parity with a plain restatement."""

from __future__ import annotations

import copy
import math

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra `torch`)")
import torch.nn.functional as F  # noqa: E402
from engram_fast.nn import EngramV41, RowwiseAdagrad, param_groups  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402


def plain_engram(module, hidden, rows):
    """The demo's module written out with its own sub-modules, one branch after the other."""
    table = module.multi_head_embedding
    embedded = table.embedding(rows + table.offsets).flatten(-2)
    gates = []
    for m, project in enumerate(module.key_projs):
        key, query = module.norm1[m](project(embedded)), module.norm2[m](hidden[:, :, m])
        score = (key * query).sum(-1) / math.sqrt(hidden.shape[-1])
        gates.append(torch.sigmoid(score.abs().clamp_min(1e-6).sqrt() * score.sign()))
    value = torch.stack(gates, 2)[..., None] * module.value_proj(embedded)[:, :, None]
    conv, shape = module.short_conv, value.shape
    normed = torch.cat([norm(value[:, :, m]) for m, norm in enumerate(conv.norms)], -1)
    mixed = conv.conv(normed.transpose(1, 2))[..., : shape[1]].transpose(1, 2).reshape(shape)
    return value + F.silu(mixed)


def gradients(module) -> dict:
    return {n: p.grad.to_dense() if p.grad.is_sparse else p.grad for n, p in module.named_parameters()}


@pytest.mark.parametrize("branches", [1, 4])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_parity_with_a_plain_restatement(engram, rows, near, branches, order) -> None:
    sizes = [11, 13, 17, 19, 23, 29][: 2 * (order - 1)]
    module = engram(hc_mult=branches, dilation=order, sizes=sizes).double()
    hidden, ids = torch.randn(2, 17, branches, 16, dtype=torch.float64), rows(2, 17, sizes)
    results = []
    for forward in (module, lambda h, r: plain_engram(module, h, r)):
        module.zero_grad()
        out = forward(hidden, ids)
        out.square().sum().backward()
        results.append({"out": out.detach(), **gradients(module)})
    for name, want in results[1].items():
        near(results[0][name], want, 1e-9, what=name)


@pytest.mark.parametrize("sparse", [False, True])
def test_gradient_checkpointing_changes_nothing(engram, rows, sparse) -> None:
    start, ids = torch.randn(2, 6, 2, 16), rows(2, 6)
    results = []
    for checkpointed in (True, False):
        module = engram(sparse=sparse)
        block = (
            (lambda x, m=module: checkpoint(m, x, ids, use_reentrant=False))
            if checkpointed
            else (lambda x, m=module: m(x, ids))
        )
        block(block(start)).sum().backward()
        results.append(gradients(module))
    for name, want in results[1].items():
        torch.testing.assert_close(results[0][name], want, msg=name)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(engram, rows, near, dtype) -> None:
    """Projections in half precision, gate and convolution in float32, gradients in the parameters' dtype."""
    module, hidden, ids = engram(), torch.randn(2, 9, 2, 16, requires_grad=True), rows(2, 9)
    want = module(hidden, ids)
    with torch.autocast("cpu", dtype=dtype):
        got, gate = module(hidden, ids, return_gate=True)
        loss = got.square().mean()
    loss.backward()
    assert gate.dtype == torch.float32
    assert got.dtype == hidden.dtype
    near(got.detach(), want.detach(), 0.05)
    for name, p in module.named_parameters():
        assert p.grad.dtype == torch.float32, name
        assert torch.isfinite(p.grad).all(), name


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_modules(engram, rows, near, dtype, fused) -> None:
    module, hidden, ids = engram(fused=fused).to(dtype), torch.randn(2, 9, 2, 16).to(dtype), rows(2, 9)
    out = module(hidden, ids)
    out.float().square().mean().backward()
    exact = copy.deepcopy(module).double()
    want = exact(hidden.double(), ids)
    near(out.detach(), want.detach(), 0.03)
    assert out.dtype == dtype
    for name, p in module.named_parameters():
        assert p.grad.dtype == dtype
        assert torch.isfinite(p.grad).all(), name


def test_v41_under_autocast_and_in_half_precision(near) -> None:
    module = EngramV41(hidden_size=16, hc_mult=2, num_embeddings=30, head_dim=8, n_heads=2, max_ngram_size=3)
    hidden, ids = torch.randn(2, 9, 2, 16), torch.randint(0, 30, (2, 9, 4))
    want = module(hidden, ids).detach()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = module(hidden, ids)
    got.sum().backward()
    near(got.detach(), want, 0.05)
    half = copy.deepcopy(module).bfloat16()
    assert half(hidden.bfloat16(), ids).dtype == torch.bfloat16
    near(half(hidden.bfloat16(), ids).detach(), want, 0.05)


def test_accumulated_batches_equal_one(engram, rows, near) -> None:
    module, hidden, ids = engram(sparse=True), torch.randn(4, 6, 2, 16), rows(4, 6)
    module(hidden, ids).square().sum().backward()
    want = gradients(copy.copy(module))
    want = {name: grad.clone() for name, grad in want.items()}
    module.zero_grad()
    for part in (slice(0, 1), slice(1, 4)):
        module(hidden[part], ids[part]).square().sum().backward()
    for name, grad in gradients(module).items():
        near(grad, want[name], 1e-5, what=name)


def test_a_scaled_clipped_step_with_two_optimizers(engram, rows, sparse_norm) -> None:
    """Dense and sparse parameters together: GradScaler, clipping and both optimizers move every part."""
    module = engram(sparse=True)
    groups = param_groups(module, lr=1e-2)
    rest, tables = (next(g for g in groups if g["name"] == name) for name in ("rest", "tables"))
    optimizers = [torch.optim.AdamW([rest]), RowwiseAdagrad([tables])]
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    scaler.scale(module(torch.randn(2, 6, 2, 16), rows(2, 6)).square().sum()).backward()
    for optimizer in optimizers:
        scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    assert torch.isfinite(norm)
    for optimizer in optimizers:
        scaler.step(optimizer)
    scaler.update()
    for name, p in module.named_parameters():
        assert not torch.equal(p, before[name]), name
        assert torch.isfinite(p).all()


def test_two_micro_batches_in_flight(engram, rows) -> None:
    """Forward, forward, backward, backward: nothing of the first is lost to the second."""
    module, hidden = engram(), torch.randn(2, 6, 2, 16)
    first, second = rows(2, 6, seed=1), rows(2, 6, seed=2)
    alone = []
    for ids in (first, second):
        module.zero_grad()
        module(hidden, ids).square().sum().backward()
        alone.append(gradients(module))
    module.zero_grad()
    a, b = module(hidden, first).square().sum(), module(hidden, second).square().sum()
    a.backward(), b.backward()
    for name, grad in gradients(module).items():
        torch.testing.assert_close(grad, alone[0][name] + alone[1][name], msg=name)
