"""A Megatron pair (.bin and .idx) as windows and as documents, with rows.

    python examples/megatron.py [prefix]

Without a prefix some topics of the manual are written first, in the published format.
"""

import struct
import sys
import tempfile
from pathlib import Path

import numpy as np
from engram_fast.data import EngramCollator, TokenDataset
from manual import VOCABULARY, make_hasher, read_texts, train_tokenizer
from torch.utils.data import DataLoader


def write_pair(prefix: Path, documents: list[np.ndarray]) -> None:
    """One sequence per document, ids as uint16 (dtype code 8)."""
    lengths = np.array([len(document) for document in documents], np.int32)
    pointers = np.concatenate([[0], np.cumsum(lengths[:-1], dtype=np.int64) * 2])
    np.concatenate(documents).astype(np.uint16).tofile(f"{prefix}.bin")
    with open(f"{prefix}.idx", "wb") as file:
        file.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1))
        file.write(lengths.tobytes() + pointers.tobytes() + np.arange(len(lengths) + 1, dtype=np.int64).tobytes())


def main() -> None:
    texts = read_texts()
    tokenizer = train_tokenizer(texts)
    hasher = make_hasher(tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) > 1:
            prefix = Path(sys.argv[1])
        else:
            prefix = Path(folder) / "corpus"
            shortest = sorted(texts, key=len)[:40]
            write_pair(prefix, [np.array(encoding.ids) for encoding in tokenizer.encode_batch(shortest)])
        windows = TokenDataset(prefix, seq_len=256, vocab_size=VOCABULARY)
        documents = TokenDataset(prefix, seq_len=None, vocab_size=VOCABULARY)
        collator = EngramCollator(hasher)
        (by_window,) = DataLoader(windows, batch_size=len(windows), collate_fn=collator)
        (by_document,) = DataLoader(documents, batch_size=len(documents), collate_fn=collator)
        print(f"{len(documents)} documents, {len(windows)} windows, {windows.tokens.dtype}")

        # The first document lies whole in the first window: its rows are those it has alone.
        first = len(documents[0]["input_ids"])
        assert (by_window["engram_rows"][0, :, :first] == by_document["engram_rows"][0, :, :first]).all()
        print(f"rows by window {list(by_window['engram_rows'].shape)}, padded {list(by_document['engram_rows'].shape)}")


if __name__ == "__main__":
    main()
