"""Every name that a packer writes divides a batch, in every pipeline; a name that looks like one is never passed by."""

from pathlib import Path

import numpy as np
import pytest
from engram_fast.data import AddRows, EngramCollator, grain_rows, map_batch, with_rows
from engram_fast.data.boundary_names import KINDS, NAMES, OF_WHOLE_BATCH, sort_names

torch = pytest.importorskip("torch", reason="torch is missing")
pa = pytest.importorskip("pyarrow", reason="pyarrow is missing")

DOCUMENTS = [[5, 7, 9], [2, 4]]
IDS = [5, 7, 9, 2, 4]
# The values of a row of both documents, as the writers of each kind make them.
VALUES = {
    "segment ids": [1, 1, 1, 2, 2],
    "position ids": [0, 1, 2, 0, 1],
    "lengths": [3, 2],
    "cumulative lengths": [0, 3, 5],
}
# Who writes what, and under which name the ids come.
WRITERS = [
    ("TRL pack_dataset", "input_ids", "seq_lengths", "lengths"),
    ("TRL collator", "input_ids", "position_ids", "position ids"),
    ("transformers", "input_ids", "cu_seq_lens_q", "cumulative lengths"),
    ("transformers", "input_ids", "seq_idx", "segment ids"),
    ("torchtune", "tokens", "input_pos", "position ids"),
    ("torchtune", "tokens", "seq_lens", "lengths"),
    ("torchtitan", "input", "positions", "position ids"),
    ("axlearn", "input_ids", "input_segment_ids", "segment ids"),
    ("axlearn", "input_ids", "input_positions", "position ids"),
    ("MaxText", "inputs", "inputs_segmentation", "segment ids"),
    ("MaxText", "inputs", "inputs_position", "position ids"),
    ("MaxText, renamed ids", "input_ids", "inputs_segmentation", "segment ids"),
    ("OLMo-core", "input_ids", "doc_lens", "lengths"),
    ("OLMo-core", "input_ids", "cu_doc_lens", "cumulative lengths"),
    ("NeMo", "input_ids", "seq_start_id", "cumulative lengths"),
    ("NeMo", "tokens", "cu_seqlens", "cumulative lengths"),
    ("Megatron", "tokens", "position_ids", "position ids"),
    ("Grain", "input_ids", "input_ids_segment_ids", "segment ids"),
    ("Grain", "text", "text_positions", "position ids"),
    ("T5X", "decoder_input_tokens", "decoder_segment_ids", "segment ids"),
    ("llm-foundry", "input_ids", "sequence_id", "segment ids"),
]
KEYS = [*WRITERS, *(("table", "input_ids", name, kind) for name, kind in NAMES.items() if kind != "mask")]
FIELDS = ("writer", "ids_key", "name", "kind")
EACH = pytest.mark.parametrize(FIELDS, KEYS, ids=str)
# Cumulative lengths are of a whole batch, and refused for single examples: see test_map_batch.
EACH_OF_EXAMPLES = pytest.mark.parametrize(FIELDS, [key for key in KEYS if key[2] not in OF_WHOLE_BATCH], ids=str)


def want(hasher):
    """Rows [L, T, C] of both documents, each hashed alone."""
    return np.concatenate([hasher.hash_batch(np.array([d]), layer_axis=1)[0] for d in DOCUMENTS], axis=1)


def value_of(name, kind):
    return [0, 3] if name == "seq_start_id" else VALUES[kind]


def test_the_rows_of_the_second_document(demo):
    assert want(demo)[0, 3].tolist() == [44, 95, 61, 36]
    assert demo.hash_batch(np.array([IDS]))[0, 0, 3].tolist() != [44, 95, 61, 36]


@EACH
def test_h1_a_batch_of_torch(demo, writer, ids_key, name, kind):
    value = torch.tensor(value_of(name, kind))
    for given in (value[None], *([value] if "lengths" in kind else [])):
        batch = {ids_key: torch.tensor([IDS]), name: given}
        rows = EngramCollator(demo, lambda _, b=batch: b, ids_key=ids_key)(None)["engram_rows"]
        assert np.array_equal(rows[0], want(demo))
        for ahead in (0, 1):
            (loaded,) = with_rows([batch], demo, ids_key=ids_key, ahead=ahead)
            assert np.array_equal(loaded["engram_rows"][0], want(demo))


@EACH
def test_h1_two_rows_of_numpy(demo, writer, ids_key, name, kind):
    """The second row has one document, and lengths are padded."""
    value = value_of(name, kind)
    one = {"segment ids": [7] * 5, "position ids": [0, 1, 2, 3, 4], "lengths": [5, 0]}.get(kind, [0, 5, -1])
    one = [0, 5] if name == "seq_start_id" else one
    batch = {ids_key: np.array([IDS, IDS]), name: np.array([value, one])}
    rows = EngramCollator(demo, lambda _: batch, ids_key=ids_key)(None)["engram_rows"]
    assert np.array_equal(rows[0], want(demo))
    assert np.array_equal(rows[1], demo.hash_batch(np.array([IDS]), layer_axis=1)[0])


