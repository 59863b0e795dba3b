"""Hugging Face's Trainer drops columns that its model does not take: documents stay apart, or an error says so."""

import numpy as np
import pytest
from engram_fast.data import EngramCollator, TokenDataset

torch = pytest.importorskip("torch", reason="torch is missing")
transformers = pytest.importorskip("transformers", reason="transformers is missing")
pytest.importorskip("accelerate", reason="accelerate is missing")


class Model(torch.nn.Module):
    """Keeps what it is given."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(()))
        self.seen = []

    def forward(self, input_ids, position_ids=None, engram_rows=None, labels=None):
        self.seen.append((input_ids, position_ids, engram_rows))
        return {"loss": self.weight * 1.0}


class WithoutPositions(Model):
    def forward(self, input_ids, engram_rows=None, labels=None):
        return super().forward(input_ids, None, engram_rows)


def train(folder, model, dataset, collator, **options):
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        max_steps=1,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        **options,
    )
    transformers.Trainer(model=model, args=arguments, train_dataset=dataset, data_collator=collator).train()
    return model.seen[0]


def make_tokens(folder):
    ids = np.random.default_rng(3).integers(1, 1000, 64).astype(np.uint16)
    ids[[4, 9, 17, 40, 41]] = 0
    ids.tofile(folder / "tokens.bin")
    return TokenDataset(folder / "tokens.bin", dtype="uint16", seq_len=16, eod_id=0)


def check(hasher, dataset, seen):
    by_ids = {tuple(item["input_ids"].tolist()): item["segment_ids"].numpy() for item in dataset}
    for ids, rows in zip(seen[0].numpy(), seen[2].numpy(), strict=True):
        segments = by_ids[tuple(ids.tolist())]
        assert np.array_equal(rows, hasher.hash_batch(ids[None], segment_ids=segments[None], layer_axis=1)[0])


@pytest.fixture(params=["TokenDataset", "datasets"])
def source(request, tmp_path):
    dataset = make_tokens(tmp_path)
    if request.param == "TokenDataset":
        return dataset, dataset
    datasets = pytest.importorskip("datasets", reason="datasets is missing")
    items = {key: [item[key].tolist() for item in dataset] for key in dataset[0]}
    return dataset, datasets.Dataset.from_dict(items)


def test_h2_position_ids_reach_the_collator(demo, tmp_path, source):
    dataset, given = source
    seen = train(tmp_path, Model(), given, EngramCollator(demo, boundaries="required"))
    check(demo, dataset, seen)
    assert seen[1] is not None


def test_h2_a_model_without_positions_and_required_boundaries(demo, tmp_path, source):
    with pytest.raises(ValueError, match=r"boundaries='required'.*remove_unused_columns=False"):
        train(tmp_path, WithoutPositions(), source[1], EngramCollator(demo, boundaries="required"))


def test_h2_columns_that_are_kept(demo, tmp_path, source):
    dataset, given = source

    class Any(Model):
        def forward(self, input_ids, engram_rows=None, labels=None, **others):
            return super().forward(input_ids, None, engram_rows)

    seen = train(tmp_path, Any(), given, EngramCollator(demo, boundaries="required"), remove_unused_columns=False)
    check(demo, dataset, seen)


def test_h2_position_ids_of_a_window_count_from_0_in_each_document(tmp_path):
    dataset = make_tokens(tmp_path)
    for item in dataset:
        segments, want = item["segment_ids"].tolist(), []
        for at, segment in enumerate(segments):
            want.append(want[-1] + 1 if at and segments[at - 1] == segment else 0)
        assert item["position_ids"].tolist() == want
        assert item["position_ids"].dtype == torch.int64
