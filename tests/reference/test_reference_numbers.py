"""The reference's numbers against published constants, worked examples and plainer ways to compute them."""

from __future__ import annotations

import hashlib
import json
import math

import numpy as np
import pytest
from engram_fast.reference_generators import (
    is_prime,
    primes_above,
    random_multipliers,
    splitmix64,
    splitmix_multipliers,
    unused_primes,
)
from engram_fast.reference_numbers import BLT_PRIMES, PRESETS, preset, token_map_id

IDENTITY = np.arange(1000, dtype=np.int32)
NANBEIGE = {
    "vocab_size": 50,
    "ngram_vocab_size_ratio": 3.5,
    "emb_neighbor_num": 3,
    "emb_split_num": 2,
    "eos_token_id": 2,
    "ngram_mod_force_prime": True,
    "ngram_compressed_tokenizer": False,
}
ONNXRUNTIME = {
    "multipliers": [3, 5],
    "vocab_sizes": [7, 11],
    "max_ngram_size": 2,
    "n_head_per_ngram": 2,
    "pad_id": -4,
}
PEFT = {"engram_vocab_size_per_ngram": [200, 900], "ngram_sizes": [2, 4], "n_head_per_ngram": 3}
V41 = {"engram_compressed_vocab_size": 1000, "engram_vocab_size": 97, "engram_num_embeddings": None}
EXAMPLES = {
    "engram-demo-v1": {"lookup": IDENTITY},
    "megatron": {"lookup": IDENTITY},
    "tilekernels": {"lookup": IDENTITY},
    "maxtext-int32": {"lookup": IDENTITY},
    "deepseek-v4.1": {"lookup": IDENTITY, **V41},
    "engram-peft": {"lookup": IDENTITY, **PEFT},
    "qwen-ple": {},
    "longcat": {},
    "nanbeige": NANBEIGE,
    "blt": {},
    "onnxruntime": ONNXRUNTIME,
}


def moduli(layout: dict) -> dict[int, list[int]]:
    return {layer["layer_id"]: layer["moduli"] for layer in layout["layers"]}


def multipliers(layout: dict) -> dict[int, list]:
    return {layer["layer_id"]: layer["multipliers"] for layer in layout["layers"]}


def test_is_prime_against_the_sieve_of_eratosthenes() -> None:
    limit = 20_000
    prime = np.ones(limit, dtype=bool)
    prime[:2] = False
    for n in range(2, math.isqrt(limit) + 1):
        prime[n * n :: n] &= not prime[n]
    assert [is_prime(n) for n in range(-3, 0)] == [False] * 3
    assert [is_prime(n) for n in range(limit)] == prime.tolist()
    assert not is_prime(46337**2)
    assert is_prime(2**31 - 1)


def test_primes_above_is_strict() -> None:
    primes = primes_above(7)
    assert [next(primes) for _ in range(4)] == [11, 13, 17, 19]


@pytest.mark.parametrize(
    ("size", "count", "layer", "expected"),
    [
        (1000, 3, 1, [7593627661414631, 479593001838623, 3563315849468963]),
        (1000, 3, 15, [2865651367968763, 5551170510236881, 5343936160617101]),
        (99092, 4, 14, [67716810739261, 51510806800915, 30921347202721, 82619226485591]),
        (98627, 3, 1, [76993395940407, 4862694818241, 36129212583461]),
        (2**63 - 1, 3, 1, [1, 1, 1]),
    ],
)
def test_multipliers_of_numpys_generator(size: int, count: int, layer: int, expected: list[int]) -> None:
    assert random_multipliers(size, count, layer, 0) == expected


def test_splitmix64_published_outputs() -> None:
    assert splitmix64(0) == 0xE220A8397B1DCDAF
    assert splitmix64(1234567) == 6457827717110365317
    assert splitmix64((1234567 + 0x9E3779B97F4A7C15) % 2**64) == 3203168211198807973


def test_qwen_multipliers_of_the_released_model() -> None:
    assert splitmix_multipliers(248320, 3, 0, 1234) == [23703573157769, 20109073645365, 8052911324071]


def test_primes_are_unused_across_layers_and_follow_their_order() -> None:
    assert unused_primes([1, 15], [97, 97], 2) == {1: [97, 101, 103, 107], 15: [109, 113, 127, 131]}
    assert unused_primes([15, 1], [97, 97], 2) == {15: [97, 101, 103, 107], 1: [109, 113, 127, 131]}
    assert unused_primes([1], [97, 10, 97], 2) == {1: [97, 101, 11, 13, 103, 107]}


