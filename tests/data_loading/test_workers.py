"""Real DataLoaders: any worker count and start method gives what one process gives."""

import multiprocessing as mp
import os
import pickle
import threading

import numpy as np
import pytest
from conftest import small_hasher
from engram_fast.data import EngramCollator, TokenDataset, with_rows

torch = pytest.importorskip("torch", reason="torch is missing")
from torch.utils.data import DataLoader  # noqa: E402

METHODS = [m for m in ("fork", "spawn", "forkserver") if m in mp.get_all_start_methods()]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokens") / "t.bin"
    np.random.default_rng(1).integers(0, 1000, 4096).astype(np.uint16).tofile(path)
    return TokenDataset(path, dtype="uint16", seq_len=64, eod_id=7)


@pytest.fixture(scope="module")
def expected(dataset):
    hasher = small_hasher()
    items = list(dataset)
    ids = np.stack([item["input_ids"] for item in items])
    segments = np.stack([item["segment_ids"] for item in items])
    assert segments.max() > 0
    return hasher.hash_batch(ids, segment_ids=segments, layer_axis=1)


def warm(hasher):
    """Use the hasher's thread pool in this process."""
    hasher.hash_batch(np.zeros((64, 4096), np.int64), num_threads=2)


def rows_of(loader):
    return np.concatenate([batch["engram_rows"].numpy() for batch in loader])


@pytest.mark.filterwarnings("ignore:This DataLoader will create 3 worker")  # as it does where there are two cores
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_equal_one_process(hasher, dataset, expected, method, workers):
    warm(hasher)
    options = {"batch_size": 5, "num_workers": workers, "multiprocessing_context": method}
    loader = DataLoader(dataset, collate_fn=EngramCollator(hasher), persistent_workers=True, **options)
    for _ in range(2):
        assert np.array_equal(rows_of(loader), expected)
    del loader
    if workers == 1:
        assert np.array_equal(rows_of(with_rows(DataLoader(dataset, **options), hasher)), expected)


def test_without_workers(hasher, dataset, expected):
    assert np.array_equal(rows_of(DataLoader(dataset, batch_size=5, collate_fn=EngramCollator(hasher))), expected)
    for ahead in (0, 1):
        loader = with_rows(DataLoader(dataset, batch_size=5), hasher, ahead=ahead)
        for _ in range(2):
            assert np.array_equal(rows_of(loader), expected)


@pytest.mark.parametrize("options", [{}, {"per_layer": True}, {"layer_axis": -2}])
def test_rows_are_born_in_shared_memory(hasher, dataset, options):
    collator = EngramCollator(hasher, key="rows", **options)
    key = "rows_15" if options.get("per_layer") else "rows"

    def collate(examples):
        batch = collator(examples)
        batch["shared"] = torch.tensor([batch[key].is_shared()])
        return batch

    loader = DataLoader(dataset, batch_size=8, num_workers=1, collate_fn=collate, multiprocessing_context="fork")
    assert all(batch["shared"].all() for batch in loader)
    assert not collate([dataset[0]])["shared"].any()


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="/proc is missing: threads cannot be counted")
@pytest.mark.parametrize(("asked", "more"), [(None, False), (2, True)])
def test_one_thread_in_a_worker_unless_asked(hasher, asked, more):
    collator = EngramCollator(hasher, num_threads=asked)

    def collate(examples):
        before = len(os.listdir("/proc/self/task"))
        batch = collator(examples)
        return {"threads": torch.tensor([len(os.listdir("/proc/self/task")) - before]), **batch}

    examples = [{"input_ids": torch.zeros(4096, dtype=torch.int64)}] * 64
    loader = DataLoader(examples, batch_size=64, num_workers=1, collate_fn=collate, multiprocessing_context="fork")
    (batch,) = loader
    assert (batch["threads"].item() > 0) == more


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_bad_id_reaches_the_caller(hasher, tmp_path, method):
    ids = np.zeros(64, np.uint16)
    ids[37] = 1000
    ids.tofile(tmp_path / "t.bin")
    dataset = TokenDataset(tmp_path / "t.bin", dtype="uint16", seq_len=8)
    options = {"batch_size": 2, "num_workers": 1, "multiprocessing_context": method}
    with pytest.raises(IndexError, match="1000"):
        list(DataLoader(dataset, collate_fn=EngramCollator(hasher), **options))
    seen = []
    with pytest.raises(IndexError, match="1000"):
        seen.extend(with_rows(DataLoader(dataset, **options), hasher))
    assert len(seen) == 2  # the batches before the bad one came out


def test_a_child_of_fork_after_the_pool_was_used(hasher):
    ids = np.random.default_rng(0).integers(0, 1000, (64, 512))
    want = hasher.hash_batch(ids, num_threads=4)

    def child(queue):
        queue.put(np.array_equal(hasher.hash_batch(ids, num_threads=4), want))

    context = mp.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    try:
        assert queue.get(timeout=60)
    finally:
        process.join(10)
        process.kill()


def test_fork_while_other_threads_hash(hasher):
    ids = np.random.default_rng(0).integers(0, 1000, (16, 512))
    want = hasher.hash_batch(ids, num_threads=2)
    stop = threading.Event()
    wrong = []

    def work():
        while not stop.is_set():
            if not np.array_equal(hasher.hash_batch(ids, num_threads=2), want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                os._exit(0 if np.array_equal(hasher.hash_batch(ids, num_threads=2), want) else 1)
            assert _exit_code(pid, 60) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong


def _exit_code(pid, seconds):
    import signal
    import time

    for _ in range(seconds * 100):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hung"


def test_pickles_are_small(hasher, dataset):
    assert len(pickle.dumps(EngramCollator(hasher))) < 10_000
    assert len(pickle.dumps(dataset)) < 2_000
