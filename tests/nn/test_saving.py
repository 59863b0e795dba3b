"""Weights survive every way of saving, and start values every way of building; named by the faults that were found."""

from __future__ import annotations

import copy
import io

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra `torch`)")

from engram_fast.nn import Engram, EngramGate, EngramV41, MultiHeadEmbedding, RowHasher, ShortConv  # noqa: E402
from hashing import demo_hasher  # noqa: E402
from torch import nn  # noqa: E402

V41 = {"hidden_size": 16, "hc_mult": 2, "num_embeddings": 40, "head_dim": 4, "n_heads": 2, "max_ngram_size": 3}
SIZES = [5, 7, 12, 16]


def modules(seed: int) -> nn.ModuleDict:
    """One module of each kind."""
    torch.manual_seed(seed)
    return nn.ModuleDict(
        {
            "demo": Engram(hidden_size=16, hc_mult=2, sizes=[11, 13, 17, 19], head_dim=4),
            "v41": EngramV41(**V41, sizes=SIZES),
            "fp8": EngramV41(**V41 | {"head_dim": 32}, fp8=True),
            "gate": EngramGate(16, 2),
            "table": MultiHeadEmbedding([3, 5], 4, sparse=True),
            "conv": ShortConv(16, 2),
        }
    )


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def assert_equal_states(got: nn.Module, want: nn.Module) -> None:
    got, want = got.state_dict(), want.state_dict()
    assert got.keys() == want.keys()
    for name, value in want.items():
        assert got[name].dtype == value.dtype, name
        assert torch.equal(bytes_of(got[name]), bytes_of(value)), name


def test_every_parameter_has_a_storage_of_its_own() -> None:
    for module in (modules(0), modules(0).bfloat16(), copy.deepcopy(modules(0)).double()):
        state = module.state_dict()
        assert len({value.untyped_storage().data_ptr() for value in state.values()}) == len(state)
        for name, value in state.items():
            assert value.untyped_storage().nbytes() == value.nbytes, name


def test_i1_safetensors_save_model_keeps_every_parameter(tmp_path) -> None:
    safetensors = pytest.importorskip("safetensors.torch", reason="needs safetensors")
    module, other = modules(1), modules(2)
    safetensors.save_model(module, tmp_path / "model.safetensors")
    assert safetensors.load_file(tmp_path / "model.safetensors").keys() == module.state_dict().keys()
    safetensors.load_model(other, tmp_path / "model.safetensors")
    assert_equal_states(other, module)


@pytest.mark.parametrize("safe", [True, False])
def test_i1_accelerate_save_model_and_save_state(tmp_path, safe) -> None:
    accelerate = pytest.importorskip("accelerate", reason="needs accelerate")
    safetensors = pytest.importorskip("safetensors.torch", reason="needs safetensors")
    accelerator = accelerate.Accelerator(cpu=True)
    module = accelerator.prepare_model(modules(1))
    want = copy.deepcopy(module)
    accelerator.save_model(module, tmp_path / "model", safe_serialization=safe)
    file = tmp_path / "model" / ("model.safetensors" if safe else "pytorch_model.bin")
    saved = safetensors.load_file(file) if safe else torch.load(file, weights_only=True)
    assert saved.keys() == want.state_dict().keys()
    accelerator.save_state(str(tmp_path / "state"), safe_serialization=safe)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1)
    accelerator.load_state(str(tmp_path / "state"))
    assert_equal_states(module, want)
    accelerate.utils.load_checkpoint_in_model(module, str(tmp_path / "model"))
    assert_equal_states(module, want)


def test_state_dict_and_torch_save() -> None:
    module = modules(1)
    for saved in (module.state_dict(), module):
        file = io.BytesIO()
        torch.save(saved, file)
        file.seek(0)
        loaded = torch.load(file, weights_only=saved is not module)
        if saved is not module:
            other = modules(2)
            other.load_state_dict(loaded)
            loaded = other
        assert_equal_states(loaded, module)


def test_a_state_that_is_read_in_place_does_not_reach_the_offsets() -> None:
    """Distributed checkpoints write into the tensors of a state before the module sees them."""
    module = MultiHeadEmbedding([3, 5], 4)
    state = module.state_dict()
    state["offsets"].fill_(7)
    assert module.offsets.tolist() == [0, 3]
    with pytest.raises(RuntimeError, match="another layout"):
        module.load_state_dict(state)


def hugging_face_model(hasher, **options):
    """A model of transformers with memories inside, as a user writes one; `options` are those of its Engram."""
    transformers = pytest.importorskip("transformers", reason="needs transformers (the extra `hf`)")

    class Config(transformers.PretrainedConfig):
        model_type = "engram-fast-test"

    class Model(transformers.PreTrainedModel):
        config_class = Config
        _no_split_modules = ("Engram",)

        def __init__(self, config) -> None:
            super().__init__(config)
            self.hash = RowHasher(hasher)
            self.words = nn.Embedding(500, 16)
            moduli = {layer["layer_id"]: layer["moduli"] for layer in hasher.numbers["layers"]}
            self.demo = Engram(hidden_size=16, hc_mult=2, sizes=moduli[1], head_dim=4, layer_id=1, **options)
            sizes = moduli[15]
            v41 = V41 | {"num_embeddings": sum(sizes) + 3}
            self.v41 = EngramV41(**v41, sizes=sizes, layer_id=15)
            self.starts = [sum(sizes[:head]) for head in range(len(sizes))]
            self.post_init()

        def forward(self, ids):
            rows = self.hash(ids)
            hidden = self.words(ids)[:, :, None].expand(-1, -1, 2, -1)
            hidden = hidden + self.demo(hidden, rows)
            return self.v41(hidden, rows[15] + torch.tensor(self.starts))

    return Model(Config()), Model


