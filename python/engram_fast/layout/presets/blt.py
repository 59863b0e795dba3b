"""`blt`: byte group hashes, a polynomial in a large prime that wraps at 64 bits."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from .base import MAX_SIZE, Parameters, Preset, TokenMapNumbers, document, layer

#: The prime of each hash function, by its number; more functions than primes begin again.
FUNCTION_PRIMES = (
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


def _wrapped(value: int) -> int:
    """Return `value` wrapped to int64."""
    return (value + 2**63) % 2**64 - 2**63


def _blt(parameters: Parameters, token_map: TokenMapNumbers | None) -> dict[str, Any]:
    groups = parameters.orders("encoder_hash_byte_group_size")
    functions = parameters.heads("encoder_hash_byte_group_nb_functions", len(groups))
    rows = parameters.integer("encoder_hash_byte_group_vocab", 1, MAX_SIZE)
    moduli = [rows] * (functions * len(groups))
    parameters.check_total("encoder_hash_byte_group_vocab", moduli)
    coefficients = []
    for function in range(functions):
        prime = FUNCTION_PRIMES[function % len(FUNCTION_PRIMES)]
        for group in groups:
            # The oldest byte of the group has power 0, so look-back k has power group-1-k.
            powers = [_wrapped(pow(prime, group - 1 - k, 2**64)) for k in range(group)]
            coefficients.append(powers + [0] * (groups[-1] - group))
    return document(
        orders=groups,
        heads=functions,
        layers=[layer(parameters.integer("layer_id", 0), coefficients, moduli)],
        fill=0,
        limit=None,
        too_large="enter",
        mix="sum",
        columns="function-major",
        adds_offsets=True,
    )


BLT = Preset(
    "blt",
    MappingProxyType(
        {
            "encoder_hash_byte_group_nb_functions": 1,
            "encoder_hash_byte_group_size": (3, 4, 5, 6, 7, 8),
            "encoder_hash_byte_group_vocab": 500002,
            "layer_id": 0,
        }
    ),
    _blt,
    compressed=False,
)
