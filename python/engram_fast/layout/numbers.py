"""The document of a layout that consists of given numbers: lists, arrays or tensors, of one layer or of several."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _checks
from .._checks import INT64_MAX
from ..ids import as_integers
from .presets import base

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..token_map import TokenMap

_OUTSIDE = ("error", "enter")
#: The arguments of `from_numbers` behind the fields of a layout's JSON, for errors of the core.
_ARGUMENTS = {
    "columns": "column_numbering",
    "ids.limit": "id_limit",
    "layers": "moduli",
    "max_order": "orders",
    "token_map.digest": "token_map",
    "token_map.length": "token_map",
    "token_map.size": "token_map",
}
_FIELD = re.compile(r"(?:layers\[(\d+)\]\.)?([a-z_.]+)((?:\[\d+\])*): (.*)", re.DOTALL)


@dataclass(frozen=True)
class Choices:
    """The choices of a layout beside its numbers; see `HashLayout.from_numbers`."""

    heads: int | None
    mix: str
    column_numbering: str
    align: str
    word_bits: int
    fill: int
    boundary_ids: Any
    id_limit: int | None
    negative_ids: str
    too_large_ids: str | None
    adds_offsets: bool | None


def document(
    multipliers: Any,
    moduli: Any,
    offsets: Any,
    orders: Any,
    rows: Any,
    layer_ids: Any,
    choices: Choices,
    *,
    token_map: TokenMap | None,
    name: str,
) -> dict[str, Any]:
    """Return the layout's JSON document; see `HashLayout.from_numbers` for the arguments and errors."""
    ascending = _orders(orders)
    mix = _checks.choice("mix", choices.mix, ("xor", "sum"))
    numbering = _checks.choice("column_numbering", choices.column_numbering, ("order-major", "function-major"))
    if mix == "xor" and numbering == "function-major":
        raise ValueError("column_numbering: 'function-major' needs the mix 'sum'")
    layers = _Layers.of(multipliers, layer_ids, axes=1 if mix == "xor" else 2)
    of_layer = [_table("moduli", array, layer) for layer, array in layers.split("moduli", moduli, axes=1)]
    columns = len(of_layer[0])
    heads = _heads(choices.heads, columns, len(ascending))
    _check_lengths(layers, of_layer, columns, heads, ascending)
    given = None if offsets is None else layers.split("offsets", offsets, axes=1)
    starts = (
        [base.running_offsets(table) for table in of_layer]
        if given is None
        else [_table("offsets", array, layer, columns) for layer, array in given]
    )
    ends = [
        max(start + modulus for start, modulus in zip(*tables, strict=True))
        for tables in zip(starts, of_layer, strict=True)
    ]
    for layer, end in zip(layers.ids, ends, strict=True):
        if end > INT64_MAX:
            raise ValueError(f"{'moduli' if given is None else 'offsets'}: layer {layer} has {end} rows, past int64")
    numbers = None if token_map is None else base.TokenMapNumbers.of(token_map)
    content = base.document(
        orders=ascending,
        heads=heads,
        layers=[
            base.layer(layer, multiplier.tolist(), table, offsets=start, rows=total)
            for layer, multiplier, table, start, total in zip(
                layers.ids, layers.multipliers, of_layer, starts, layers.rows(rows, ends), strict=True
            )
        ],
        fill=_checks.integer("fill", choices.fill, -INT64_MAX - 1),
        adds_offsets=offsets is not None
        if choices.adds_offsets is None
        else _checks.boolean("adds_offsets", choices.adds_offsets),
        mix=mix,
        columns=numbering,
        align=_checks.choice("align", choices.align, ("newest", "oldest")),
        word_bits=_checks.integer("word_bits", choices.word_bits, 1, 64),
        boundary_ids=_boundary_ids(choices.boundary_ids),
        **_id_rules(choices, numbers),
    )
    return base.named(content, _checks.text("name", name), {}, numbers)


