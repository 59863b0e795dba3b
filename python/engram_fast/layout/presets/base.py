"""What the families share: parameters with their checks, token maps, and the layout's JSON document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from ... import _checks, _core
from ..._checks import INT64_MAX
from .names import PresetName

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ...token_map import TokenMap

MAX_ORDER = _core.MAX_ORDER
MAX_COLUMNS = _core.MAX_COLUMNS
#: Most columns of all layers together; a thousand layers of 64 columns.
MAX_TABLES = 1 << 16
#: Most rows per head: as many as an address space could hold, and below 2**63 by enough for the next prime to exist.
MAX_SIZE = 1 << 60
#: NumPy takes larger seeds; the layout's JSON holds none.
MAX_SEED = 2**64 - 1

#: Most ids that end the look-back; the core compares them one by one.
MAX_BOUNDARY_IDS = 256

REQUIRED: Any = object()

_Value = TypeVar("_Value")


class Parameters:
    """The parameters of one preset, read one by one; `checked` keeps every value that was read, as JSON has it."""

    def __init__(self, values: Mapping[str, Any], spelled: Mapping[str, str]) -> None:
        self._values = values
        self._spelled = spelled
        self.checked: dict[str, Any] = {}

    def label(self, name: str) -> str:
        """Return the parameter's name as the caller spelled it."""
        return self._spelled.get(name, name)

    def error(self, name: str, reason: str) -> ValueError:
        """Return an error that names the parameter as the caller spelled it."""
        return ValueError(f"{self.label(name)}: {reason}")

    def given(self, name: str) -> bool:
        """Return whether the parameter has a value; None counts as none, and is kept."""
        if self._values[name] is None:
            self.checked[name] = None
            return False
        return True

    def by_caller(self, name: str) -> bool:
        """Return whether the caller gave the parameter, rather than the preset's default."""
        return name in self._spelled

    def _keep(self, name: str, value: _Value) -> _Value:
        self.checked[name] = value
        return value

    def integer(self, name: str, low: int, high: int = INT64_MAX) -> int:
        """Return the parameter as an integer within `low` and `high`."""
        return self._keep(name, _checks.integer(self.label(name), self._values[name], low, high))

    def integers(self, name: str, low: int, high: int = INT64_MAX) -> list[int]:
        """Return the parameter as a list of integers within `low` and `high`."""
        return self._keep(name, _checks.integers(self.label(name), self._values[name], low, high))

    def one_or_more(self, name: str, low: int, high: int = INT64_MAX) -> list[int]:
        """Return the parameter as a list of integers; a single integer is a list of one."""
        if _checks.is_list(self._values[name]):
            return list(self.integers(name, low, high))
        return [self.integer(name, low, high)]

    def boolean(self, name: str) -> bool:
        """Return the parameter as True or False."""
        return self._keep(name, _checks.boolean(self.label(name), self._values[name]))

    def positive_number(self, name: str) -> int | float:
        """Return the parameter as a finite number above 0."""
        return self._keep(name, _checks.positive_number(self.label(name), self._values[name]))

    def layers(self, name: str) -> list[int]:
        """Return the parameter as layer ids, none twice."""
        return self._keep(name, _checks.distinct_layers(self.label(name), self._values[name]))

    def seed(self, name: str = "seed") -> int:
        """Return the parameter as a seed."""
        return self.integer(name, 0, MAX_SEED)

    def orders(self, name: str) -> list[int]:
        """Return the parameter as n-gram orders, which ascend."""
        orders = self.integers(name, 1, MAX_ORDER)
        if not orders:
            raise self.error(name, "no orders")
        for before, after in pairwise(orders):
            if after <= before:
                raise self.error(name, f"{after} after {before}: the sizes must ascend")
        return orders

    def heads(self, name: str, orders: int) -> int:
        """Return the number of heads, which times `orders` is at most the columns of a layer."""
        heads = self.integer(name, 1, MAX_COLUMNS)
        if heads * orders > MAX_COLUMNS:
            raise self.error(name, f"{heads} for each of {orders} orders are more than {MAX_COLUMNS} columns")
        return heads

    def check_tables(self, name: str, layers: int, columns: int) -> None:
        """Refuse a layout whose primes and multipliers would take minutes to draw."""
        if layers * columns > MAX_TABLES:
            raise self.error(name, f"{layers} layers of {columns} columns are more than {MAX_TABLES} tables")

    def check_total(self, name: str, moduli: Sequence[int]) -> None:
        """Refuse a layer whose rows do not fit int64."""
        if sum(moduli) > INT64_MAX:
            raise self.error(name, f"the rows of a layer add up to {sum(moduli)}, past int64")


