"""DeepSeek's family: XOR of products, one prime for each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .document import REFUSE, Layout, assemble, compressed_pad, layer_numbers, need_lookup, token_map_id
from .generators import random_multipliers, unused_primes


def deepseek_family(
    lookup: np.ndarray | None,
    *,
    orders: Sequence[int],
    sizes: Sequence[int],
    heads: int,
    layers: Sequence[int],
    pad: tuple[str, int],
    seed: int,
    policy: dict[str, str],
    adds_offsets: bool = False,
    primes_in_order_of: Sequence[int] | None = None,
    word: type = np.int64,
    compressed_ids: int | None = None,
    **rest: Any,
) -> Layout:
    """Return a layout of this family.

    Args:
        lookup: the token map, int [n].
        orders: the n-gram orders, ascending.
        sizes: rows for each head, one number for each order.
        heads: columns for each order.
        layers: the layer ids, in the order of the result.
        pad: name and value of the parameter that holds the raw pad id.
        seed: seed of the multipliers.
        policy: for ids outside the token map, as the layout's "ids" holds it.
        adds_offsets: whether rows count through all columns.
        primes_in_order_of: the layer ids in the order in which they draw their primes; None: in that of `layers`.
        word: the integer type of products and multipliers.
        compressed_ids: the number of compressed ids, which bounds the multipliers; None: the largest id plus one.
        rest: other keys of the layout.

    Raises:
        ValueError: there is no token map, the pad is outside it, or the sizes, orders or layer ids are wrong.
    """
    lookup = need_lookup(lookup)
    if len(sizes) != len(orders):
        raise ValueError(f"{len(sizes)} table sizes for {len(orders)} n-gram orders {list(orders)}")
    if len(set(layers)) != len(layers) or not layers:
        raise ValueError(f"layer ids {list(layers)} are none or repeat")
    source = token_map_id(lookup)
    moduli = unused_primes(primes_in_order_of or layers, sizes, heads)
    vocabulary = source["size"] if compressed_ids is None else compressed_ids
    numbers = [
        layer_numbers(layer, random_multipliers(vocabulary, max(orders), layer, seed, word), moduli[layer])
        for layer in layers
    ]
    ids = {"limit": source["length"], **policy}
    rest |= {"fill": compressed_pad(*pad, lookup), "token_map": source, "word_bits": np.iinfo(word).bits}
    return assemble(orders, heads, numbers, ids, adds_offsets, **rest)


def engram_demo_v1(
    lookup: np.ndarray | None = None,
    *,
    engram_vocab_size: Sequence[int] = (646400, 646400),
    max_ngram_size: int = 3,
    n_head_per_ngram: int = 8,
    layer_ids: Sequence[int] = (1, 15),
    pad_id: int = 2,
    seed: int = 0,
    **differences: Any,
) -> Layout:
    """Return the layout of DeepSeek's Engram paper (arXiv 2601.07372) and its demo.

    Negative ids enter the products unmapped. `differences` go to `deepseek_family` in place of the demo's values.
    """
    return deepseek_family(
        lookup,
        orders=range(2, max_ngram_size + 1),
        sizes=engram_vocab_size,
        heads=n_head_per_ngram,
        layers=layer_ids,
        pad=("pad_id", pad_id),
        seed=seed,
        **{"policy": {"negative": "enter", "too_large": "error"}, **differences},
    )


def megatron(lookup: np.ndarray | None = None, **parameters: Any) -> Layout:
    """Return Megatron-LM's layout: the demo's numbers, ids outside the token map refused.

    Megatron counts the different compressed ids. If the token map has gaps, they are fewer than the largest id plus
    one, which bounds the multipliers of the other layouts.
    """
    different = len(np.unique(need_lookup(lookup)))
    return engram_demo_v1(lookup, **parameters, policy=REFUSE, compressed_ids=different)


def tilekernels(lookup: np.ndarray | None = None, **parameters: Any) -> Layout:
    """Return the layout of DeepSeek's TileKernels: the demo's numbers, rows with offsets."""
    return engram_demo_v1(lookup, **parameters, policy=REFUSE, adds_offsets=True)


def maxtext_int32(lookup: np.ndarray | None = None, **parameters: Any) -> Layout:
    """Return MaxText's layout: multipliers, products and mix in int32, so DeepSeek's checkpoints do not fit it."""
    return engram_demo_v1(lookup, **parameters, word=np.int32)


#: The rows that the released configuration of DeepSeek-V4.1-Flash states.
V41_ROWS = (384006168, 384016682)


def deepseek_v41(
    lookup: np.ndarray | None = None,
    *,
    engram_layer_ids: Sequence[int] = (1, 14),
    engram_num_embeddings: Sequence[int] | None = V41_ROWS,
    engram_max_ngram_size: int = 4,
    engram_vocab_size: int = 16000000,
    engram_n_heads: int = 8,
    engram_head_dim: int = 256,
    engram_pad_token_id: int = 2,
    engram_compressed_vocab_size: int = 99092,
) -> Layout:
    """Return the layout of DeepSeek-V4.1-Flash.

    `engram_num_embeddings` holds the rows of each layer's table: at least the sum of its primes, the rest is padding.
    None takes the sums. The default is the released model's, and has to equal them. `engram_head_dim` changes no
    number.

    Raises:
        ValueError: the compressed vocabulary differs from the parameter that names it, or a layer has too few rows.
    """
    lookup = need_lookup(lookup)
    orders = range(2, engram_max_ngram_size + 1)
    if (size := token_map_id(lookup)["size"]) != engram_compressed_vocab_size:
        raise ValueError(f"engram_compressed_vocab_size: {engram_compressed_vocab_size}, but the token map has {size}")
    layout = deepseek_family(
        lookup,
        orders=orders,
        sizes=[engram_vocab_size] * len(orders),
        heads=engram_n_heads,
        layers=engram_layer_ids,
        pad=("engram_pad_token_id", engram_pad_token_id),
        seed=0,
        policy=REFUSE,
        adds_offsets=True,
    )
    sums = [layer["rows"] for layer in layout["layers"]]
    if engram_num_embeddings is None:
        return layout
    stated = [int(rows) for rows in engram_num_embeddings]
    enough = len(stated) == len(sums) and all(rows >= need for rows, need in zip(stated, sums, strict=True))
    if not enough or (engram_num_embeddings is V41_ROWS and stated != sums):
        raise ValueError(f"engram_num_embeddings: {stated}, but the primes sum to {sums}")
    for layer, rows in zip(layout["layers"], stated, strict=True):
        layer["rows"] = rows
    return layout


def engram_peft(
    lookup: np.ndarray | None = None,
    *,
    engram_vocab_size_per_ngram: Sequence[int],
    ngram_sizes: Sequence[int],
    n_head_per_ngram: int = 8,
    layer_ids: Sequence[int] = (1, 14),
    pad_id: int = 2,
    seed: int = 0,
) -> Layout:
    """Return the layout of the package engram-peft.

    The heads of an order share its size, primes are drawn by ascending layer id, and the first multiplier belongs to
    the oldest token of the window. Any id enters.
    """
    return deepseek_family(
        lookup,
        orders=ngram_sizes,
        sizes=[total // n_head_per_ngram for total in engram_vocab_size_per_ngram],
        heads=n_head_per_ngram,
        layers=layer_ids,
        primes_in_order_of=sorted(layer_ids),
        pad=("pad_id", pad_id),
        seed=seed,
        policy={"negative": "enter", "too_large": "enter"},
        align="oldest",
    )