@EACH
def test_h1_examples_and_the_default_base(demo, writer, ids_key, name, kind):
    examples = [{ids_key: IDS, name: value_of(name, kind)}, {ids_key: [8]}]
    examples[1][name] = {"segment ids": [1], "position ids": [0], "lengths": [1]}.get(kind, [0, 1])
    if name == "seq_start_id":
        examples[1][name] = [0]
    batch = EngramCollator(demo, ids_key=ids_key)(examples)
    assert np.array_equal(batch["engram_rows"][0], want(demo))
    assert np.array_equal(batch["engram_rows"][1, :, :1], demo.hash_batch(np.array([[8]]), layer_axis=1)[0])


@EACH_OF_EXAMPLES
def test_h1_columns(demo, writer, ids_key, name, kind):
    lists = {ids_key: [IDS, [8, 9]], name: [value_of(name, kind), None]}
    lists[name][1] = {"segment ids": [1, 1], "position ids": [0, 1], "lengths": [2]}.get(kind, [0])
    for batch in (lists, pa.table(lists), pa.table(lists).to_batches()[0]):
        rows = AddRows(demo, column=ids_key)(batch)
        rows = rows["engram_rows"] if isinstance(batch, dict) else rows.column("engram_rows").to_pylist()
        assert np.array_equal(np.array(rows[0]).swapaxes(0, 1), want(demo))
        assert np.array_equal(np.array(rows[1]), demo.hash_batch(np.array([[8, 9]]), layer_axis=-2)[0])


@EACH
def test_h1_grain_elements(demo, writer, ids_key, name, kind):
    pytest.importorskip("grain", reason="grain is missing")
    element = {ids_key: np.array(IDS), name: np.array(value_of(name, kind))}
    assert np.array_equal(grain_rows(demo, ids_key=ids_key).map(element)["engram_rows"], want(demo))


def test_h1_trl_pack_dataset(demo):
    pytest.importorskip("trl", reason="trl is missing")
    datasets = pytest.importorskip("datasets", reason="datasets is missing")
    from trl import pack_dataset

    packed = pack_dataset(datasets.Dataset.from_dict({"input_ids": DOCUMENTS}), 5)
    assert packed[0]["input_ids"] == IDS
    mapped = packed.map(AddRows(demo), batched=True)
    assert np.array_equal(np.array(mapped[0]["engram_rows"]).swapaxes(0, 1), want(demo))
    rows = EngramCollator(demo)(list(packed))["engram_rows"]
    assert np.array_equal(rows[0], want(demo))


def test_h1_grain_packer(demo):
    grain = pytest.importorskip("grain", reason="grain is missing")
    packer = grain.experimental.FirstFitPackIterDataset
    source = grain.MapDataset.source([{"tokens": np.array(d)} for d in DOCUMENTS]).to_iter_dataset()
    packed = packer(source, length_struct={"tokens": 5}, num_packing_bins=1)
    (element,) = list(packed.map(grain_rows(demo, ids_key="tokens")))
    assert np.array_equal(element["engram_rows"], want(demo))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mask"])
def test_h1_boundary_keys_adds_names(demo, kind):
    keys = {"mine": kind}
    value = VALUES[kind]
    batch = {"input_ids": torch.tensor([IDS]), "mine": torch.tensor([value])}
    rows = EngramCollator(demo, lambda _: batch, boundary_keys=keys)(None)["engram_rows"]
    assert np.array_equal(rows[0], want(demo))
    (loaded,) = with_rows([batch], demo, boundary_keys=keys)
    assert np.array_equal(loaded["engram_rows"][0], want(demo))
    examples = EngramCollator(demo, boundary_keys=keys)([{"input_ids": IDS, "mine": value}])
    assert np.array_equal(examples["engram_rows"][0], want(demo))
    for columns in ({"input_ids": [IDS], "mine": [value]}, pa.table({"input_ids": [IDS], "mine": [value]})):
        rows = AddRows(demo, boundary_keys=keys)(columns)
        rows = rows["engram_rows"] if isinstance(columns, dict) else rows.column("engram_rows").to_pylist()
        assert np.array_equal(np.array(rows[0]).swapaxes(0, 1), want(demo))
    pytest.importorskip("grain", reason="grain is missing")
    element = {"input_ids": np.array(IDS), "mine": np.array(value)}
    assert np.array_equal(grain_rows(demo, boundary_keys=keys).map(element)["engram_rows"], want(demo))