def renamed(error: ValueError, layer_ids: Sequence[int]) -> ValueError:
    """Return an error of the core under the argument of `from_numbers` that is wrong, with the layer's id."""
    match = _FIELD.fullmatch(str(error))
    if match is None:
        return error
    index, field, place, reason = match.groups()
    argument = _ARGUMENTS.get(field, field)
    at = "" if index is None else f"layer {layer_ids[int(index)]}: "
    return ValueError(f"{argument}{place}: {at}{reason}")


@dataclass(frozen=True)
class _Layers:
    """The layers of the given multipliers, `[N]` (or `[C, N]`) each, and whether the caller gave an axis of layers."""

    ids: list[int]
    multipliers: list[NDArray[Any]]
    single: bool

    @staticmethod
    def of(multipliers: Any, layer_ids: Any, axes: int) -> _Layers:
        """Return the layers; their ids are the mapping's keys, `layer_ids`, or 0, 1, 2 and so on."""
        if isinstance(multipliers, Mapping):
            keys = _checks.distinct_layers("multipliers", list(multipliers))
            ids = keys if layer_ids is None else _checks.distinct_layers("layer_ids", layer_ids)
            _same_layers("multipliers", keys, ids)
            arrays = [_array(f"multipliers of layer {layer}", multipliers[layer]) for layer in ids]
            single = False
        else:
            whole = _array("multipliers", multipliers)
            single = whole.ndim == axes
            arrays = [whole] if single else list(whole) if whole.ndim else []
            ids = list(range(len(arrays))) if layer_ids is None else _checks.distinct_layers("layer_ids", layer_ids)
        for array in arrays:
            if array.ndim != axes:
                each = "[N]" if axes == 1 else "[C, N] (one list for each column)"
                raise ValueError(f"multipliers: expected {each} for each layer, got the shape {list(array.shape)}")
        if not arrays:
            raise ValueError("multipliers: no layers")
        if len(ids) != len(arrays):
            raise ValueError(f"layer_ids: {len(ids)} ids, but multipliers have {len(arrays)} layers")
        return _Layers(ids, arrays, single)

    def split(self, name: str, value: Any, axes: int) -> list[tuple[int, NDArray[Any]]]:
        """Return `(layer id, array)` for each layer, of an argument with the same axis of layers."""
        if isinstance(value, Mapping):
            _same_layers(name, _checks.distinct_layers(name, list(value)), self.ids)
            return [(layer, _array(f"{name} of layer {layer}", value[layer])) for layer in self.ids]
        whole = _array(name, value)
        arrays = [whole] if self.single and whole.ndim <= axes + 1 else list(whole) if whole.ndim > axes else []
        if self.single and whole.ndim == axes + 1 and len(whole) == 1:
            arrays = [whole[0]]
        if len(arrays) != len(self.ids):
            raise ValueError(
                f"{name}: the shape {list(whole.shape)} does not fit the {len(self.ids)} layers of the multipliers"
            )
        return list(zip(self.ids, arrays, strict=True))

    def rows(self, value: Any, ends: list[int]) -> list[int]:
        """Return the rows of each layer's joint table: by default up to the end of the last column."""
        if value is None:
            return ends
        if isinstance(value, Mapping):
            _same_layers("rows", _checks.distinct_layers("rows", list(value)), self.ids)
            value = [value[layer] for layer in self.ids]
        stated = _checks.integers("rows", value if _checks.is_list(value) else [value], 1)
        if len(stated) != len(self.ids):
            raise ValueError(f"rows: {len(stated)} numbers for {len(self.ids)} layers")
        for layer, total, end in zip(self.ids, stated, ends, strict=True):
            if total < end:
                raise ValueError(f"rows: {total} for layer {layer}, whose columns need {end}")
        return stated


def _same_layers(name: str, keys: list[int], layers: list[int]) -> None:
    if set(keys) != set(layers):
        raise ValueError(f"{name}: has the layers {sorted(keys)}, expected {sorted(layers)}")


