"""Ray Data: the same rows as in one process, computed by Ray's workers.

python examples/ray_data.py
"""

import numpy as np
import pyarrow as pa
import ray
from engram_fast.data import AddRows
from manual import make_hasher, read_texts, train_tokenizer


def main() -> None:
    texts = read_texts()
    tokenizer = train_tokenizer(texts)
    hasher = make_hasher(tokenizer)
    documents = [encoding.ids for encoding in tokenizer.encode_batch(sorted(texts, key=len)[:40])]
    table = pa.table({"id": range(len(documents)), "input_ids": pa.array(documents, pa.list_(pa.int32()))})
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        dataset = ray.data.from_arrow(table).map_batches(AddRows(hasher), batch_format="pyarrow", batch_size=16)
        results = sorted(dataset.take_all(), key=lambda result: result["id"])
    finally:
        ray.shutdown()
    for result, document in zip(results, documents, strict=True):
        want = hasher.hash_batch([document], layer_axis=-2)[0]
        rows = np.array([[list(columns) for columns in layers] for layers in result["engram_rows"]])
        assert np.array_equal(rows, want)
    print(f"{len(results)} examples equal the single process")


if __name__ == "__main__":
    main()