def test_h1_a_mask_by_another_name(demo):
    batch = {"input_ids": torch.tensor([[0, 2, 4]]), "padding": torch.tensor([[0, 1, 1]])}
    rows = EngramCollator(demo, lambda _: batch, boundary_keys={"padding": "mask"})(None)["engram_rows"]
    assert np.array_equal(rows[0, :, 1:], want(demo)[:, 3:])


def test_h1_given_names_come_before_known_ones(demo):
    batch = {"input_ids": torch.tensor([IDS]), "segment_ids": torch.zeros(1, 5).long(), "mine": torch.tensor([3, 2])}
    rows = EngramCollator(demo, lambda _: batch, boundary_keys={"mine": "lengths"})(None)["engram_rows"]
    assert np.array_equal(rows[0], want(demo))


UNKNOWN = [
    "docIds",
    "seq-lens-list",
    "example_ids",
    "doc_bounds",
    "pack_segments",
    "my_positions",
    "doc_starts",
    "seqlens",
    "cu_lens",
    "token_mask",
    "document_id",
]


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.parametrize("value", [[0, 0, 0, 1, 1], [3, 2]])
def test_h1_a_name_that_looks_like_a_boundary_is_refused(demo, name, value):
    message = rf"'{name}'.*boundary_keys=\{{'{name}'.*ignore=\('{name}',\)"
    batch = {"input_ids": torch.tensor([IDS]), name: torch.tensor([value])}
    lists = {"input_ids": [IDS], name: [value]}
    element = {"input_ids": np.array(IDS), name: np.array(value)}
    calls = [
        lambda **o: EngramCollator(demo, lambda _: batch, **o)(None),
        lambda **o: EngramCollator(demo, **o)([{"input_ids": IDS, name: value}]),
        lambda **o: list(with_rows([batch], demo, **o)),
        lambda **o: map_batch(lists, demo, **o),
        lambda **o: map_batch(pa.table(lists), demo, **o),
        lambda **o: map_batch({key: np.array(column) for key, column in lists.items()}, demo, **o),
        lambda **o: grain_rows(demo, **o).map(element),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()
        call(ignore=(name,))
        call(ignore=name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("labels", [[1] * 5]),
        ("loss_mask", [[1] * 5]),
        ("completion_mask", [[1] * 5]),
        ("assistant_masks", [[1] * 5]),
        ("special_tokens_mask", [[1] * 5]),
        ("token_type_ids", [[0] * 5]),
        ("doc_id", [17]),
        ("document", ["a name"]),
        ("length", [5]),
        ("max_doc_lens", [3]),
        ("max_length_q", 3),
        ("cu_seqlens_argmin", [[3]]),
        ("pixel_attention_mask", [[[1]]]),
        ("weights", [[0.5] * 5]),
        ("segments", None),
    ],
)
def test_h1_names_that_are_no_boundary_pass(demo, name, value):
    batch = {"input_ids": torch.tensor([IDS]), name: value}
    whole = demo.hash_batch(np.array([IDS]), layer_axis=1)
    assert np.array_equal(EngramCollator(demo, lambda _: batch)(None)["engram_rows"], whole)


def test_h1_names_of_other_features_pass_beside_those_of_the_ids(demo):
    """MaxText writes both; those of the targets say nothing about the inputs."""
    batch = {
        "inputs": torch.tensor([IDS]),
        "targets": torch.tensor([IDS]),
        "inputs_segmentation": torch.tensor([VALUES["segment ids"]]),
        "targets_segmentation": torch.tensor([[1, 1, 2, 2, 2]]),
        "targets_position": torch.tensor([[0, 1, 0, 1, 2]]),
    }
    rows = EngramCollator(demo, lambda _: batch, ids_key="inputs")(None)["engram_rows"]
    assert np.array_equal(rows[0], want(demo))
    del batch["inputs_segmentation"]
    with pytest.raises(ValueError, match=r"'targets_segmentation'.*boundary_keys=.*ignore="):
        EngramCollator(demo, lambda _: batch, ids_key="inputs")(None)


def test_h1_the_side_of_the_keys_alone_is_not_passed_by(demo):
    batch = {"input_ids": torch.tensor([IDS]), "cu_seq_lens_k": torch.tensor([0, 3, 5])}
    for mask in ({}, {"attention_mask": torch.ones(1, 5).long()}):
        with pytest.raises(ValueError, match="cu_seq_lens_k"):
            EngramCollator(demo, lambda _, m=mask: batch | m)(None)
    batch["cu_seq_lens_q"] = batch["cu_seq_lens_k"]
    assert np.array_equal(EngramCollator(demo, lambda _: batch)(None)["engram_rows"][0], want(demo))


