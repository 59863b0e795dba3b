"""The numbers of every published layout, worked out slowly and plainly: the oracle for `HashLayout.preset`.

`preset(name, lookup=..., **parameters)` returns what the layout JSON holds, without the keys "format", "version",
"name" and "parameters": plain Python integers, lists and dictionaries. Nothing here shares code with the core.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .generators import as_int64, primes_above, random_multipliers, splitmix_multipliers, unused_primes

BLT_PRIMES = (
    1000000007,
    5915587277,
    1500450271,
    3267000013,
    5754853343,
    4093082899,
    9576890767,
    3628273133,
    2860486313,
    5463458053,
    3367900313,
)
REFUSE = {"negative": "error", "too_large": "error"}

Layout = dict[str, Any]


# ---- the parts of a layout ----------------------------------------------------------------------------------------


def token_map_id(lookup: np.ndarray) -> dict[str, Any]:
    """Digest, length and compressed size of a token map; the digest is of length and entries as little-endian int32."""
    lookup = np.asarray(lookup)
    content = np.concatenate([[len(lookup)], lookup]).astype("<i4").tobytes()
    return {"digest": hashlib.sha256(content).hexdigest(), "length": len(lookup), "size": int(lookup.max()) + 1}


def layer_numbers(
    layer: int, multipliers: list[Any], moduli: list[int], offsets: list[int] | None = None
) -> dict[str, Any]:
    """One entry of "layers"; offsets are the sums of the moduli before each column unless they are given."""
    if offsets is None:
        offsets = [sum(moduli[:c]) for c in range(len(moduli))]
    rows = max(offset + modulus for offset, modulus in zip(offsets, moduli, strict=True))
    return {"layer_id": layer, "multipliers": multipliers, "moduli": moduli, "offsets": offsets, "rows": rows}


def assemble(
    orders: Sequence[int],
    heads: int,
    layers: list[dict[str, Any]],
    ids: dict[str, Any],
    adds_offsets: bool,
    **rest: Any,
) -> Layout:
    """The layout's dictionary; what is not given is what most layouts use."""
    if list(orders) != sorted(set(orders)):
        raise ValueError(f"n-gram orders {list(orders)} do not ascend")
    common = {"columns": "order-major", "mix": "xor", "word_bits": 64, "align": "newest", "fill": 0, "boundary_ids": []}
    return {
        "orders": list(orders),
        "heads": heads,
        "max_order": max(orders),
        **common,
        "ids": ids,
        "token_map": None,
        "adds_offsets": adds_offsets,
        "layers": layers,
        **rest,
    }


def compressed_pad(name: str, pad: int, lookup: np.ndarray) -> int:
    """The configured raw pad id, mapped through the token map exactly once."""
    if not 0 <= pad < len(lookup):
        raise ValueError(f"{name}: {pad} is outside the token map of {len(lookup)} ids")
    return int(lookup[pad])


def need_lookup(lookup: np.ndarray | None) -> np.ndarray:
    """The token map's lookup, which a layout of compressed ids cannot do without."""
    if lookup is None:
        raise ValueError("token_map: this layout hashes compressed ids and needs one")
    return np.asarray(lookup)


