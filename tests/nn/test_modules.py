"""What the modules take and refuse; meta device, casts, copies; rows of the batch on their own; streaming."""

from __future__ import annotations

import copy
import io
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra `torch`)")
from engram_fast.nn import Engram, EngramGate, EngramV41, MultiHeadEmbedding  # noqa: E402
from torch import nn  # noqa: E402


def test_each_head_has_its_own_range() -> None:
    module = MultiHeadEmbedding([97, 101], dim=2)
    assert module(torch.tensor([[[96, 100]]], dtype=torch.int32)).shape == (1, 1, 2, 2)
    for bad in ([97, 0], [0, 101], [-1, 0], [0, 2**40]):
        with pytest.raises(IndexError, match=str(bad[0] or bad[1])):
            module(torch.tensor([[[0, 0]], [bad]]))
    whole = MultiHeadEmbedding([97, 101], dim=2, rows_have_offsets=True)
    whole.load_state_dict(module.state_dict())
    assert torch.equal(whole(torch.tensor([[5, 97]])), module(torch.tensor([[5, 0]])))
    with pytest.raises(IndexError, match=r"row 96 .* head 1 .* \[97, 198\)"):
        whole(torch.tensor([[5, 96]]))


def test_row_types_and_shapes() -> None:
    module = MultiHeadEmbedding([97, 101], dim=2)
    for bad in (torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.bool), torch.zeros(1, 2, dtype=torch.int16)):
        with pytest.raises(TypeError, match="int32 or int64"):
            module(bad)
    with pytest.raises(TypeError, match="None"):
        module(None)
    with pytest.raises(ValueError, match="2 heads"):
        module(torch.zeros(1, 3, dtype=torch.int64))
    with pytest.raises(ValueError, match="at least one row"):
        MultiHeadEmbedding([3, 0], dim=2)
    rows = np.array([[[96, 100]]])
    assert torch.equal(module(rows), module(torch.from_numpy(rows)))


def test_integer_buffers_survive_casts_the_meta_device_and_loading(engram, rows) -> None:
    module, hidden, ids = engram(), torch.randn(2, 5, 2, 16), rows(2, 5)
    want, state = module(hidden, ids), module.state_dict()
    for cast in (torch.float16, torch.bfloat16, torch.float64):
        assert copy.deepcopy(module).to(cast).multi_head_embedding.offsets.dtype == torch.int64
    empty = engram(device="meta").to_empty(device="cpu")
    assert torch.equal(empty.multi_head_embedding.offsets, module.multi_head_embedding.offsets)
    empty.load_state_dict(state)
    assert torch.equal(empty(hidden, ids), want)
    assigned = engram(device="meta")
    assigned.load_state_dict(state, assign=True)
    assert torch.equal(assigned(hidden, ids), want)
    fresh = engram(device="meta").to_empty(device="cpu")
    fresh.reset_parameters()
    assert torch.isfinite(fresh(hidden, ids)).all()
    assert engram(device="meta")(hidden.to("meta"), ids.to("meta")).shape == hidden.shape


def test_v41_on_the_meta_device_and_loading() -> None:
    options = {"hidden_size": 8, "hc_mult": 2, "num_embeddings": 30, "head_dim": 4, "n_heads": 2, "max_ngram_size": 3}
    module, hidden, ids = EngramV41(**options), torch.randn(1, 3, 2, 8), torch.randint(0, 30, (1, 3, 4))
    want = module(hidden, ids)
    assigned = EngramV41(**options, device="meta")
    assigned.load_state_dict(module.state_dict(), assign=True)
    empty = EngramV41(**options, device="meta").to_empty(device="cpu")
    empty.load_state_dict(module.state_dict())
    assert torch.equal(assigned(hidden, ids), want)
    assert torch.equal(empty(hidden, ids), want)
    empty.reset_parameters()
    assert torch.isfinite(empty(hidden, ids)).all()


def test_a_table_of_another_layout_is_refused(engram) -> None:
    state = engram(sizes=[13, 11, 17, 19]).state_dict()
    with pytest.raises(RuntimeError, match="another layout"):
        engram().load_state_dict(state)


def test_v41_checks_heads_against_their_own_part() -> None:
    options = {"hidden_size": 8, "hc_mult": 2, "num_embeddings": 30, "head_dim": 4, "n_heads": 1, "max_ngram_size": 3}
    hidden = torch.randn(1, 1, 2, 8)
    EngramV41(**options)(hidden, torch.tensor([[[29, 0]]]))
    split = EngramV41(**options, sizes=[10, 20])
    split(hidden, torch.tensor([[[9, 10]]]))
    for module, bad in ((EngramV41(**options), [0, 30]), (split, [10, 10]), (split, [0, 9]), (split, [-1, 10])):
        with pytest.raises(IndexError, match="head"):
            module(hidden, torch.tensor([[bad]]))
    with pytest.raises(ValueError, match="do not fit"):
        EngramV41(**options, sizes=[10, 21])