@dataclass(frozen=True)
class Preset:
    """A published layout: its parameters with their defaults, and the function that computes its numbers from them."""

    name: PresetName
    defaults: Mapping[str, Any]
    build: Callable[[Parameters, TokenMapNumbers | None], dict[str, Any]]
    #: Whether ids are compressed; None if a parameter decides.
    compressed: bool | None
    #: Other spellings of a parameter.
    aliases: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def document(self, overrides: Mapping[str, Any], token_map: TokenMap | None) -> dict[str, Any]:
        """Return the layout's JSON document; `overrides` are parameters by published name or alias."""
        parameters = self._parameters(overrides)
        numbers = None if token_map is None else TokenMapNumbers.of(token_map)
        if self.compressed is True and numbers is None:
            raise ValueError(
                f"token_map: {self.name} hashes compressed ids and needs the token map that compresses them"
            )
        if self.compressed is False and numbers is not None:
            raise ValueError(f"token_map: {self.name} hashes raw ids and takes no token map")
        document = self.build(parameters, numbers)
        return named(document, self.name, parameters.checked, numbers)

    def _parameters(self, overrides: Mapping[str, Any]) -> Parameters:
        values = dict(self.defaults)
        spelled: dict[str, str] = {}
        for name, value in overrides.items():
            parameter = self.aliases.get(name, name)
            if parameter not in self.defaults:
                accepted = ", ".join([*self.defaults, *self.aliases])
                raise ValueError(f"{name}: {self.name} has no such parameter; it takes {accepted}")
            if parameter in spelled and not _same(values[parameter], value):
                raise ValueError(f"{name}: differs from {spelled[parameter]}, which means the same")
            values[parameter] = value
            spelled[parameter] = name
        missing = [name for name, value in values.items() if value is REQUIRED]
        if missing:
            raise ValueError(f"{missing[0]}: {self.name} has no default for it; give {', '.join(missing)}")
        return Parameters(values, spelled)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and isinstance(one, (int, float, str, type(None))) and one == other


@dataclass(frozen=True)
class TokenMapNumbers:
    """The numbers of a token map that a layout keeps, and its look-up."""

    digest: str
    length: int
    size: int
    lookup: NDArray[np.int32]

    @staticmethod
    def of(token_map: TokenMap) -> TokenMapNumbers:
        """Return the numbers of a token map; TypeError for any other object."""
        try:
            digest, size, lookup, length = token_map.digest, token_map.size, token_map.lookup, len(token_map)
        except (AttributeError, TypeError):
            raise TypeError(f"token_map: expected a TokenMap, got {type(token_map).__name__}") from None
        if not isinstance(digest, str):
            raise TypeError(f"token_map: expected a TokenMap, got {type(token_map).__name__}")
        size = _checks.integer("token_map.size", size, 1)
        if len(lookup) != length:
            raise ValueError(f"token_map: its lookup has {len(lookup)} ids, but its length is {length}")
        if size > length:
            raise ValueError(
                f"token_map.size: the largest compressed id is {size - 1}, but there are {length} raw ids; a layout "
                "takes no compressed id beyond them: number the ids without gaps, as "
                "TokenMap.from_lookup(numpy.unique(lookup, return_inverse=True)[1]) does"
            )
        return TokenMapNumbers(digest, length, size, lookup)

    def identity(self) -> dict[str, Any]:
        """Return the entry `token_map` of the layout's document."""
        return {"digest": self.digest, "length": self.length, "size": self.size}

    def mapped(self, parameters: Parameters, name: str) -> int:
        """Return the compressed id of the parameter, a raw pad id; no other place maps it."""
        raw = parameters.integer(name, 0)
        if raw >= self.length:
            raise parameters.error(name, f"{raw} is outside the token map of {self.length} ids")
        return int(self.lookup[raw])


def running_offsets(moduli: Sequence[int]) -> list[int]:
    """Return the row at which each column begins if the tables of a layer lie end to end."""
    offsets, total = [], 0
    for modulus in moduli:
        offsets.append(total)
        total += modulus
    return offsets


def layer(
    layer_id: int,
    multipliers: Sequence[Any],
    moduli: Sequence[int],
    *,
    offsets: Sequence[int] | None = None,
    rows: int | None = None,
) -> dict[str, Any]:
    """Return one entry of the document's `layers`; without `offsets` and `rows` the tables lie end to end."""
    return {
        "layer_id": layer_id,
        "multipliers": list(multipliers),
        "moduli": list(moduli),
        "offsets": running_offsets(moduli) if offsets is None else list(offsets),
        "rows": sum(moduli) if rows is None else rows,
    }


def named(
    document: dict[str, Any], name: str, parameters: Mapping[str, Any], token_map: TokenMapNumbers | None
) -> dict[str, Any]:
    """Return the document with its format, name, parameters and token map: complete, as the core reads it."""
    return {
        **document,
        "format": "engram-fast-layout",
        "version": 1,
        "name": name,
        "parameters": dict(parameters),
        "token_map": None if token_map is None else token_map.identity(),
    }


def document(
    *,
    orders: Sequence[int],
    heads: int,
    layers: Sequence[dict[str, Any]],
    fill: int,
    limit: int | None,
    adds_offsets: bool,
    negative: str = "error",
    too_large: str = "error",
    mix: str = "xor",
    columns: str = "order-major",
    align: str = "newest",
    word_bits: int = 64,
    boundary_ids: Sequence[int] = (),
) -> dict[str, Any]:
    """Return the numbers of a layout as its JSON has them; the caller adds name, parameters and token map."""
    return {
        "orders": list(orders),
        "heads": heads,
        "max_order": max(orders),
        "columns": columns,
        "mix": mix,
        "word_bits": word_bits,
        "align": align,
        "fill": fill,
        "boundary_ids": list(boundary_ids),
        "ids": {"limit": limit, "negative": negative, "too_large": too_large},
        "adds_offsets": adds_offsets,
        "layers": list(layers),
    }
