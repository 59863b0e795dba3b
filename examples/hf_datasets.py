"""Hugging Face datasets: rows as a mapped column, or on the fly with a transform; and text straight to rows.

python examples/hf_datasets.py
"""

import numpy as np
from dataloader import make_hasher
from datasets import Dataset
from engram_fast.data import AddRows, hash_texts
from tokenizers import Tokenizer, models, pre_tokenizers


def main() -> None:
    hasher = make_hasher()
    documents = [list(range(3, 3 + length)) for length in (5, 1, 8, 3)] * 10
    dataset = Dataset.from_dict({"input_ids": documents})

    mapped = dataset.map(AddRows(hasher), batched=True, num_proc=2)
    on_the_fly = dataset.with_transform(AddRows(hasher))
    for index in (0, 7, 39):
        want = hasher.hash_batch(np.array([documents[index]]), layer_axis=-2)[0]
        assert np.array_equal(np.array(mapped[index]["engram_rows"]), want)
        assert np.array_equal(on_the_fly[index : index + 1]["engram_rows"][0], want)
    print(f"{len(mapped)} examples, columns {mapped.column_names}; rows of one: {list(want.shape)}")

    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "the": 1, "cat": 2, "sat": 3}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    hashed = hash_texts(["the cat sat", "the dog", ""], tokenizer, hasher)
    ids, rows = hashed[1]
    assert ids.tolist() == [1, 0]
    assert np.array_equal(rows, hasher.hash_batch(np.array([[1, 0]]), layer_axis=-2)[0])
    print(f"{len(hashed)} texts, {len(hashed.ids)} tokens, rows {list(hashed.rows.shape)}")


if __name__ == "__main__":
    main()
