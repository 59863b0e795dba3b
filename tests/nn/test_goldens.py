"""The modules against arrays that the published implementations made, weights loaded under the arrays' own names."""

from __future__ import annotations

from itertools import pairwise

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra `torch`)")

from engram_fast.nn import Engram, EngramGate, EngramV41  # noqa: E402


def demo_module(golden, **options) -> Engram:
    state, config = golden.state, golden.config
    starts = [*state["multi_head_embedding.offsets"].tolist(), state["multi_head_embedding.embedding.weight"].shape[0]]
    module = Engram(
        hidden_size=config["backbone"]["hidden_size"],
        hc_mult=config["backbone"]["hc_mult"],
        sizes=[after - before for before, after in pairwise(starts)],
        head_dim=config["engram"]["n_embed_per_ngram"] // config["engram"]["n_head_per_ngram"],
        kernel_size=config["engram"]["kernel_size"],
        dilation=config["conv_dilation"],
        layer_id=config["layer_id"],
        **options,
    )
    module.load_state_dict(state, strict=True)
    return module


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("sparse", [False, True])
def test_demo_module_output_and_gradients(golden, near, demo_golden_rows, fused, sparse) -> None:
    arrays = golden("nn_demo_engram")
    module = demo_module(arrays, fused=fused, sparse=sparse)
    hidden = arrays["hidden_states"].clone().requires_grad_()
    output = module(hidden, demo_golden_rows)
    near(output.detach(), arrays["output"], what="output")
    (output * arrays["loss_weight"]).sum().backward()
    grads = {name: p.grad for name, p in module.named_parameters()} | {"hidden_states": hidden.grad}
    table = grads.pop("multi_head_embedding.embedding.weight")
    table = table.to_dense() if table.is_sparse else table
    want = arrays.gradients
    touched = want.pop("embedding_rows")
    near(table[touched], want.pop("embedding_values"), what="table")
    assert sorted(table.abs().sum(1).nonzero().flatten().tolist()) == sorted(touched.tolist())
    assert grads.keys() == want.keys()
    for name, value in want.items():
        near(grads[name], value, what=name)


def test_demo_state_is_the_published_one(golden) -> None:
    arrays = golden("nn_demo_engram")
    saved = demo_module(arrays).state_dict()
    assert saved.keys() == arrays.state.keys()
    for name, value in arrays.state.items():
        assert saved[name].dtype == value.dtype
        assert torch.equal(saved[name], value), name


@pytest.mark.parametrize("fused", [True, False])
def test_v41_module_output_and_gradients(golden, near, fused) -> None:
    arrays = golden("nn_deepseek_v41_engram")
    config = dict(arrays.config)
    module = EngramV41(num_embeddings=config.pop("rows"), fused=fused, **config)
    module.load_state_dict(arrays.state, strict=True)
    assert module.state_dict().keys() == arrays.state.keys()
    hidden = arrays["hidden_states"].clone().requires_grad_()
    output = module(hidden, arrays["rows"], arrays["token_mask"])
    near(output.detach(), arrays["output"], what="output")
    masked = ~arrays["token_mask"]
    assert torch.equal(output[masked], hidden[masked])
    (output * arrays["loss_weight"]).sum().backward()
    grads = {name: p.grad for name, p in module.named_parameters()} | {"hidden_states": hidden.grad}
    for name, value in arrays.gradients.items():
        near(grads[name], value, what=name)


@pytest.mark.parametrize("fused", [True, False])
def test_gate_of_the_kernel_library(golden, near, fused) -> None:
    """bfloat16 in and out: one rounding of the result is 2^-9 of it; the gains are float32 there and here."""
    arrays = golden("nn_tilekernels_gate")
    module = EngramGate(hidden_size=64, hc_mult=4, fused=fused)
    hidden, keys, values = (arrays[name].bfloat16().requires_grad_() for name in ("hidden_states", "keys", "values"))
    with torch.no_grad():
        module.q_weight.copy_(arrays["weight_hidden"])
        module.k_weight.copy_(arrays["weight_embed"])
    near(module(hidden, keys).detach(), arrays["gate"], 1e-5, what="gate")
    output = module(hidden, keys, values)
    assert output.dtype == torch.bfloat16
    near(output.detach(), arrays["output"], 2**-8, what="output")
    (output.float() * arrays["loss_weight"]).sum().backward()
    near(hidden.grad, arrays["grad.hidden_states"], 2**-7, what="hidden_states")
    near(keys.grad, arrays["grad.keys"], 2**-7, what="keys")
    near(values.grad, arrays["grad.values"], 2**-7, what="values")
    near(module.q_weight.grad, arrays["grad.weight_hidden"], 2**-7, what="weight_hidden")
    near(module.k_weight.grad, arrays["grad.weight_embed"], 2**-7, what="weight_embed")