def _array(name: str, value: Any) -> NDArray[Any]:
    """Return integers of any kind, a list of tensors too, as an array of int64 or of what the caller has."""
    if isinstance(value, (list, tuple)) and any(hasattr(item, "dtype") and np.ndim(item) for item in value):
        items = [_array(f"{name}[{index}]", item) for index, item in enumerate(value)]
        if len({item.shape for item in items}) > 1:
            raise ValueError(f"{name}: the items differ in shape: {[list(item.shape) for item in items]}")
        return np.stack(items)
    if isinstance(value, range):
        value = list(value)
    if isinstance(value, (int, np.integer)):
        raise TypeError(f"{name}: expected a list of integers, got {_checks.shown(value)}")
    array = as_integers(value, name, False)
    if array.dtype.kind == "u" and array.size and int(array.max()) > INT64_MAX:
        raise ValueError(f"{name}: {int(array.max())} is above {INT64_MAX}")
    return array


def _table(name: str, array: NDArray[Any], layer: int, columns: int | None = None) -> list[int]:
    """Return the numbers of one layer's columns, `[C]`; also given as `[orders, heads]`."""
    if array.ndim not in (1, 2) or not array.size:
        raise ValueError(
            f"{name}: expected [C] or [orders, heads] for layer {layer}, got the shape {list(array.shape)}"
        )
    if columns is not None and array.size != columns:
        raise ValueError(f"{name}: layer {layer} has {array.size} numbers for {columns} columns")
    low = 1 if name == "moduli" else 0
    if int(array.min()) < low:
        raise ValueError(f"{name}: layer {layer} has {int(array.min())}, which is below {low}")
    numbers: list[int] = array.ravel().tolist()
    return numbers


def _orders(orders: Any) -> list[int]:
    numbers = _checks.integers("orders", orders, 1, base.MAX_ORDER)
    if not numbers:
        raise ValueError("orders: no orders")
    if numbers != sorted(set(numbers)):
        raise ValueError(f"orders: {numbers} do not ascend; the columns of a layout are numbered by ascending order")
    return numbers


def _heads(heads: int | None, columns: int, orders: int) -> int:
    if heads is None:
        if columns % orders:
            raise ValueError(f"moduli: {columns} columns do not divide among {orders} orders")
        return columns // orders
    return _checks.integer("heads", heads, 1, base.MAX_COLUMNS)


def _check_lengths(layers: _Layers, moduli: list[list[int]], columns: int, heads: int, orders: list[int]) -> None:
    for layer, multipliers, table in zip(layers.ids, layers.multipliers, moduli, strict=True):
        if len(table) != heads * len(orders):
            raise ValueError(
                f"moduli: layer {layer} has {len(table)} columns, but {len(orders)} orders of {heads} heads are "
                f"{heads * len(orders)}"
            )
        if multipliers.shape[-1] != orders[-1]:
            raise ValueError(
                f"multipliers: layer {layer} has {multipliers.shape[-1]} for a window of {orders[-1]} tokens, the "
                "largest order"
            )
        if multipliers.ndim == 2 and len(multipliers) != columns:
            raise ValueError(f"multipliers: layer {layer} has {len(multipliers)} lists for {columns} columns")


def _boundary_ids(value: Any) -> list[int]:
    low = -INT64_MAX - 1
    if _checks.is_list(value):
        return _checks.integers("boundary_ids", value, low, most=base.MAX_BOUNDARY_IDS)
    return [_checks.integer("boundary_ids", value, low)]


def _id_rules(choices: Choices, numbers: base.TokenMapNumbers | None) -> dict[str, Any]:
    """Return the ids that the layout accepts: by default those of the token map; all from 0 on if there is none."""
    limit = None if numbers is None else numbers.length
    if choices.id_limit is not None:
        limit = _checks.integer("id_limit", choices.id_limit, 1)
    if numbers is not None and limit is not None and limit > numbers.length:
        raise ValueError(f"id_limit: {limit} is past the token map of {numbers.length} ids")
    too_large = choices.too_large_ids
    if too_large is None:
        too_large = "enter" if limit is None else "error"
    too_large = _checks.choice("too_large_ids", too_large, _OUTSIDE)
    if limit is None and too_large == "error":
        raise ValueError("too_large_ids: 'error' needs an id_limit")
    return {
        "limit": limit,
        "negative": _checks.choice("negative_ids", choices.negative_ids, _OUTSIDE),
        "too_large": too_large,
    }
