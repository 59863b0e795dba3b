"""A token file through a torch DataLoader, with the rows hashed in the workers or in the consuming process.

python examples/dataloader.py [--workers 2] [--method spawn]
"""

import argparse
import itertools
import tempfile
from pathlib import Path

import numpy as np
from engram_fast.data import EngramCollator, TokenDataset, batch_bytes, with_rows
from manual import END, VOCABULARY, make_hasher, read_texts, train_tokenizer
from torch.utils.data import DataLoader


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--method", default="spawn")
    arguments = parser.parse_args()
    texts = read_texts()
    tokenizer = train_tokenizer(texts)
    hasher = make_hasher(tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokens.bin"
        ids = [[*encoding.ids, END] for encoding in tokenizer.encode_batch(texts)]
        np.concatenate(ids).astype(np.uint16).tofile(path)
        dataset = TokenDataset(path, dtype="uint16", seq_len=512, eod_id=END, vocab_size=VOCABULARY)
        method = arguments.method if arguments.workers else None
        options = {"batch_size": 8, "num_workers": arguments.workers, "multiprocessing_context": method}

        in_workers = DataLoader(dataset, collate_fn=EngramCollator(hasher), **options)
        in_this_process = with_rows(DataLoader(dataset, **options), hasher)
        for one, other in zip(in_workers, in_this_process, strict=True):
            assert (one["engram_rows"] == other["engram_rows"]).all()
            # Each window equals its documents hashed one by one.
            ids, segments = one["input_ids"][0].numpy(), one["segment_ids"][0].numpy()
            bounds = np.concatenate([[0], np.flatnonzero(np.diff(segments)) + 1, [len(ids)]])
            alone = [hasher.hash_batch(ids[None, a:b])[:, 0] for a, b in itertools.pairwise(bounds)]
            assert np.array_equal(one["engram_rows"][0], np.concatenate(alone, axis=1))
        print(f"{len(dataset)} windows, rows {list(one['engram_rows'].shape)} {one['engram_rows'].dtype}")
        print(f"{batch_bytes(8, 512, hasher):,} bytes of rows per batch")


if __name__ == "__main__":
    main()
