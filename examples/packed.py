"""Packed and padded batches: every document has the rows that it has alone, whoever packs it.

python examples/packed.py
"""

import numpy as np
from engram_fast.data import EngramCollator
from manual import make_hasher, read_texts, train_tokenizer


def main() -> None:
    texts = read_texts()
    tokenizer = train_tokenizer(texts)
    hasher = make_hasher(tokenizer)
    documents = [encoding.ids for encoding in tokenizer.encode_batch(sorted(texts, key=len)[:6])]
    examples = [{"input_ids": document} for document in documents]
    alone = [hasher.hash_batch([document], layer_axis=1)[0] for document in documents]

    padded = EngramCollator(hasher)(examples)
    for rows, mask, want in zip(padded["engram_rows"], padded["attention_mask"].bool(), alone, strict=True):
        assert np.array_equal(rows[:, mask], want)
    print(f"padded: {list(padded['engram_rows'].shape)}")

    try:
        from transformers import DataCollatorWithFlattening
    except ImportError:
        print("packed: transformers is missing")
        return
    for options in ({}, {"return_flash_attn_kwargs": True}, {"return_seq_idx": True, "return_position_ids": False}):
        packed = EngramCollator(hasher, DataCollatorWithFlattening(**options))(examples)
        assert np.array_equal(packed["engram_rows"][0], np.concatenate(alone, axis=1))
        print(f"packed: {list(packed['engram_rows'].shape)}, boundaries from {sorted(set(packed) - {'engram_rows'})}")


if __name__ == "__main__":
    main()
