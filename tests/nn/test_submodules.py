"""Hooks, adapters and parametrizations on submodules take part: what the fused code goes around is then called."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra `torch`)")
from engram_fast.nn.bare import to_parameters  # noqa: E402
from engram_fast.nn.gate import dispatch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import parametrize  # noqa: E402

# Twice the output of each of these is twice its weight.
READ_BY_THE_FUSED_CODE = ["norm1.0", "norm2.1", "short_conv.conv", "short_conv.norms.1"]


class Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


class Wrapper(nn.Module):
    """As wrappers that shard or quantise one layer: another type, the layer inside."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * self.inner(x)


def hook(module: nn.Module, name: str) -> None:
    module.get_submodule(name).register_forward_hook(lambda _module, _inputs, output: 2 * output)


def parametrization(module: nn.Module, name: str) -> None:
    parametrize.register_parametrization(module.get_submodule(name), "weight", Twice())


def wrapper(module: nn.Module, name: str) -> None:
    parent, _, child = name.rpartition(".")
    setattr(module.get_submodule(parent), child, Wrapper(module.get_submodule(name)))


def own_forward(module: nn.Module, name: str) -> None:
    inner = module.get_submodule(name)
    forward = inner.forward
    inner.forward = lambda *inputs, **options: 2 * forward(*inputs, **options)


def results(module, hidden, ids, **where) -> list[torch.Tensor]:
    hidden = hidden.clone().requires_grad_()
    out, gate = module(hidden, ids, return_gate=True, **where)
    out.square().sum().backward()
    table, projection = module.multi_head_embedding.weight.grad, module.value_proj.weight.grad
    return [out.detach(), gate.detach(), hidden.grad, table, projection]


@pytest.mark.parametrize("change", [hook, parametrization, wrapper, own_forward])
@pytest.mark.parametrize("name", READ_BY_THE_FUSED_CODE)
def test_a_changed_submodule_is_called(engram, rows, near, name, change) -> None:
    hidden, ids = torch.randn(2, 12, 2, 16), rows(2, 12)
    where = {"mask": torch.rand(2, 12) > 0.2}
    if name != "short_conv.conv":
        where["segment_ids"] = torch.randint(0, 3, (2, 12)).sort(1).values
    changed, want = engram(), engram()
    change(changed, name)
    with torch.no_grad():
        want.get_submodule(name).weight.mul_(2)
    for got, expected in zip(results(changed, hidden, ids, **where), results(want, hidden, ids, **where), strict=True):
        near(got, expected, 1e-4)


class Bytes(nn.Module):
    """A projection whose weight is kept as bytes, as four-bit layers keep it: what it computes in is not its dtype."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3, dtype=torch.uint8), requires_grad=False)
        self.matrix, self.offset = inner.weight.detach(), inner.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.dtype == torch.float32
        return nn.functional.linear(x, self.matrix, None if self.offset is None else self.offset.detach())


def test_the_input_of_a_quantised_projection_is_not_cast_to_bytes(engram, rows, near) -> None:
    hidden, ids = torch.randn(2, 12, 2, 16), rows(2, 12)
    changed, want = engram(), engram()
    changed.value_proj = Bytes(changed.value_proj)
    near(changed(hidden, ids).detach(), want(hidden, ids).detach(), 1e-5)
    table = nn.Linear(4, 4, bias=False)
    assert to_parameters(Bytes(table), torch.ones(2, 4, dtype=torch.bfloat16)).dtype == torch.float32
    assert to_parameters(table.double(), torch.ones(2, 4)).dtype == torch.float64


def test_hooks_of_every_kind_run(engram, rows) -> None:
    calls = []
    for name in [*READ_BY_THE_FUSED_CODE, "short_conv"]:
        for register in ("forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook"):
            module = engram()
            add = getattr(module.get_submodule(name), f"register_{register}")
            add(lambda *_, n=name, r=register: calls.append((n, r)))
            module(torch.randn(1, 3, 2, 16, requires_grad=True), rows(1, 3)).sum().backward()
            assert calls.pop() == (name, register)
            assert not calls


def test_only_changed_modules_leave_the_fused_code(engram, rows, monkeypatch) -> None:
    calls = []
    original = dispatch.engram_mix
    monkeypatch.setattr(dispatch, "engram_mix", lambda *a, **k: calls.append(a) or original(*a, **k))
    hidden, ids = torch.randn(1, 3, 2, 16), rows(1, 3)
    module = engram()
    module(hidden, ids)
    handle = module.norm1[0].register_forward_hook(lambda *_: None)
    module(hidden, ids)
    assert len(calls) == 1
    handle.remove()
    want = module(hidden, ids)
    assert len(calls) == 2
    module.norm2[1].eps = 0.5
    assert not torch.allclose(module(hidden, ids), want)
    assert len(calls) == 2


def test_a_changed_convolution_streams_and_cannot_tell_documents_apart(engram, rows, near) -> None:
    module, hidden, ids = engram(), torch.randn(2, 11, 2, 16), rows(2, 11)
    hook(module, "short_conv.conv")
    state = module.new_state(2)
    with torch.no_grad():
        parts = [module(hidden[:, part], ids[:, part], state=state) for part in (slice(0, 4), slice(4, 11))]
        near(torch.cat(parts, 1), module(hidden, ids), 1e-5)
    with pytest.raises(ValueError, match="pass each document on its own"):
        module(hidden, ids, segment_ids=torch.zeros(2, 11, dtype=torch.int64))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_called_submodules_get_their_own_dtype(engram, rows, near, dtype) -> None:
    module, hidden, ids = engram().to(dtype), torch.randn(2, 9, 2, 16).to(dtype), rows(2, 9)
    want = module(hidden, ids).detach()
    for name in READ_BY_THE_FUSED_CODE:
        module.get_submodule(name).register_forward_hook(lambda *_: None)
    out, gate = module(hidden, ids, return_gate=True)
    assert (out.dtype, gate.dtype) == (dtype, torch.promote_types(dtype, torch.float32))
    near(out.detach(), want, 0.03 if dtype == torch.bfloat16 else 1e-9)


class Adapter(nn.Module):
    """What adapters put in a layer's place: the layer, and a product beside it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base, self.beside = base, nn.Linear(base.in_features, base.out_features, bias=False)

    @property
    def weight(self) -> torch.Tensor:
        return self.base.weight

    @property
    def bias(self) -> torch.Tensor:
        return self.base.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.beside(x)


def test_adapters_and_hooks_on_projections_take_part(engram, rows, near) -> None:
    module, hidden, ids = engram(), torch.randn(1, 3, 2, 16), rows(1, 3)
    want = copy.deepcopy(module)
    adapters = [Adapter(module.key_projs[1]), Adapter(module.value_proj)]
    module.key_projs[1], module.value_proj = adapters
    with torch.no_grad():
        want.key_projs[1].weight += adapters[0].beside.weight
        want.value_proj.weight += adapters[1].beside.weight
    out = module(hidden, ids)
    near(out.detach(), want(hidden, ids).detach(), 1e-5)
    out.square().sum().backward()
    assert all(adapter.beside.weight.grad.abs().sum() > 0 for adapter in adapters)
    near(copy.deepcopy(module)(hidden, ids).detach(), out.detach(), 1e-6)
    hooked = engram()
    hooked.key_projs[0].register_forward_hook(lambda _module, _inputs, output: output * 0)
    with torch.no_grad():
        want = engram()
        want.key_projs[0].weight.zero_(), want.key_projs[0].bias.zero_()
    near(hooked(hidden, ids).detach(), want(hidden, ids).detach(), 1e-6)