def computed(model) -> dict[str, torch.Tensor]:
    names = ("hash.lookup", "hash.multipliers", "hash.moduli", "hash.offsets", "v41.head_sizes", "v41.head_starts")
    names += ("demo.multi_head_embedding.offsets", "demo.multi_head_embedding.head_sizes")
    return {name: model.get_buffer(name) for name in names}


@pytest.mark.parametrize("device_map", [None, "cpu", {"": "cpu"}, "auto"])
def test_i2_from_pretrained_builds_on_meta_and_every_number_is_right(tmp_path, device_map) -> None:
    pytest.importorskip("accelerate", reason="needs accelerate")
    model, kind = hugging_face_model(demo_hasher())
    model.eval()
    ids = torch.randint(0, 500, (2, 9))
    want, numbers = model(ids), computed(model)
    model.save_pretrained(tmp_path)
    junk = [torch.full((4096,), 2**40) for _ in range(200)]  # what uninitialised memory will hold
    del junk
    options = {} if device_map is None else {"device_map": device_map}
    loaded, report = kind.from_pretrained(tmp_path, output_loading_info=True, **options)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    for name, value in computed(loaded).items():
        assert torch.equal(value, numbers[name]), name
    assert torch.equal(loaded(ids), want)
    assert_equal_states(loaded, model)


def test_i2_numbers_that_a_checkpoint_lacks_are_computed(tmp_path) -> None:
    safetensors = pytest.importorskip("safetensors.torch", reason="needs safetensors")
    model, kind = hugging_face_model(demo_hasher())
    model.save_pretrained(tmp_path)
    state = safetensors.load_file(tmp_path / "model.safetensors")
    del state["demo.multi_head_embedding.offsets"]
    safetensors.save_file(state, tmp_path / "model.safetensors", metadata={"format": "pt"})
    loaded = kind.from_pretrained(tmp_path)
    assert_equal_states(loaded, model)
    ids = torch.randint(0, 500, (2, 9))
    assert torch.equal(loaded.eval()(ids), model.eval()(ids))


def test_i2_buffers_that_others_replace_are_computed_again() -> None:
    hasher = demo_hasher()
    model, _ = hugging_face_model(hasher)
    ids = torch.randint(0, 500, (2, 9))
    want, numbers = model(ids), computed(model)
    for write in (
        lambda module, name, value: setattr(module, name, value),
        lambda module, name, value: module._buffers.__setitem__(name, value),
    ):
        broken = copy.deepcopy(model)
        for name, value in computed(broken).items():
            path, _, last = name.rpartition(".")
            write(broken.get_submodule(path), last, torch.full_like(value, 2**30))
        assert torch.equal(broken(ids), want)
        assert all(torch.equal(value, numbers[name]) for name, value in computed(broken).items())
        assert_equal_states(broken, model)
    assert torch.equal(copy.deepcopy(model).to("meta").to_empty(device="cpu").hash(ids)[1], model.hash(ids)[1])


@pytest.mark.parametrize("buffers", [True, False])
def test_i2_accelerate_builds_without_memory_and_dispatches(tmp_path, buffers) -> None:
    accelerate = pytest.importorskip("accelerate", reason="needs accelerate")
    safetensors = pytest.importorskip("safetensors.torch", reason="needs safetensors")
    torch.manual_seed(0)
    engram = Engram(hidden_size=16, hc_mult=2, sizes=SIZES, head_dim=4)
    safetensors.save_file(engram.state_dict(), tmp_path / "model.safetensors")
    with accelerate.init_empty_weights(include_buffers=buffers):
        empty = Engram(hidden_size=16, hc_mult=2, sizes=SIZES, head_dim=4)
        v41 = EngramV41(**V41)
    assert all(parameter.is_meta for parameter in (*empty.parameters(), *v41.parameters()))
    loaded = accelerate.load_checkpoint_and_dispatch(empty, str(tmp_path / "model.safetensors"), device_map={"": "cpu"})
    rows = torch.stack([torch.randint(0, size, (2, 3)) for size in SIZES], -1)
    hidden = torch.randn(2, 3, 2, 16)
    assert torch.equal(loaded(hidden, rows), engram(hidden, rows))


def test_i4_post_init_keeps_start_values(tmp_path) -> None:
    torch.manual_seed(0)
    model, kind = hugging_face_model(demo_hasher(), zero_init_conv=True, init_std=3.0)
    assert model.demo.short_conv.conv.weight.abs().max() == 0
    assert 2.5 < model.demo.multi_head_embedding.weight.std() < 3.5
    assert 0.9 < model.v41.embed.weight.std() < 1.1
    assert model.words.weight.std() < 0.1  # the model's own parts are the model's
    before = copy.deepcopy(model.state_dict())
    model.init_weights()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    model.save_pretrained(tmp_path)
    loaded = kind.from_pretrained(tmp_path)
    assert_equal_states(loaded, model)


def test_i4_every_module_keeps_what_reset_parameters_gives() -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers (the extra `hf`)")

    class Model(transformers.PreTrainedModel):
        config_class = transformers.PretrainedConfig

        def __init__(self, config) -> None:
            super().__init__(config)
            self.parts = modules(3)
            self.post_init()

    torch.manual_seed(3)
    assert_equal_states(Model(transformers.PretrainedConfig()).parts, modules(3))
    with torch.device("meta"):
        parts = modules(3)
    for part in parts.to_empty(device="cpu").values():
        part.reset_parameters()
    model = nn.Module()
    model.parts = parts
    assert all(getattr(parameter, "_is_hf_initialized", False) for parameter in parts.parameters())