def test_h1_a_square_mask_passes_only_beside_boundaries(demo):
    """torchtune's batches have one."""
    batch = {"tokens": torch.tensor([IDS]), "mask": torch.ones(1, 5, 5, dtype=torch.bool)}
    collate = EngramCollator(demo, lambda _: batch, ids_key="tokens")
    with pytest.raises(ValueError, match="'mask'"):
        collate(None)
    batch["input_pos"] = torch.tensor([VALUES["position ids"]])
    assert np.array_equal(collate(None)["engram_rows"][0], want(demo))


def test_h1_a_base_that_drops_the_boundaries_of_its_examples(demo):
    examples = [{"input_ids": IDS, "seq_lengths": [3, 2]}]
    base = lambda examples: {"input_ids": torch.tensor([example["input_ids"] for example in examples])}  # noqa: E731
    with pytest.raises(ValueError, match=r"'seq_lengths'.*base collate function.*ignore=\('seq_lengths',\)"):
        EngramCollator(demo, base)(examples)
    EngramCollator(demo, base, ignore=("seq_lengths",))(examples)


def test_h1_a_base_that_packs_and_does_not_say_where(demo):
    transformers = pytest.importorskip("transformers", reason="transformers is missing")
    collate = EngramCollator(demo, transformers.DataCollatorWithFlattening(return_position_ids=False))
    with pytest.raises(ValueError, match="packed 2 examples and its batch does not say where they end"):
        collate([{"input_ids": document} for document in DOCUMENTS])
    assert np.array_equal(collate([{"input_ids": DOCUMENTS[0]}])["engram_rows"][0], want(demo)[:, :3])
    dropped = EngramCollator(demo, lambda examples: {"input_ids": torch.tensor([examples[0]["input_ids"]])})
    dropped([{"input_ids": document} for document in DOCUMENTS])


@pytest.mark.parametrize("batch", [{}, {"attention_mask": torch.tensor([[1, 1, 1, 1, 0]])}, {"segment_ids": None}])
def test_h2_required_refuses_a_batch_without_boundaries(demo, batch):
    batch = {"input_ids": torch.tensor([IDS]), **batch}
    lists = {"input_ids": [IDS]}
    options = {"boundaries": "required"}
    calls = [
        lambda: EngramCollator(demo, lambda _: batch, **options)(None),
        lambda: list(with_rows([batch], demo, **options)),
        lambda: map_batch(lists, demo, **options),
        lambda: map_batch(pa.table(lists), demo, **options),
        lambda: grain_rows(demo, **options).map({"input_ids": np.array(IDS)}),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="boundaries='required'"):
            call()
    full = {**batch, "segment_ids": torch.tensor([VALUES["segment ids"]])}
    assert np.array_equal(
        EngramCollator(demo, lambda _: full, **options)(None)["engram_rows"][0, :, :4], want(demo)[:, :4]
    )


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"boundaries": "always"}, ValueError, "boundaries is 'always'; it may be 'auto' or 'required'"),
        (
            {"boundary_keys": {"x": "segments"}},
            ValueError,
            "of kind 'segments'; known kinds are segment ids, position ids",
        ),
        ({"boundary_keys": ["x"]}, TypeError, "boundary_keys is a list"),
        ({"boundary_keys": {"x": "mask"}, "ignore": ("x",)}, ValueError, "both name 'x'"),
    ],
)
def test_h1_options_that_are_wrong_are_refused_at_once(demo, options, error, message):
    for make in (EngramCollator, lambda hasher, **o: with_rows([], hasher, **o)):
        with pytest.raises(error, match=message):
            make(demo, **options)
    with pytest.raises(error, match=message):
        map_batch({"input_ids": [IDS]}, demo, **options)


def test_the_page_lists_every_name_and_kind():
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    rows = {row.split("|")[1].strip(): row for row in page.splitlines() if row.startswith("| `")}
    for name, kind in NAMES.items():
        assert f"`{name}`" in rows[f"`{kind}`"], name


def test_names_are_read_by_kind():
    names = [
        "attention_mask",
        "position_ids",
        "x_positions",
        "mine",
        "seq_idx",
        "cu_seqlens",
        "x_segment_ids",
        "seq_lens",
    ]
    found = sort_names(names, "x_ids", {"mine": "position ids"})
    order = ["mine", "x_segment_ids", "seq_idx", "cu_seqlens", "seq_lens", "x_positions", "position_ids"]
    assert [name for name, _ in found.ends] == order
    assert found.masks == ("attention_mask",)
    assert found.silent is False
    assert sort_names(["labels", 3], "x_ids", {}).silent


def test_sorting_names_with_a_prefix():
    names = ["prompt_input_ids", "prompt_attention_mask", "chosen_input_ids", "chosen_attention_mask", "labels"]
    found = sort_names(names, "chosen_input_ids", {})
    assert found.masks == ("chosen_attention_mask",)
    assert found.ends == ()
    assert found.side == ()
    assert found.unknown == ()
