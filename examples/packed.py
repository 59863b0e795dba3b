"""Packed and padded batches: every document has the rows that it has alone, whoever packs it, also in HF's Trainer.

python examples/packed.py
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from engram_fast import NgramHasher
from engram_fast.data import EngramCollator, TokenDataset
from manual import END, make_hasher, read_texts, train_tokenizer


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

    # As TRL's pack_dataset packs them, and under a name that nobody knows.
    flat = [token for document in documents for token in document]
    for name, options in (("seq_lengths", {}), ("doc_sizes", {"boundary_keys": {"doc_sizes": "lengths"}})):
        packed = EngramCollator(hasher, boundaries="required", **options)(
            [{"input_ids": flat, name: [len(document) for document in documents]}]
        )
        assert np.array_equal(packed["engram_rows"][0], np.concatenate(alone, axis=1))
        print(f"packed: {list(packed['engram_rows'].shape)}, boundaries from {name}")

    try:
        from transformers import DataCollatorWithFlattening
    except ImportError:
        print("packed: transformers is missing")
        return
    for options in ({}, {"return_flash_attn_kwargs": True}, {"return_seq_idx": True, "return_position_ids": False}):
        packed = EngramCollator(hasher, DataCollatorWithFlattening(**options))(examples)
        assert np.array_equal(packed["engram_rows"][0], np.concatenate(alone, axis=1))
        print(f"packed: {list(packed['engram_rows'].shape)}, boundaries from {sorted(set(packed) - {'engram_rows'})}")
    with tempfile.TemporaryDirectory() as folder:
        train(Path(folder), hasher, documents)


class Model(torch.nn.Module):
    """Takes positions, so that the Trainer keeps them for the collate function."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(1000, 4)

    def forward(self, input_ids: torch.Tensor, position_ids: torch.Tensor, engram_rows: torch.Tensor) -> dict:
        starts = (position_ids == 0).sum().item()
        print(f"trained on {list(input_ids.shape)}, {starts} documents or parts of one, rows {list(engram_rows.shape)}")
        return {"loss": self.embedding(engram_rows % self.embedding.num_embeddings).mean()}


def train(folder: Path, hasher: NgramHasher, documents: list[list[int]]) -> None:
    """One step of the Trainer, which drops `segment_ids`; an error if it dropped every boundary."""
    from transformers import Trainer, TrainingArguments

    ids = [token for document in documents for token in (*document, END)]
    np.array(ids, np.uint16).tofile(folder / "tokens.bin")
    dataset = TokenDataset(folder / "tokens.bin", dtype="uint16", seq_len=128, eod_id=END)
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=1,
        per_device_train_batch_size=4,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    collator = EngramCollator(hasher, boundaries="required")
    Trainer(model=Model(), args=arguments, train_dataset=dataset, data_collator=collator).train()


if __name__ == "__main__":
    main()