def test_demo_defaults() -> None:
    of_layer_1 = [646403, 646411, 646421, 646423, 646433, 646453, 646519, 646523]
    of_layer_1 += [646537, 646543, 646549, 646571, 646573, 646577, 646609, 646619]
    of_layer_15 = [646631, 646637, 646643, 646669, 646687, 646721, 646757, 646771]
    of_layer_15 += [646781, 646823, 646831, 646837, 646843, 646859, 646873, 646879]
    layout = preset("engram-demo-v1", lookup=np.arange(98627))
    assert moduli(layout) == {1: of_layer_1, 15: of_layer_15}
    assert multipliers(layout)[15] == [29055444938695, 56284491166079, 54183298291715]
    assert (layout["orders"], layout["heads"], layout["max_order"]) == ([2, 3], 8, 3)
    assert (layout["fill"], layout["adds_offsets"]) == (2, False)
    assert layout["layers"][0]["offsets"] == [sum(of_layer_1[:c]) for c in range(16)]
    assert layout["layers"][0]["rows"] == sum(of_layer_1)


def test_pad_is_mapped_through_the_token_map_once() -> None:
    lookup = np.array([0, 1, 1, 2])
    assert preset("engram-demo-v1", lookup=lookup, pad_id=3)["fill"] == 2
    with pytest.raises(ValueError, match="pad_id: 4 is outside the token map of 4 ids"):
        preset("engram-demo-v1", lookup=lookup, pad_id=4)
    with pytest.raises(ValueError, match="pad_id: -1"):
        preset("engram-demo-v1", lookup=lookup, pad_id=-1)


def test_deepseek_v41_checks_what_the_configuration_claims() -> None:
    layout = preset("deepseek-v4.1", lookup=np.arange(99092))
    assert [layer["rows"] for layer in layout["layers"]] == [384006168, 384016682]
    assert multipliers(layout)[1] == [76632096046245, 4839876093313, 35959672319349, 73987337458391]
    with pytest.raises(ValueError, match="engram_num_embeddings"):
        preset("deepseek-v4.1", lookup=np.arange(99092), engram_num_embeddings=[384006168, 384016681])
    with pytest.raises(ValueError, match="engram_compressed_vocab_size"):
        preset("deepseek-v4.1", lookup=np.arange(99091))


def test_engram_peft_shares_sizes_out_and_draws_by_sorted_layer() -> None:
    layout = preset("engram-peft", lookup=IDENTITY, layer_ids=[9, 3], **PEFT)
    assert moduli(layout) == {9: [79, 83, 89, 317, 331, 337], 3: [67, 71, 73, 307, 311, 313]}
    assert [layer["layer_id"] for layer in layout["layers"]] == [9, 3]
    assert len(layout["layers"][0]["multipliers"]) == layout["max_order"] == 4
    assert layout["align"] == "oldest"


def test_maxtext_multipliers_fit_the_int32_products() -> None:
    layout = preset("maxtext-int32", lookup=IDENTITY)
    assert layout["word_bits"] == 32
    assert all(m % 2 == 1 and m * 999 < 2**31 for layer in multipliers(layout).values() for m in layer)


def test_qwen_rows_are_padded_and_later_layers_go_on_in_the_primes() -> None:
    layer = preset("qwen-ple")["layers"][0]
    assert (sum(layer["moduli"]), layer["rows"], layer["layer_id"]) == (320001446, 320001536, 2)
    small = {"ngram_vocab_size_base": 97, "ngram_size": 2, "heads_per_ngram": 2}
    assert moduli(preset("qwen-ple", **small)) == {2: [97, 101]}
    assert moduli(preset("qwen-ple", **small, ple_layer_index=2, layer_id=7)) == {7: [109, 113]}


def test_longcat_coefficients() -> None:
    layout = preset("longcat", vocab_size=10, ngram_vocab_size_ratio=1.57, emb_neighbor_num=3, emb_split_num=2)
    layer = layout["layers"][0]
    assert layer["moduli"] == [16, 18, 20, 22]
    assert layer["multipliers"] == [[1, 10, 0], [1, 10, 0], [1, 10, 0], [1, 10, 12]]
    assert (layout["mix"], layout["fill"], layout["boundary_ids"]) == ("sum", 0, [2])


def test_longcat_2_rounds_the_product_down() -> None:
    layout = preset("longcat", vocab_size=163840, ngram_vocab_size_ratio=100.567, emb_neighbor_num=5)
    assert layout["layers"][0]["moduli"][0] == 16476897 + 1
    assert len(layout["layers"][0]["moduli"]) == 16


def test_nanbeige_does_not_round_the_ratio_and_may_use_primes() -> None:
    plain = preset("nanbeige", **NANBEIGE | {"vocab_size": 5, "ngram_mod_force_prime": False})["layers"][0]
    assert plain["moduli"] == [18, 20, 22, 24]  # m = 17.5
    assert plain["multipliers"][3] == [1, 5, 1]
    prime = preset("nanbeige", **NANBEIGE)["layers"][0]
    assert prime["moduli"] == [179, 181, 191, 193]  # m = 175
    assert prime["multipliers"][3] == [1, 53, 53 * 53 % 193]
    for vocab_size, ratio, first in ((3, 3.5, 11), (2, 5.5, 13)):  # m = 10.5; m = 11, itself a prime and passed over
        more = {"vocab_size": vocab_size, "ngram_vocab_size_ratio": ratio}
        assert preset("nanbeige", **NANBEIGE | more)["layers"][0]["moduli"][0] == first


