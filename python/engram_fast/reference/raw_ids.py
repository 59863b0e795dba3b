"""Layouts of raw ids with a XOR of products: Qwen's and ONNX Runtime's."""

from __future__ import annotations

from collections.abc import Sequence

from .document import REFUSE, Layout, assemble, layer_numbers
from .generators import primes_above, splitmix_multipliers


def qwen_ple(
    *,
    vocab_size: int = 248320,
    seed: int = 1234,
    ngram_vocab_size_base: int = 20000000,
    ngram_size: int = 3,
    heads_per_ngram: int = 8,
    eos_token_id: int = 248044,
    ple_layer_index: int = 0,
    make_ngram_vocab_size_divisible_by: int = 128,
    layer_id: int = 2,
) -> Layout:
    """Return the layout of Qwen3.8-Flash-Next (`qwen4_exp`).

    Multipliers come from SplitMix64. The primes are consecutive, and a layer takes those at its place among the
    layers. EOS fills look-backs that do not exist, and ends a document; an EOS outside the vocabulary, which no token
    equals, only fills. The table's rows are rounded up.
    """
    columns = (ngram_size - 1) * heads_per_ngram
    primes = primes_above(ngram_vocab_size_base - 1)
    moduli = [next(primes) for _ in range((ple_layer_index + 1) * columns)][-columns:]
    layer = layer_numbers(layer_id, splitmix_multipliers(vocab_size, ngram_size, ple_layer_index, seed), moduli)
    layer["rows"] = -(-layer["rows"] // make_ngram_vocab_size_divisible_by) * make_ngram_vocab_size_divisible_by
    ids = {"limit": vocab_size, **REFUSE}
    orders = range(2, ngram_size + 1)
    ends = [eos_token_id] if 0 <= eos_token_id < vocab_size else []
    return assemble(orders, heads_per_ngram, [layer], ids, True, fill=eos_token_id, boundary_ids=ends)


def onnxruntime(
    *,
    multipliers: Sequence[int],
    vocab_sizes: Sequence[int],
    max_ngram_size: int,
    n_head_per_ngram: int,
    pad_id: int,
    head_offsets: Sequence[int] | None = None,
    eos_token_id: int | None = None,
    reset_on_eos: bool = False,
    int32: bool = False,
    layer_id: int = 0,
) -> Layout:
    """Return the layout of ONNX Runtime's `NGramHashMapping`, whose numbers are all parameters.

    Any id enters. The table ends with the column that reaches farthest.

    Raises:
        ValueError: `reset_on_eos` without `eos_token_id`.
    """
    if reset_on_eos and eos_token_id is None:
        raise ValueError("reset_on_eos: needs eos_token_id")
    moduli = [int(p) for p in vocab_sizes]
    offsets = None if head_offsets is None else [int(offset) for offset in head_offsets]
    layer = layer_numbers(layer_id, [int(m) for m in multipliers], moduli, offsets)
    fill = pad_id if eos_token_id is None else eos_token_id
    return assemble(
        range(2, max_ngram_size + 1),
        n_head_per_ngram,
        [layer],
        {"limit": None, "negative": "enter", "too_large": "enter"},
        head_offsets is not None,
        fill=int(fill),
        boundary_ids=[int(fill)] if reset_on_eos else [],
        word_bits=32 if int32 else 64,
    )