def test_masked_positions_add_nothing_read_nothing_and_leak_nothing(engram, rows) -> None:
    module, hidden, ids = engram(), torch.randn(1, 12, 2, 16), rows(1, 12)
    mask = torch.ones(1, 12, dtype=torch.bool)
    mask[:, 4:6] = False
    out = module(hidden, ids, mask=mask)
    assert out[:, 4:6].abs().max() == 0
    wild, other = hidden.clone(), ids.clone()
    wild[:, 4:6], other[:, 4:6] = float("nan"), 0
    assert torch.equal(module(wild, other, mask=mask), out)
    wild.requires_grad_()
    module(wild, other, mask=mask).sum().backward()
    assert torch.isfinite(wild.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in module.parameters())


@pytest.mark.parametrize("fused", [True, False])
def test_what_comes_back_at_masked_positions_goes_nowhere(engram, rows, fused) -> None:
    """A NaN behind a masked position, as attention over nothing but padding gives it, reaches no parameter."""
    module, hidden, ids = engram(fused=fused), torch.randn(1, 12, 2, 16, requires_grad=True), rows(1, 12)
    mask = torch.arange(12)[None] != 4
    out = module(hidden, ids, mask=mask)
    upstream = torch.ones_like(out).masked_fill(~mask[..., None, None], float("nan"))
    out.backward(upstream)
    assert torch.isfinite(hidden.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in module.parameters())


def test_masks_are_bool_or_integers_of_the_tokens_shape(engram, rows) -> None:
    v41 = EngramV41(hidden_size=16, hc_mult=2, num_embeddings=11, head_dim=4, n_heads=2, max_ngram_size=3)
    gate, hidden, ids = EngramGate(hidden_size=16, hc_mult=2), torch.randn(2, 3, 2, 16), rows(2, 3)
    module = engram()
    for call in (
        lambda mask: module(hidden, ids, mask=mask),
        lambda mask: v41(hidden, ids % 11, mask),
        lambda mask: gate(hidden, hidden, mask=mask),
        lambda mask: gate(hidden, hidden, hidden[:, :, 0], mask=mask),
        lambda mask: module.short_conv(hidden, mask=mask),
    ):
        mask = torch.tensor([[True, True, False], [False, True, True]])
        assert torch.equal(call(mask), call(mask.long()))
        for shape in ((1, 3), (2, 2), (2, 4), (3,)):
            with pytest.raises(ValueError, match="mask has shape"):
                call(torch.ones(shape, dtype=torch.bool))
        with pytest.raises(TypeError, match="float32"):
            call(mask.float())


def test_documents_in_one_row_equal_documents_on_their_own(engram, rows, near) -> None:
    module, hidden, ids = engram(), torch.randn(1, 30, 2, 16), rows(1, 30)
    alone = torch.cat([module(hidden[:, a:b], ids[:, a:b]) for a, b in ((0, 5), (5, 30))], 1)
    for where in (
        {"cu_seqlens": torch.tensor([0, 5, 30])},
        {"segment_ids": torch.tensor([[7] * 5 + [3] * 25])},
    ):
        near(module(hidden, ids, **where).detach(), alone.detach(), 1e-5)


def test_rows_of_a_batch_do_not_depend_on_their_neighbours(engram, rows, near) -> None:
    module, hidden, ids = engram(), torch.randn(3, 20, 2, 16), rows(3, 20)
    for length in (1, 7, 20):
        padded = torch.zeros(3, 20, dtype=torch.bool)
        padded[0, :length], padded[1:] = True, True
        alone = module(hidden[:1, :length], ids[:1, :length])
        near(module(hidden, ids, mask=padded)[:1, :length].detach(), alone.detach(), 1e-5)


@torch.no_grad()
def test_chunked_forward_with_the_state_equals_the_whole(engram, rows, near) -> None:
    module, hidden, ids = engram(), torch.randn(2, 23, 2, 16), rows(2, 23)
    where = {"segment_ids": torch.randint(0, 3, (2, 23)).sort(1).values, "mask": torch.rand(2, 23) > 0.2}
    for given in ({}, where):
        state, parts = module.new_state(2), []
        for start, stop in ((0, 1), (1, 2), (2, 2), (2, 13), (13, 23)):
            piece = {name: value[:, start:stop] for name, value in given.items()}
            parts.append(module(hidden[:, start:stop], ids[:, start:stop], state=state, **piece))
        near(torch.cat(parts, 1), module(hidden, ids, **given), 1e-5)


