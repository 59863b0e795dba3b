"""Faults that users' cases and mutants found in the modules, each named by its line."""

from __future__ import annotations

import copy
import subprocess
import sys
from types import SimpleNamespace

import engram_fast as ef
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra `torch`)")

from engram_fast.nn import Engram, EngramGate, EngramV41, RowHasher, ShortConv, split_layers  # noqa: E402
from engram_fast.nn.gate import formula  # noqa: E402
from hashing import demo_hasher  # noqa: E402

V41 = {"hidden_size": 16, "hc_mult": 2, "num_embeddings": 40, "head_dim": 4, "n_heads": 2, "max_ngram_size": 3}


def hasher_with(rows: int, columns: int, adds_offsets: bool) -> ef.NgramHasher:
    """A layout of raw ids with `columns` columns of `rows` rows each."""
    moduli = [rows] * columns
    layer = {
        "layer_id": 0,
        "multipliers": [3, 5],
        "moduli": moduli,
        "offsets": [rows * column for column in range(columns)],
        "rows": rows * columns,
    }
    parameters = {"name": "test", "parameters": {}, "orders": [2], "heads": columns, "max_order": 2}
    rules = {"columns": "order-major", "mix": "xor", "word_bits": 64, "align": "newest", "fill": 0, "boundary_ids": []}
    ids = {"ids": {"limit": None, "negative": "enter", "too_large": "enter"}, "token_map": None}
    document = {"format": "engram-fast-layout", "version": 1, **parameters, **rules, **ids}
    document |= {"adds_offsets": adds_offsets, "layers": [layer]}
    import json

    return ef.NgramHasher(ef.HashLayout.from_json(json.dumps(document)))


@pytest.mark.parametrize(
    ("rows", "columns", "adds_offsets"),
    [(200_000_003, 16, False), (200_000_003, 16, True), (2**31, 1, False), (2**31 - 1, 1, False), (2**31 + 11, 1, True),
     (2**31 + 11, 1, False), (2**32 - 5, 1, False), (2**30, 2, True), (2**30 + 1, 2, True), (2**30 + 1, 2, False)],
)  # fmt: skip
@pytest.mark.parametrize("add_offsets", [None, True, False])
def test_h6_and_l_row_hasher_has_the_dtype_of_hash_batch(rows, columns, adds_offsets, add_offsets) -> None:
    hasher = hasher_with(rows, columns, adds_offsets)
    ids = np.array([[5, 7, 9]])
    want = hasher.hash_batch(ids, add_offsets=add_offsets)
    got = RowHasher(hasher, add_offsets=add_offsets)(torch.from_numpy(ids))[0]
    largest = rows * columns if (adds_offsets if add_offsets is None else add_offsets) else rows
    assert want.dtype == (np.int32 if largest - 1 <= 2**31 - 1 else np.int64)
    assert got.numpy().dtype == want.dtype
    assert np.array_equal(got.numpy(), want[0])


@pytest.mark.parametrize("fused", [True, False])
def test_h13_the_flag_for_zero_holds_with_a_value(fused) -> None:
    hidden, value = torch.zeros(1, 1, 1, 4), torch.ones(1, 1, 4)
    for positive, gate in ((False, 0.5), (True, float(torch.sigmoid(torch.tensor(1e-3))))):
        module = EngramGate(4, 1, zero_is_positive=positive, fused=fused)
        assert torch.allclose(module(hidden, torch.ones_like(hidden), value), torch.tensor(gate), rtol=0, atol=1e-7)
        assert torch.allclose(module(hidden, torch.ones_like(hidden)), torch.tensor(gate), rtol=0, atol=1e-7)
    assert (
        EngramGate(4, 1, zero_is_positive=False)(torch.zeros(1, 1, 4), torch.ones(1, 1, 4), torch.ones(1, 4))
        .eq(0.5)
        .all()
    )