def test_nanbeige_has_no_defaults_and_may_need_a_token_map() -> None:
    with pytest.raises(TypeError, match="eos_token_id"):
        preset("nanbeige", **{key: value for key, value in NANBEIGE.items() if key != "eos_token_id"})
    with pytest.raises(ValueError, match="token_map"):
        preset("nanbeige", **NANBEIGE | {"ngram_compressed_tokenizer": True})


def test_blt_columns_are_function_major_and_functions_cycle() -> None:
    sizes = {"encoder_hash_byte_group_size": [2, 3], "encoder_hash_byte_group_vocab": 100}
    layout = preset("blt", encoder_hash_byte_group_nb_functions=12, **sizes)
    layer = layout["layers"][0]
    p, q = BLT_PRIMES[:2]
    squares = [pow(prime, 2, 2**64) for prime in (p, q)]
    assert layer["multipliers"][:3] == [[p, 1, 0], [squares[0], p, 1], [q, 1, 0]]
    assert layer["multipliers"][3][0] == squares[1] - (2**64 if squares[1] >= 2**63 else 0) < 0
    assert layer["multipliers"][22:] == layer["multipliers"][:2]
    assert layer["offsets"] == [100 * c for c in range(24)]
    assert (layout["columns"], layout["heads"], layer["rows"]) == ("function-major", 12, 2400)


def test_onnxruntime_fill_and_offsets() -> None:
    plain = preset("onnxruntime", **ONNXRUNTIME)
    assert (plain["fill"], plain["adds_offsets"], plain["layers"][0]["offsets"]) == (-4, False, [0, 7])
    eos = preset("onnxruntime", **ONNXRUNTIME, eos_token_id=9, head_offsets=[20, 0])
    assert (eos["fill"], eos["adds_offsets"], eos["boundary_ids"]) == (9, True, [])
    assert eos["layers"][0]["rows"] == 27
    assert preset("onnxruntime", **ONNXRUNTIME, eos_token_id=9, reset_on_eos=True)["boundary_ids"] == [9]
    with pytest.raises(ValueError, match="reset_on_eos"):
        preset("onnxruntime", **ONNXRUNTIME, reset_on_eos=True)


def test_ids_outside_the_range() -> None:
    outside = {name: tuple(preset(name, **example)["ids"].values()) for name, example in EXAMPLES.items()}
    assert outside == {
        "engram-demo-v1": (1000, "enter", "error"),
        "maxtext-int32": (1000, "enter", "error"),
        "megatron": (1000, "error", "error"),
        "tilekernels": (1000, "error", "error"),
        "deepseek-v4.1": (1000, "error", "error"),
        "engram-peft": (1000, "enter", "enter"),
        "qwen-ple": (248320, "error", "error"),
        "longcat": (131072, "error", "error"),
        "nanbeige": (50, "error", "error"),
        "blt": (None, "error", "enter"),
        "onnxruntime": (None, "enter", "enter"),
    }


def test_which_layouts_add_offsets() -> None:
    adds = {name for name, example in EXAMPLES.items() if preset(name, **example)["adds_offsets"]}
    assert adds == {"tilekernels", "deepseek-v4.1", "qwen-ple", "blt"}


@pytest.mark.parametrize("name", PRESETS)
def test_layouts_are_plain_json_with_one_number_for_each_column(name: str) -> None:
    layout = preset(name, **EXAMPLES[name])
    assert json.loads(json.dumps(layout)) == layout
    columns = len(layout["orders"]) * layout["heads"]
    for layer in layout["layers"]:
        assert len(layer["moduli"]) == len(layer["offsets"]) == columns
        assert len(layer["multipliers"]) == (layout["max_order"] if layout["mix"] == "xor" else columns)


def test_token_map_id_is_of_the_content_alone() -> None:
    lookup = np.array([0, 1, 1, 2])
    content = b"".join(n.to_bytes(4, "little") for n in (4, 0, 1, 1, 2))
    assert token_map_id(lookup) == {"digest": hashlib.sha256(content).hexdigest(), "length": 4, "size": 3}
    assert token_map_id(lookup.astype(np.int32)) == token_map_id(lookup)


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("engram-demo-v2", {}, "engram-demo-v1, deepseek-v4.1"),
        ("engram-demo-v1", {}, "token_map"),
        ("engram-demo-v1", {"lookup": IDENTITY, "layer_ids": []}, "layer ids"),
        ("engram-demo-v1", {"lookup": IDENTITY, "layer_ids": [1, 1]}, "layer ids"),
        ("engram-demo-v1", {"lookup": IDENTITY, "max_ngram_size": 4}, "2 table sizes for 3 n-gram orders"),
        ("engram-peft", {"lookup": IDENTITY, **PEFT, "ngram_sizes": [4, 2]}, "do not ascend"),
    ],
)
def test_refused(name: str, wrong: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        preset(name, **wrong)
