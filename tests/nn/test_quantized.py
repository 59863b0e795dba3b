"""fp8 tables: exact values, scales that are exponents, loading both ways."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra `torch`)")

from engram_fast.nn import EngramV41, QuantizedEmbedding  # noqa: E402
from engram_fast.nn.quantized import dequantize_blocks, e8m0_to_float  # noqa: E402

OPTIONS = {"hidden_size": 8, "hc_mult": 2, "num_embeddings": 30, "head_dim": 64, "n_heads": 2, "max_ngram_size": 3}


def test_exponent_bytes() -> None:
    values = e8m0_to_float(torch.arange(256, dtype=torch.uint8))
    assert torch.isnan(values[255])
    assert torch.equal(values[1:255].double(), 2.0 ** (torch.arange(1, 255, dtype=torch.float64) - 127))
    # 2^-127 as bits: what torch.compile of 2.4 loads makes the process read subnormal numbers as zero.
    assert values[0].view(torch.int32) == 1 << 22


def test_rows_are_exact() -> None:
    table = QuantizedEmbedding(2, 64)
    with torch.no_grad():
        table.weight.copy_(torch.ones(2, 64).to(torch.float8_e4m3fn))
        table.scale.view(torch.uint8).copy_(torch.tensor([[127, 128], [120, 255]], dtype=torch.uint8))
    rows = table(torch.tensor([0, 1]))
    assert rows.dtype == torch.float32
    assert (rows[0, 0], rows[0, 32], rows[1, 0]) == (1, 2, 2.0**-7)
    assert torch.isnan(rows[1, 32:]).all()
    with pytest.raises(ValueError, match="blocks of 32"):
        QuantizedEmbedding(2, 40)


def quantized_state() -> dict[str, torch.Tensor]:
    state = EngramV41(**OPTIONS, fp8=True).state_dict()
    state["embed.weight"] = torch.randn(30, 64).to(torch.float8_e4m3fn)
    state["embed.scale"] = torch.randint(120, 130, (30, 2), dtype=torch.uint8).view(state["embed.scale"].dtype)
    return state


def test_fp8_module_keeps_its_bytes_and_equals_the_float_one() -> None:
    state = quantized_state()
    module = EngramV41(**OPTIONS, fp8=True)
    assert list(module.state_dict()) != []
    module.load_state_dict(state)
    saved = module.to(torch.bfloat16).float().state_dict()
    for name in ("embed.weight", "embed.scale"):
        assert saved[name].dtype == state[name].dtype
        assert torch.equal(saved[name].view(torch.uint8), state[name].view(torch.uint8))
    module.load_state_dict(state)
    floating = EngramV41(**OPTIONS)
    floating.load_state_dict(state)
    hidden, rows = torch.randn(1, 5, 2, 8), torch.randint(0, 30, (1, 5, 4))
    assert torch.equal(module(hidden, rows), floating(hidden, rows))
    assert not any("embed" in name for name, _ in module.named_parameters())


def test_casts_do_not_touch_the_table() -> None:
    """A cast that is undone afterwards would take twice the table's memory and more."""
    table = QuantizedEmbedding(4, 64)
    places = table.weight.data_ptr(), table.scale.data_ptr()
    seen = []
    table._apply(lambda tensor: seen.append(tensor.dtype) or tensor)
    assert seen == [torch.uint8, torch.uint8]
    table.half().double().to(torch.bfloat16)
    assert (table.weight.data_ptr(), table.scale.data_ptr()) == places
    table.type(torch.float32)
    assert table.weight.dtype == torch.float8_e4m3fn
    moved = table.to("meta").to_empty(device="cpu")
    assert (moved.weight.shape, moved.weight.dtype) == ((4, 64), torch.float8_e4m3fn)


def test_a_missing_scale_is_an_error() -> None:
    state = quantized_state()
    del state["embed.scale"]
    for fp8 in (True, False):
        with pytest.raises(RuntimeError, match="scale"):
            EngramV41(**OPTIONS, fp8=fp8).load_state_dict(state)


def test_a_float_table_is_not_taken_for_fp8() -> None:
    state = EngramV41(**OPTIONS).state_dict()
    state["embed.scale"] = quantized_state()["embed.scale"]
    with pytest.raises(RuntimeError, match="float32"):
        EngramV41(**OPTIONS, fp8=True).load_state_dict(state)


def test_blocks_follow_from_the_shapes() -> None:
    weight = torch.ones(5, 6)
    scale = torch.tensor([[127, 128], [129, 130]], dtype=torch.uint8)
    assert dequantize_blocks(weight, scale)[[0, 3, 4, 4], [3, 4, 0, 5]].tolist() == [1, 2, 4, 8]
    with pytest.raises(ValueError, match="equal blocks"):
        dequantize_blocks(weight, torch.zeros(4, 1, dtype=torch.uint8))
    with pytest.raises(ValueError, match="two axes"):
        dequantize_blocks(weight, torch.zeros(4, dtype=torch.uint8))