@pytest.mark.parametrize("with_output", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("kind", ["demo", "v41"])
def test_h14_a_penalty_on_the_gate_has_a_gradient(engram, rows, near, kind, masked, with_output) -> None:
    if kind == "demo":
        module, ids = engram(hc_mult=3).double(), rows(2, 40)
    else:
        module, ids = EngramV41(**V41 | {"hc_mult": 3}).double(), torch.randint(0, 40, (2, 40, 4))
    hidden = torch.randn(2, 40, 3, 16, dtype=torch.float64)
    mask = torch.rand(2, 40) > 0.3 if masked else None
    grads = {}
    for fused in (True, False):
        module.fused = fused
        module.zero_grad()
        given = hidden.clone().requires_grad_()
        out, gate = module(given, ids, mask=mask, return_gate=True)
        loss = gate.square().sum() + (out.square().sum() if with_output else 0)
        loss.backward()
        grads[fused] = {"hidden": given.grad, **{n: p.grad for n, p in module.named_parameters() if p.grad is not None}}
    assert grads[False]["hidden"].abs().max() > 0
    for name, want in grads[False].items():
        near(grads[True][name], want, 1e-10, what=name)


def test_h14_a_nan_behind_a_masked_gate_goes_nowhere(engram, rows) -> None:
    mask = torch.arange(12)[None] != 4
    v41 = EngramV41(**V41)
    for module, ids in ((engram(), rows(1, 12)), (v41, torch.randint(0, 40, (1, 12, 4)))):
        hidden = torch.randn(1, 12, 2, 16, requires_grad=True)
        _, gate = module(hidden, ids, mask=mask, return_gate=True)
        gate.backward(torch.ones_like(gate).masked_fill(~mask[..., None], float("nan")))
        assert torch.isfinite(hidden.grad).all()


def test_j_a_v41_table_may_have_more_rows_than_its_primes() -> None:
    layout = SimpleNamespace(moduli={1: np.array([101, 103, 107, 109]), 2: np.array([113, 127, 131, 137])})
    config = {
        "engram_layer_ids": [1, 2],
        "engram_num_embeddings": [700, 700],
        "engram_max_ngram_size": 3,
        "engram_n_heads": 2,
        "engram_head_dim": 4,
        "hidden_size": 16,
        "hc_mult": 2,
    }
    module = EngramV41.from_config(config, layer_id=2, layout=layout)
    assert module.embed.weight.shape == (700, 4)
    last = module.head_starts + module.head_sizes - 1
    assert last.tolist() == [112, 239, 370, 507]
    module(torch.randn(1, 1, 2, 16), last[None, None])
    with pytest.raises(IndexError, match="row 508"):
        module(torch.randn(1, 1, 2, 16), (last + torch.tensor([0, 0, 0, 1]))[None, None])


def test_j_lists_of_numbers_may_be_tensors() -> None:
    hasher = demo_hasher()
    ids = torch.randint(0, 500, (2, 5))
    want = RowHasher(hasher)(ids)
    module = RowHasher(hasher, layers=torch.tensor([15]))
    assert list(module(ids)) == [15]
    assert list(RowHasher(hasher)(ids, layers=torch.tensor([15, 1]))) == [15, 1]
    assert list(split_layers(torch.stack(list(want.values()), 1), torch.tensor([1, 15]))) == [1, 15]
    sizes = torch.tensor([11, 13, 17, 19])
    assert Engram(hidden_size=8, hc_mult=1, sizes=sizes, head_dim=2).multi_head_embedding.sizes == (11, 13, 17, 19)
    assert EngramV41(**V41, sizes=torch.tensor([5, 7, 12, 16])).sizes == (5, 7, 12, 16)


@pytest.mark.parametrize("real", [True, False])
def test_j_boundaries_may_have_an_axis_of_length_one_beside_the_ids(real) -> None:
    hasher = demo_hasher()
    if real:
        token_map = ef.TokenMap.identity(500)
        sizes = {"engram_vocab_size": [97, 103], "n_head_per_ngram": 2, "pad_id": 7}
        hasher = ef.NgramHasher(ef.HashLayout.preset("engram-demo-v1", token_map=token_map, **sizes), token_map)
    module = RowHasher(hasher)
    ids, ends = torch.randint(0, 500, (9,)), torch.tensor([0, 4, 9])
    mask, segments = torch.rand(9) > 0.2, torch.tensor([0, 0, 1, 1, 1, 2, 2, 2, 2])
    for cut in ({}, {"cu_seqlens": ends}):
        want = module(ids, mask=mask, segment_ids=segments, **cut)
        for some_ids in (ids, ids[None]):
            for some_mask in (mask, mask[None]):
                for some_segments in (segments, segments[None]):
                    got = module(some_ids, mask=some_mask, segment_ids=some_segments, **cut)
                    for layer, rows in got.items():
                        assert rows.shape[:-1] == some_ids.shape
                        assert torch.equal(rows.reshape(9, -1), want[layer])
    for wrong in (mask[:, None], mask[None, :8], mask[:1], mask[None].expand(2, 9)):
        with pytest.raises(ValueError, match="mask has shape"):
            module(ids[None], mask=wrong)
        with pytest.raises(ValueError, match="segment_ids has shape"):
            module(ids[None], segment_ids=wrong.long())
    with pytest.raises(ValueError, match="got a batch of 2 rows"):
        module(ids[None].expand(2, 9), cu_seqlens=ends)
    with pytest.raises(ValueError, match="mask has shape"):
        module(ids[:, None], mask=mask[None])  # nine sequences of one token are not one of nine


def test_j_layers_take_boundaries_with_an_axis_of_length_one(engram, rows) -> None:
    hidden, ids = torch.randn(1, 9, 2, 16), rows(1, 9)
    mask, segments = torch.rand(9) > 0.2, torch.tensor([0, 0, 1, 1, 1, 2, 2, 2, 2])
    v41 = EngramV41(**V41)
    for module in (engram(), v41):
        want = module(hidden, ids % 11, mask=mask[None], segment_ids=segments[None])
        assert torch.equal(module(hidden, ids % 11, mask=mask, segment_ids=segments), want)
    conv = ShortConv(16, 2)
    assert torch.equal(conv(hidden, segment_ids=segments), conv(hidden, segment_ids=segments[None]))
    with torch.no_grad():
        state = conv.new_state(1)
        parts = [conv.step(hidden[:, cut], state, segment_ids=segments[cut]) for cut in (slice(0, 4), slice(4, 9))]
        torch.testing.assert_close(torch.cat(parts, 1), conv(hidden, segment_ids=segments))


@pytest.mark.parametrize("fused", [True, False])
def test_j_hidden_states_without_branches_where_there_is_one(engram, rows, fused) -> None:
    hidden, ids = torch.randn(2, 5, 16, requires_grad=True), rows(2, 5)
    for module in (engram(hc_mult=1, fused=fused), EngramV41(**V41 | {"hc_mult": 1}, fused=fused)):
        out, gate = module(hidden, ids % 11, return_gate=True)
        want, want_gate = module(hidden[:, :, None], ids % 11, return_gate=True)
        assert out.shape == hidden.shape
        assert torch.equal(out, want[:, :, 0])
        assert torch.equal(gate, want_gate)
        out.sum().backward()
    conv = ShortConv(16, 1)
    assert torch.equal(conv(hidden), conv(hidden[:, :, None])[:, :, 0])
    with torch.no_grad():
        module = engram(hc_mult=1)
        streamed = module(hidden, ids, state=module.new_state(2))
        torch.testing.assert_close(streamed, module(hidden[:, :, None], ids)[:, :, 0])
    for module in (engram(hc_mult=1), engram(hc_mult=2)):
        with pytest.raises(ValueError, match="hidden_states has shape"):
            module(torch.randn(2, 5, 17), ids)
    with pytest.raises(ValueError, match=r"\[B, T, 1, 16\] or \[B, T, 16\]"):
        engram(hc_mult=1)(torch.randn(5, 16), ids)


def test_k_token_ids_in_the_place_of_rows_are_named(engram) -> None:
    hidden = torch.randn(2, 5, 2, 16)
    for length in (5, 4):  # also where the tokens are as many as the heads
        ids = torch.randint(0, 11, (2, length))
        for module in (engram(), EngramV41(**V41)):
            with pytest.raises(ValueError, match="input_ids= to a module built with hasher= and layer_id="):
                module(hidden[:, :length], ids)
    hasher = demo_hasher()
    for options in ({}, {"layer_id": 1}, {"hasher": hasher}):
        with pytest.raises(ValueError, match="input_ids= needs a module built with hasher= and layer_id="):
            engram(**options)(hidden, input_ids=torch.zeros(2, 5, dtype=torch.int64))


def test_k_import_without_torch_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\ntry: import engram_fast.nn\nexcept ImportError as e: print(e.name, e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert (
        done.stdout.strip()
        == "torch engram_fast.nn needs torch: run pip install 'engram-fast[torch]' (the extra torch)"
    )


@pytest.mark.parametrize("fused", [True, False])
def test_l_the_floor_of_the_gate_is_one_millionth(fused) -> None:
    """Scores below, at and above the floor: the signed root is 0.001 below it, and the root above."""
    assert formula.GATE_FLOOR == 1e-6
    gate = EngramGate(1, 1, eps=0.0, fused=fused).double()
    for score in (1e-7, 9e-7, 2e-6, 9e-6, 1e-5, 2e-5):
        with torch.no_grad():
            gate.q_weight.fill_(score)  # both norms of one channel are 1, so the score is the gain
        hidden = torch.ones(1, 1, 1, dtype=torch.float64, requires_grad=True)
        got = gate(hidden, torch.ones(1, 1, 1, dtype=torch.float64))
        root = torch.tensor(max(score, 1e-6), dtype=torch.float64).sqrt()
        assert torch.allclose(got, torch.sigmoid(root), rtol=0, atol=1e-12)
        gate.zero_grad()
        got.sum().backward()
        slope = 0 if score < 1e-6 else float(torch.sigmoid(root) * (1 - torch.sigmoid(root)) / (2 * root))
        assert float(gate.q_weight.grad) == pytest.approx(slope, abs=1e-9)


def test_neighbours_copies_share_nothing(engram, rows) -> None:
    """A deep copy computes its own buffers, and both give the same."""
    module, hidden, ids = engram(), torch.randn(1, 3, 2, 16), rows(1, 3)
    other = copy.deepcopy(module)
    assert torch.equal(other(hidden, ids), module(hidden, ids))
    one, two = module.multi_head_embedding.offsets, other.multi_head_embedding.offsets
    assert one.data_ptr() != two.data_ptr()
