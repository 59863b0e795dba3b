"""The operator engram_fast::hash_rows and RowHasher: the oracle's rows, one node of a graph, one pass for a model."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra `torch`)")

from engram_fast.nn import RowHasher, split_layers  # noqa: E402
from engram_fast.nn.hash import formula, op  # noqa: E402
from hashing import OracleHasher, demo_hasher, hashers  # noqa: E402

HASHERS = hashers()


def where_of(kind: str, shape: tuple[int, int]) -> tuple[tuple[int, ...], dict]:
    """Shape of the ids and the arguments of one way to cut them."""
    generator = np.random.default_rng(3)
    if kind == "flat":
        ends = np.array([0, 0, 3, 4, 4, shape[0] * shape[1]])
        return (shape[0] * shape[1],), {"cu_seqlens": ends}
    where = {}
    if "mask" in kind:
        where["mask"] = generator.random(shape) > 0.3
    if "segments" in kind:
        where["segment_ids"] = np.sort(generator.integers(-1, 4, shape), 1)
    return shape, where


def as_tensors(where: dict) -> dict:
    return {name: torch.from_numpy(value) for name, value in where.items()}


@pytest.mark.parametrize("kind", ["plain", "mask", "segments", "mask and segments", "flat"])
@pytest.mark.parametrize("name", HASHERS)
def test_torch_implementation_is_the_oracle(name, kind) -> None:
    hasher = HASHERS[name]
    shape, where = where_of(kind, (3, 17))
    ids = np.random.default_rng(5).integers(0, 256, shape)
    module = RowHasher(hasher)
    want = hasher.hash_batch(ids, **where)
    tensors = as_tensors(where)
    flat = ids.ndim == 1
    rows = formula.hash_rows(
        torch.from_numpy(ids).reshape(-1, ids.shape[-1]),
        module.lookup,
        module.multipliers,
        module.moduli,
        module.offsets if module.add_offsets else None,
        module.rules,
        **tensors,
    )
    assert torch.equal(rows[:, 0] if flat else rows, torch.from_numpy(want))


@pytest.mark.parametrize("kind", ["plain", "mask and segments", "flat"])
@pytest.mark.parametrize("name", ["demo", "polynomial"])
def test_module_gives_every_layer_and_the_dtype_that_fits(name, kind) -> None:
    hasher = HASHERS[name]
    shape, where = where_of(kind, (2, 9))
    ids = np.random.default_rng(6).integers(0, 256, shape)
    rows = RowHasher(hasher)(torch.from_numpy(ids), **as_tensors(where))
    want = hasher.hash_batch(ids, **where)
    assert list(rows) == [layer["layer_id"] for layer in hasher.numbers["layers"]]
    for got, expected in zip(rows.values(), want, strict=True):
        assert got.dtype == torch.int32
        assert torch.equal(got, torch.from_numpy(expected).to(torch.int32))
    assert all(r.dtype == torch.int64 for r in RowHasher(hasher, int32=False)(torch.from_numpy(ids)).values())


def test_ids_outside_the_range_are_index_errors_unless_masked() -> None:
    hasher = demo_hasher(ids={"limit": 500, "negative": "error", "too_large": "error"})
    module = RowHasher(hasher)
    for bad in (-1, 500, 2**62):
        ids = torch.tensor([[5, 7, bad]])
        mask = torch.tensor([[True, True, False]])
        arguments = (module.lookup, module.multipliers, module.moduli, None, module.rules)
        with pytest.raises(IndexError, match=f"{bad} at row 0, column 2"):
            formula.hash_rows(ids, *arguments)
        with pytest.raises(IndexError):
            module(ids)
        formula.hash_rows(ids, *arguments, mask=mask)
        module(ids, mask=mask)


def test_wrong_arguments_say_what_is_wrong() -> None:
    module = RowHasher(demo_hasher())
    with pytest.raises(TypeError, match="float32"):
        module(torch.zeros(1, 3))
    with pytest.raises(ValueError, match="mask has shape"):
        op.check_where(torch.zeros(1, 3, dtype=torch.int64), torch.ones(1, 4), None, None)
    with pytest.raises(ValueError, match=r"layers \[2\]"):
        RowHasher(demo_hasher(), layers=[2])
    with pytest.raises(ValueError, match="engram_rows has shape"):
        split_layers(torch.zeros(2, 3, 5, 4), [1, 15])


def test_operator_passes_torchs_own_checks() -> None:
    module = RowHasher(demo_hasher())
    ids = torch.randint(0, 500, (2, 9))
    arguments = (ids, module.lookup, module.multipliers, module.moduli, module.offsets)
    for mask, layers, int32 in ((None, [1, 15], True), (torch.ones(2, 9, dtype=torch.bool), [15], False)):
        torch.library.opcheck(
            torch.ops.engram_fast.hash_rows.default,
            (*arguments, mask, None, None, module.layout_json, layers, False, int32),
            test_utils=("test_schema", "test_faketensor"),
        )


def test_shapes_follow_from_the_configuration_alone() -> None:
    """On the meta device nothing is computed, and the shape is that of the result."""
    for layers in ((3,), (1, 15), (0, 7, 30)):
        hasher = demo_hasher(layers=layers)
        module = RowHasher(hasher)
        for length in (1, 13):
            ids = torch.zeros(1, length, dtype=torch.int64)
            dry = RowHasher(hasher).to("meta")(ids.to("meta"))
            assert {layer: rows.shape for layer, rows in dry.items()} == {
                layer: rows.shape for layer, rows in module(ids).items()
            }
            assert module(ids)[layers[0]].shape == (1, length, 4)


def test_buffers_survive_meta_casts_and_copies() -> None:
    import copy

    hasher = demo_hasher()
    ids = torch.randint(0, 500, (2, 5))
    module = RowHasher(hasher)
    want = module(ids)
    assert not module.state_dict()
    empty = RowHasher(hasher).to("meta").to_empty(device="cpu")
    with torch.device("meta"):
        built = RowHasher(hasher)
    emptied = RowHasher(hasher).to_empty(device="cpu")
    for other in (
        empty,
        built,
        emptied,
        RowHasher(hasher).half(),
        RowHasher(hasher).to(torch.float64),
        copy.copy(module),
    ):
        assert other.moduli.dtype == torch.int64
        assert all(torch.equal(rows, want[layer]) for layer, rows in other(ids).items())


def test_a_process_that_never_saw_the_hasher_builds_it_from_the_arguments(monkeypatch) -> None:
    built = []
    monkeypatch.setattr(op, "_rebuild", lambda layout, lookup: built.append(lookup) or demo_hasher())
    monkeypatch.setattr(op, "_HASHERS", {})
    module = RowHasher(demo_hasher())
    op._HASHERS.clear()
    module(torch.tensor([[5, 7]]))
    assert torch.equal(built[0], module.lookup)


def test_hashers_of_many_layouts_are_not_kept_for_ever(monkeypatch) -> None:
    monkeypatch.setattr(op, "_HASHERS", {})
    for number in range(op._KEPT + 3):
        op.remember(str(number), number)
    op.remember("5", 5)
    op.remember("new", 0)
    assert len(op._HASHERS) == op._KEPT
    assert {"5", "new"} <= op._HASHERS.keys()
    assert not {"0", "1", "2", "3"} & op._HASHERS.keys()


def test_one_pass_serves_all_layers(engram) -> None:
    hasher = demo_hasher()
    row_hasher = RowHasher(hasher)
    moduli = {layer["layer_id"]: layer["moduli"] for layer in hasher.numbers["layers"]}
    layers = [engram(layer_id=layer, sizes=moduli[layer], hasher=row_hasher) for layer in moduli]
    ids = torch.randint(0, 500, (2, 6))
    hidden = torch.randn(2, 6, 2, 16)
    before = hasher.calls
    rows = row_hasher(ids)
    shared = [layer(hidden, rows) for layer in layers]
    assert hasher.calls == before + 1
    alone = [layer(hidden, input_ids=ids) for layer in layers]
    stacked = torch.stack(list(rows.values()), 1)  # as the collator gives them
    split = [layer(hidden, split_layers(stacked, list(moduli))) for layer in layers]
    for a, b, c in zip(shared, alone, split, strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)


def test_input_ids_without_a_hasher_and_rows_of_other_layers_are_refused(engram) -> None:
    module, hidden = engram(layer_id=3), torch.randn(1, 2, 2, 16)
    with pytest.raises(ValueError, match="hasher"):
        module(hidden, input_ids=torch.zeros(1, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"layers \[1, 15\]"):
        module(hidden, {1: torch.zeros(1, 2, 4, dtype=torch.int64), 15: None})
    with pytest.raises(TypeError, match="rows is None"):
        module(hidden, None)


def real_hasher():
    """The same small layout through the compiled core, or the reason why not."""
    ef = pytest.importorskip("engram_fast", reason="needs the compiled core")
    if not hasattr(ef, "NgramHasher"):
        pytest.skip("needs engram_fast.NgramHasher (the compiled core)")
    lookup = demo_hasher().token_map.lookup
    token_map = ef.TokenMap.from_lookup(lookup)
    layout = ef.HashLayout.preset(
        "engram-demo-v1", token_map=token_map, engram_vocab_size=[97, 103], n_head_per_ngram=2, pad_id=7
    )
    return ef.NgramHasher(layout, token_map)


@pytest.mark.parametrize("kind", ["plain", "mask", "segments", "mask and segments", "flat"])
def test_core_and_torch_implementation_agree(kind) -> None:
    hasher = real_hasher()
    shape, where = where_of(kind, (4, 33))
    ids = torch.from_numpy(np.random.default_rng(8).integers(0, 500, shape))
    module = RowHasher(hasher)
    got = torch.stack(list(module(ids, **as_tensors(where)).values()))
    rows = formula.hash_rows(
        ids.reshape(-1, ids.shape[-1]),
        module.lookup,
        module.multipliers,
        module.moduli,
        None,
        module.rules,
        **as_tensors(where),
    )
    assert torch.equal(got.long(), rows[:, 0] if ids.ndim == 1 else rows)
    assert isinstance(HASHERS["demo"], OracleHasher)
    assert torch.equal(got, torch.stack(list(RowHasher(HASHERS["demo"])(ids, **as_tensors(where)).values())))


def test_core_is_rebuilt_where_it_was_never_seen(monkeypatch) -> None:
    module = RowHasher(real_hasher())
    ids = torch.randint(0, 500, (2, 7))
    want = module(ids)
    monkeypatch.setattr(op, "_HASHERS", {})
    assert all(torch.equal(rows, want[layer]) for layer, rows in module(ids).items())
