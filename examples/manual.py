"""What the examples share: real text, a tokenizer trained on it in a second, a small hasher. Needs no network.

The text is the manual that comes with CPython, `pydoc_data.topics`: half a million characters.
"""

import importlib

from engram_fast import HashLayout, NgramHasher, TokenMap
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 2048
END = 0  # the id of the end-of-document token


def read_texts() -> list[str]:
    """The topics, in the order of their names."""
    topics = importlib.import_module("pydoc_data.topics").topics
    return [topics[name] for name in sorted(topics)]


def train_tokenizer(texts: list[str]) -> Tokenizer:
    """A byte-level BPE, as most models have, of `VOCABULARY` tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|end|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def make_hasher(tokenizer: Tokenizer) -> NgramHasher:
    """Two layers, orders 2 and 3, small tables. That of a trained model comes from `NgramHasher.load(folder)`."""
    token_map = TokenMap.from_tokenizer(tokenizer)
    layout = HashLayout.preset("engram-demo-v1", token_map=token_map, engram_vocab_size=[9973, 9973], pad_id=END)
    return NgramHasher(layout, token_map)
