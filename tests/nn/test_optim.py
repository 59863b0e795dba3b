"""Optimising tables: sparse gradients, one number of state for each row, parameter groups."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra `torch`)")
from engram_fast.nn import EngramV41, MultiHeadEmbedding, RowwiseAdagrad, param_groups, table_parameters  # noqa: E402
from torch import nn  # noqa: E402


def rows_of(*numbers: int) -> torch.Tensor:
    return torch.tensor([[[n] for n in numbers]])


def test_state_and_work_grow_with_touched_rows() -> None:
    table = MultiHeadEmbedding([100_003], dim=4, sparse=True)
    optimizer = RowwiseAdagrad(table.parameters(), lr=0.1)
    before = table.weight.detach().clone()
    table(rows_of(7, 7, 12)).sum().backward()
    assert table.weight.grad.is_sparse
    optimizer.step()
    changed = (table.weight.detach() != before).any(1).nonzero().flatten().tolist()
    assert changed == [7, 12]
    numbers = [t.numel() for state in optimizer.state.values() for t in state.values() if torch.is_tensor(t)]
    assert sum(numbers) <= 100_003


@pytest.mark.parametrize("sparse", [True, False])
def test_the_rule_in_numpy_and_untouched_rows(sparse, near) -> None:
    table = MultiHeadEmbedding([10], dim=4, sparse=sparse)
    optimizer = RowwiseAdagrad(table.parameters(), lr=0.1, weight_decay=0.1, eps=1e-3, initial_accumulator_value=0.5)
    weights = torch.randn(3, 4)
    state = torch.full((10,), 0.5)
    for rows in ((1, 1, 2), (2, 2, 2), (9, 1, 9)):
        before = table.weight.detach().clone()
        (table(rows_of(*rows))[0, :, 0] * weights).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        want = before.clone()
        for row in set(rows):
            grad = sum(w for r, w in zip(rows, weights, strict=True) if r == row) + 0.1 * before[row]
            state[row] += grad.square().mean()
            want[row] -= 0.1 * grad / (state[row].sqrt() + 1e-3)
        near(table.weight.detach(), want, 1e-6)
        rest = [r for r in range(10) if r not in rows]
        assert torch.equal(table.weight.detach()[rest], before[rest])


def test_rows_with_a_gradient_of_zero_keep_their_bits() -> None:
    table = MultiHeadEmbedding([10], dim=4, sparse=True)
    optimizer = RowwiseAdagrad(table.parameters(), weight_decay=0.1)
    before = table.weight.detach().clone()
    (table(rows_of(3, 4)) * torch.tensor([0.0, 1.0])[None, :, None, None]).sum().backward()
    optimizer.step()
    assert torch.equal(table.weight.detach()[3], before[3])
    assert not torch.equal(table.weight.detach()[4], before[4])


def test_optimizer_state_is_saved_and_loaded() -> None:
    table = MultiHeadEmbedding([10], dim=4, sparse=True)
    optimizers = [RowwiseAdagrad(table.parameters())]
    table(rows_of(3, 4)).sum().backward()
    optimizers[0].step()
    other = copy.deepcopy(table)
    optimizers.append(RowwiseAdagrad(other.parameters()))
    optimizers[1].load_state_dict(optimizers[0].state_dict())
    for module, optimizer in ((table, optimizers[0]), (other, optimizers[1])):
        optimizer.zero_grad()
        module(rows_of(3, 5)).sum().backward()
        optimizer.step()
    assert torch.equal(table.weight, other.weight)


def test_half_precision_tables_keep_float32_state() -> None:
    table = MultiHeadEmbedding([10], dim=4, sparse=True, dtype=torch.bfloat16)
    optimizer = RowwiseAdagrad(table.parameters())
    table(rows_of(3)).sum().backward()
    optimizer.step()
    assert optimizer.state[table.weight]["sum"].dtype == torch.float32
    assert torch.isfinite(table.weight).all()


@pytest.mark.parametrize("make", [torch.optim.SparseAdam, torch.optim.SGD, RowwiseAdagrad])
def test_sparse_gradients_train_like_dense_ones(make, near) -> None:
    """SparseAdam against Adam on a first step, where both know touched rows only."""
    sparse = MultiHeadEmbedding([10], dim=4, sparse=True)
    dense = MultiHeadEmbedding([10], dim=4)
    dense.load_state_dict(sparse.state_dict())
    other = torch.optim.Adam if make is torch.optim.SparseAdam else make
    for module, optimizer in ((sparse, make), (dense, other)):
        optimizer = optimizer(list(module.parameters()), lr=0.1)
        module(rows_of(3, 3, 4)).square().sum().backward()
        optimizer.step()
    near(sparse.weight.detach(), dense.weight.detach(), 1e-6)


def test_sparse_gradients_are_clipped(sparse_norm) -> None:
    table = MultiHeadEmbedding([10], dim=2, sparse=True)
    table(rows_of(3, 3, 4)).sum().backward()  # gradients 2, 2 and 1, 1: norm sqrt(10)
    assert torch.allclose(nn.utils.clip_grad_norm_(table.parameters(), 1.0), torch.tensor(10.0).sqrt())
    assert torch.allclose(table.weight.grad.to_dense().norm(), torch.tensor(1.0))


def test_duplicates_accumulation_and_scaling() -> None:
    table = MultiHeadEmbedding([10], dim=2, sparse=True)
    for _ in range(2):
        table(rows_of(3, 3, 4)).sum().backward()
    dense = table.weight.grad.coalesce().to_dense()
    assert dense[3].tolist() == [4, 4]
    assert dense[4].tolist() == [2, 2]
    for make in (lambda p: torch.optim.SparseAdam(list(p)), RowwiseAdagrad):
        table.zero_grad()
        scaler, optimizer = torch.amp.GradScaler("cpu"), make(table.parameters())
        scaler.scale(table(rows_of(3)).sum()).backward()
        scaler.unscale_(optimizer)
        assert table.weight.grad.coalesce().to_dense()[3].tolist() == [1, 1]
        before = table.weight.detach().clone()
        scaler.step(optimizer)
        scaler.update()
        assert not torch.equal(table.weight.detach(), before)


def test_an_overflow_skips_the_step() -> None:
    table = MultiHeadEmbedding([10], dim=2, sparse=True)
    scaler, optimizer = torch.amp.GradScaler("cpu"), RowwiseAdagrad(table.parameters())
    before = table.weight.detach().clone()
    scaler.scale((table(rows_of(3, 3)) * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(table.weight.detach(), before)


@pytest.fixture
def model(engram) -> nn.Module:
    torch.manual_seed(3)
    v41 = EngramV41(hidden_size=16, hc_mult=2, num_embeddings=30, head_dim=4, n_heads=2, max_ngram_size=3)
    return nn.ModuleDict({"words": nn.Embedding(50, 16), "a": engram(), "b": engram(seed=1), "v41": v41})


def test_groups_hold_each_parameter_once(model) -> None:
    groups = param_groups(model, lr=1e-3, weight_decay=0.1)
    flat = [p for group in groups for p in group["params"]]
    assert len(flat) == len({id(p) for p in flat}) == len(list(model.parameters()))
    tables = next(group for group in groups if group["name"] == "tables")
    assert (tables["lr"], tables["weight_decay"]) == (pytest.approx(5e-3), 0)
    names = {name for name, p in model.named_parameters() if any(p is t for t in tables["params"])}
    assert names == {f"{m}.multi_head_embedding.embedding.weight" for m in "ab"} | {"v41.embed.weight"}
    assert len(table_parameters(model)) == 3
    rest = next(group for group in groups if group["name"] == "rest")
    assert (rest["lr"], rest["weight_decay"]) == (1e-3, 0.1)
    assert next(g for g in param_groups(model, lr=1, table_lr=0.5) if g["name"] == "tables")["lr"] == 0.5
    torch.optim.AdamW(groups)
    assert [g["name"] for g in param_groups(nn.Linear(2, 2))] == ["rest"]


def test_two_optimizers_do_what_one_does(engram, rows) -> None:
    one, two = engram(), engram()
    optimizers = {
        one: [torch.optim.SGD(one.parameters(), lr=0.1)],
        two: [torch.optim.SGD(group["params"], lr=0.1) for group in param_groups(two)],
    }
    hidden, ids = torch.randn(2, 5, 2, 16), rows(2, 5)
    for module, steps in optimizers.items():
        module(hidden, ids).square().sum().backward()
        for optimizer in steps:
            optimizer.step()
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_settings_that_make_no_sense_are_refused() -> None:
    parameter = [nn.Parameter(torch.zeros(2, 2))]
    for options in ({"lr": -1.0}, {"eps": float("nan")}, {"weight_decay": -1.0}, {"initial_accumulator_value": -1.0}):
        with pytest.raises(ValueError, match="must not be negative"):
            RowwiseAdagrad(parameter, **options)