def test_calls_leave_nothing_behind(engram, rows) -> None:
    module, hidden = engram(), torch.randn(2, 3, 2, 16)
    first = module(hidden, rows(2, 3, seed=1))
    before = {name: id(value) for name, value in vars(module).items()}
    module(hidden, rows(2, 3, seed=2))
    assert torch.equal(module(hidden, rows(2, 3, seed=1)), first)
    assert {name: id(value) for name, value in vars(module).items()} == before


def test_shapes_that_do_not_fit_are_value_errors(engram, rows) -> None:
    module = engram()
    with pytest.raises(ValueError, match="hidden_states has shape"):
        module(torch.randn(2, 3, 16), rows(2, 3))
    with pytest.raises(ValueError, match="differ"):
        module(torch.randn(2, 4, 2, 16), rows(2, 3))
    gate = EngramGate(hidden_size=16, hc_mult=2)
    with pytest.raises(ValueError, match="must both be"):
        gate(torch.randn(2, 3, 2, 16), torch.randn(2, 3, 1, 16))


def test_from_config_follows_configuration_and_layout(rows) -> None:
    engram_config = SimpleNamespace(max_ngram_size=3, n_embed_per_ngram=16, n_head_per_ngram=2, kernel_size=4)
    backbone = SimpleNamespace(hidden_size=16, hc_mult=2)
    layout = SimpleNamespace(layer_ids=(1, 15), moduli={1: np.array([11, 13, 17, 19])}, adds_offsets=False)
    module = Engram.from_config(engram_config, backbone, layer_id=1, layout=layout, zero_init_conv=True)
    assert (module.short_conv.dilation, module.multi_head_embedding.dim, module.layer_id) == (3, 8, 1)
    assert module.short_conv.conv.weight.abs().max() == 0
    assert module(torch.randn(1, 4, 2, 16), {1: rows(1, 4)}).shape == (1, 4, 2, 16)
    with pytest.raises(ValueError, match=r"\[1, 15\]"):
        Engram.from_config(engram_config, backbone, layer_id=2, layout=layout)
    config = {
        "text_config": {
            "engram_layer_ids": [1, 14],
            "engram_num_embeddings": [30, 40],
            "engram_max_ngram_size": 3,
            "engram_n_heads": 2,
            "engram_head_dim": 4,
            "hidden_size": 8,
            "hc_mult": 2,
        }
    }
    v41 = EngramV41.from_config(config, layer_id=14)
    assert (v41.num_embeddings, v41.heads, v41.eps) == (40, 4, 1e-20)
    with pytest.raises(ValueError, match="no engram_n_heads"):
        EngramV41.from_config({k: v for k, v in config["text_config"].items() if "heads" not in k}, layer_id=14)


def test_projections_have_storages_of_their_own_through_casts_copies_and_loads(engram, rows, near) -> None:
    module, hidden, ids = engram(), torch.randn(1, 3, 2, 16), rows(1, 3)
    want = module(hidden, ids)
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    copies = [copy.deepcopy(module), pickle.loads(pickle.dumps(module)), torch.load(file, weights_only=False)]
    copies += [copy.deepcopy(module).double().float()]
    for other in copies:
        parameters = [linear.weight for linear in (*other.key_projs, other.value_proj)]
        assert len({parameter.untyped_storage().data_ptr() for parameter in parameters}) == len(parameters)
        near(other(hidden, ids).detach(), want.detach(), 1e-6)
    loose = copy.deepcopy(module)
    for linear in (*loose.key_projs, loose.value_proj):
        linear.weight = nn.Parameter(linear.weight.detach().clone())
    near(loose(hidden, ids).detach(), want.detach(), 1e-6)
    functional = torch.func.functional_call(module, dict(module.named_parameters()), (hidden, ids))
    near(functional.detach(), want.detach(), 1e-6)


def test_state_goes_through_safetensors(engram, tmp_path) -> None:
    safetensors = pytest.importorskip("safetensors.torch", reason="needs safetensors")
    module = engram()
    safetensors.save_file(module.state_dict(), tmp_path / "m.safetensors")
    loaded = safetensors.load_file(tmp_path / "m.safetensors")
    other = engram(seed=5)
    other.load_state_dict(loaded)
    assert all(torch.equal(value, loaded[name]) for name, value in other.state_dict().items())


def test_partial_state_reports_what_is_missing(engram) -> None:
    missing, unexpected = engram().load_state_dict({}, strict=False)
    assert "key_projs.1.weight" in missing
    assert not unexpected