# ---- DeepSeek's family: XOR of products, a prime per column -------------------------------------------------------


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
    **rest: Any,
) -> Layout:
    """What the layouts of this family have in common; `sizes` are rows per head, one for each order."""
    lookup = need_lookup(lookup)
    if len(sizes) != len(orders):
        raise ValueError(f"{len(sizes)} table sizes for {len(orders)} n-gram orders {list(orders)}")
    if len(set(layers)) != len(layers) or not layers:
        raise ValueError(f"layer ids {list(layers)} are none or repeat")
    source = token_map_id(lookup)
    moduli = unused_primes(primes_in_order_of or layers, sizes, heads)
    numbers = [
        layer_numbers(layer, random_multipliers(source["size"], max(orders), layer, seed, word), moduli[layer])
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
    """DeepSeek's Engram paper (arXiv 2601.07372) and its demo: negative ids enter the products unmapped."""
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
    """Megatron-LM's Engram: the demo's numbers, ids outside the token map refused."""
    return engram_demo_v1(lookup, **parameters, policy=REFUSE)


def tilekernels(lookup: np.ndarray | None = None, **parameters: Any) -> Layout:
    """DeepSeek's TileKernels: the demo's numbers, rows with offsets."""
    return engram_demo_v1(lookup, **parameters, policy=REFUSE, adds_offsets=True)


def maxtext_int32(lookup: np.ndarray | None = None, **parameters: Any) -> Layout:
    """MaxText's Engram: multipliers, products and mix in int32; not compatible with DeepSeek's checkpoints."""
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
    """DeepSeek-V4.1-Flash; `engram_num_embeddings` is each layer's rows, at least its sum of primes.

    None takes the sums. The default is the released model's, and has to equal them.
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
    """The package engram-peft: sizes shared out among the heads, primes drawn by sorted layer, windows oldest first."""
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


# ---- raw ids, XOR of products -------------------------------------------------------------------------------------


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
    """Qwen3.8-Flash-Next (`qwen4_exp`): consecutive primes from the layer's place on, SplitMix64, EOS cuts.

    An EOS outside the vocabulary cuts nothing, for no token is that id; look-backs out of reach still read it.
    """
    columns = (ngram_size - 1) * heads_per_ngram
    primes = primes_above(ngram_vocab_size_base - 1)
    moduli = [next(primes) for _ in range((ple_layer_index + 1) * columns)][-columns:]
    layer = layer_numbers(layer_id, splitmix_multipliers(vocab_size, ngram_size, ple_layer_index, seed), moduli)
    layer["rows"] = -(-layer["rows"] // make_ngram_vocab_size_divisible_by) * make_ngram_vocab_size_divisible_by
    ids = {"limit": vocab_size, **REFUSE}
    orders = range(2, ngram_size + 1)
    cuts = [eos_token_id] if 0 <= eos_token_id < vocab_size else []
    return assemble(orders, heads_per_ngram, [layer], ids, True, fill=eos_token_id, boundary_ids=cuts)


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
    """ONNX Runtime's `NGramHashMapping` : numbers as given; any id enters; rows end with the farthest column."""
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


# ---- polynomials --------------------------------------------------------------------------------------------------


def every(eos_token_id: int | Sequence[int]) -> list[int]:
    """The ids of a configuration that has one EOS or several; each of them ends a segment."""
    return [eos_token_id] if isinstance(eos_token_id, int) else sorted({int(eos) for eos in eos_token_id})


def polynomial_mod(base: int, modulus: int, order: int, max_order: int) -> list[int]:
    """Coefficients by look-back, base^k mod modulus, 0 past the order (LongCat)."""
    return [pow(base, k, modulus) if k < order else 0 for k in range(max_order)]


def split_tables(orders: Sequence[int], splits: int, base: int, moduli: list[int], layer_id: int) -> dict[str, Any]:
    """The numbers of a LongCat layer: one modulus for each (order, split), a polynomial in `base` for each."""
    of_column = [order for order in orders for _ in range(splits)]
    rows = [polynomial_mod(base, t, order, max(orders)) for t, order in zip(moduli, of_column, strict=True)]
    return layer_numbers(layer_id, rows, moduli)


def longcat(
    *,
    vocab_size: int = 131072,
    ngram_vocab_size_ratio: float = 78,
    emb_neighbor_num: int = 4,
    emb_split_num: int = 4,
    eos_token_id: int | Sequence[int] = 2,
    layer_id: int = 0,
) -> Layout:
    """LongCat-Flash-Lite and LongCat-2.0: consecutive odd moduli, a new segment after every EOS, 0 before it."""
    orders = range(2, emb_neighbor_num + 1)
    m = int(ngram_vocab_size_ratio * vocab_size)
    moduli = [m + 2 * index + 1 for index in range(len(orders) * emb_split_num)]
    layer = split_tables(orders, emb_split_num, vocab_size, moduli, layer_id)
    ids = {"limit": vocab_size, **REFUSE}
    return assemble(orders, emb_split_num, [layer], ids, False, mix="sum", boundary_ids=every(eos_token_id))


def nanbeige(
    lookup: np.ndarray | None = None,
    *,
    vocab_size: int,
    ngram_vocab_size_ratio: float,
    emb_neighbor_num: int,
    emb_split_num: int,
    eos_token_id: int | Sequence[int],
    ngram_mod_force_prime: bool,
    ngram_compressed_tokenizer: bool,
    layer_id: int = 0,
) -> Layout:
    """Nanbeige: LongCat's hash with an unrounded ratio, on demand prime moduli and base, on demand compressed ids."""
    orders = range(2, emb_neighbor_num + 1)
    columns = len(orders) * emb_split_num
    base, m = vocab_size, ngram_vocab_size_ratio * vocab_size
    moduli = [int(m + 2 * index + 1) for index in range(columns)]
    if ngram_mod_force_prime:
        base = next(primes_above(vocab_size))
        primes = primes_above(math.floor(m))
        moduli = [next(primes) for _ in range(columns)]
    layer = split_tables(orders, emb_split_num, base, moduli, layer_id)
    limit, source = vocab_size, None
    if ngram_compressed_tokenizer:
        source = token_map_id(need_lookup(lookup))
        limit = min(vocab_size, source["length"])
    rest = {"mix": "sum", "boundary_ids": every(eos_token_id), "token_map": source}
    return assemble(orders, emb_split_num, [layer], {"limit": limit, **REFUSE}, False, **rest)


def blt(
    *,
    encoder_hash_byte_group_nb_functions: int = 1,
    encoder_hash_byte_group_size: Sequence[int] = (3, 4, 5, 6, 7, 8),
    encoder_hash_byte_group_vocab: int = 500002,
    layer_id: int = 0,
) -> Layout:
    """Byte Latent Transformer: a wrapping polynomial over groups of bytes, one prime P for each function.

    Of a group of g bytes the oldest takes P^0 and the newest P^(g-1), so look-back k has the coefficient P^(g-1-k).
    """
    groups, longest = encoder_hash_byte_group_size, max(encoder_hash_byte_group_size)
    rows = [
        [as_int64(BLT_PRIMES[f % len(BLT_PRIMES)] ** (g - 1 - k)) if k < g else 0 for k in range(longest)]
        for f in range(encoder_hash_byte_group_nb_functions)
        for g in groups
    ]
    layer = layer_numbers(layer_id, rows, [encoder_hash_byte_group_vocab] * len(rows))
    ids = {"limit": None, "negative": "error", "too_large": "enter"}
    heads = encoder_hash_byte_group_nb_functions
    return assemble(groups, heads, [layer], ids, True, mix="sum", columns="function-major")


PRESETS: dict[str, Callable[..., Layout]] = {
    "engram-demo-v1": engram_demo_v1,
    "deepseek-v4.1": deepseek_v41,
    "qwen-ple": qwen_ple,
    "longcat": longcat,
    "nanbeige": nanbeige,
    "blt": blt,
    "onnxruntime": onnxruntime,
    "tilekernels": tilekernels,
    "engram-peft": engram_peft,
    "megatron": megatron,
    "maxtext-int32": maxtext_int32,
}


def preset(name: str, *, lookup: np.ndarray | None = None, **parameters: Any) -> Layout:
    """Return the layout `name` with the published `parameters`.

    `lookup` is the token map's [n] array, for layouts that hash compressed ids.

    Raises ValueError for an unknown name (the accepted ones are listed), a missing token map, a pad outside it,
    orders that do not ascend, or sums that disagree; TypeError for a parameter that the layout does not have.
    """
    if name not in PRESETS:
        raise ValueError(f"no layout is named {name!r}; there are {', '.join(PRESETS)}")
    if lookup is not None:
        parameters["lookup"] = np.asarray(lookup)
    return PRESETS[name](**parameters)
