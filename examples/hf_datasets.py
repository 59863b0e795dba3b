"""Hugging Face datasets: rows as a mapped column, or on the fly with a transform; and text straight to rows.

python examples/hf_datasets.py
"""

import numpy as np
from datasets import Dataset
from engram_fast.data import AddRows, hash_texts
from manual import make_hasher, read_texts, train_tokenizer


def main() -> None:
    texts = read_texts()
    tokenizer = train_tokenizer(texts)
    hasher = make_hasher(tokenizer)
    documents = [encoding.ids for encoding in tokenizer.encode_batch(sorted(texts, key=len)[:40])]
    dataset = Dataset.from_dict({"input_ids": documents})

    mapped = dataset.map(AddRows(hasher), batched=True, num_proc=2)
    on_the_fly = dataset.with_transform(AddRows(hasher))
    for index in (0, 7, 39):
        want = hasher.hash_batch([documents[index]], layer_axis=-2)[0]
        assert np.array_equal(np.array(mapped[index]["engram_rows"]), want)
        assert np.array_equal(on_the_fly[index : index + 1]["engram_rows"][0], want)
    print(f"{len(mapped)} examples, columns {mapped.column_names}; rows of one: {list(want.shape)}")

    hashed = hash_texts(texts, tokenizer, hasher)
    ids, rows = hashed[1]
    assert ids.tolist() == tokenizer.encode(texts[1]).ids
    assert np.array_equal(rows, hasher.hash_batch([ids], layer_axis=-2)[0])
    print(f"{len(hashed)} texts, {len(hashed.ids)} tokens, rows {list(hashed.rows.shape)}")


if __name__ == "__main__":
    main()
