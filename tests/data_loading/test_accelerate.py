"""accelerate shards the data of `with_rows` if it prepares the loader; the reverse order is refused."""

import copy
import pickle

import numpy as np
import pytest
from engram_fast.data import EngramCollator, with_rows
from engram_fast.data.loader import RowsLoader

torch = pytest.importorskip("torch", reason="torch is missing")
accelerate = pytest.importorskip("accelerate", reason="accelerate is missing")
from torch.utils.data import DataLoader  # noqa: E402

IDS = torch.arange(48).reshape(8, 6)


def loader(**options):
    return DataLoader([{"input_ids": row} for row in IDS], batch_size=2, **options)


def seen(batches, hasher):
    """The first id of every row, its rows checked."""
    firsts = []
    for batch in batches:
        want = hasher.hash_batch(batch["input_ids"].numpy(), layer_axis=1)
        assert np.array_equal(batch["engram_rows"], want)
        firsts += batch["input_ids"][:, 0].tolist()
    return firsts


def shard(base, rank, count=2):
    """What `Accelerator.prepare` makes of a loader on one of several processes."""
    prepared = accelerate.data_loader.prepare_data_loader(base, num_processes=count, process_index=rank)
    assert isinstance(prepared, DataLoader)
    return prepared


def test_h10_rows_added_to_a_prepared_loader_are_sharded(demo):
    both = [seen(with_rows(shard(loader(), rank), demo), demo) for rank in (0, 1)]
    assert both == [[0, 6, 24, 30], [12, 18, 36, 42]]


def test_h10_a_collator_in_a_prepared_loader_is_sharded(demo):
    both = [seen(shard(loader(collate_fn=EngramCollator(demo)), rank), demo) for rank in (0, 1)]
    assert both == [[0, 6, 24, 30], [12, 18, 36, 42]]


@pytest.fixture
def accelerator():
    made = accelerate.Accelerator(cpu=True)
    yield made
    made.free_memory()


@pytest.mark.parametrize("ahead", [0, 1])
def test_h10_the_reverse_order_is_refused_with_the_right_one(demo, accelerator, ahead):
    rows = with_rows(loader(), demo, ahead=ahead)
    right = r"with_rows\(accelerator\.prepare\(loader\), hasher\)"
    with pytest.raises(ValueError, match=right):
        accelerator.prepare(rows)
    model = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match=right):
        accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1), rows)
    with pytest.raises(ValueError, match=right):
        accelerator.prepare_data_loader(rows)
    assert seen(rows, demo) == IDS[:, 0].tolist()


def test_h10_a_loader_with_rows_over_a_prepared_one_passes_prepare(demo, accelerator):
    rows = with_rows(accelerator.prepare(loader()), demo)
    assert accelerator.prepare(rows) is rows
    assert seen(rows, demo) == IDS[:, 0].tolist()


def test_the_last_batch_is_the_last_for_accelerate_too(demo, accelerator):
    """Its metrics and optimizers ask while the batch is used: so none is read ahead."""
    rows = with_rows(accelerator.prepare(loader()), demo)
    assert [accelerator.gradient_state.end_of_dataloader for _ in rows] == [False, False, False, True]


def test_a_loader_of_another_kind_is_none_of_torch(demo):
    rows = with_rows([{"input_ids": IDS}], demo)
    assert not isinstance(rows, DataLoader)
    assert isinstance(rows, RowsLoader)
    assert isinstance(with_rows(loader(), demo), DataLoader)
    assert isinstance(with_rows(loader(), demo), RowsLoader)
    for again in (copy.copy(with_rows(loader(), demo)), pickle.loads(pickle.dumps(with_rows(loader(), demo)))):
        assert type(again) is RowsLoader
        assert seen(again, demo) == IDS[:, 0].tolist()
