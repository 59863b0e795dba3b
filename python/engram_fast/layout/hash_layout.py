"""`HashLayout`: the numbers of one model, by preset, by the model's configuration, by given numbers, or from JSON."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Literal

from .. import _checks, _core
from . import numbers as _numbers
from . import presets as _presets
from .model_config import recognise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike
    from typing_extensions import Self

    from ..token_map import TokenMap
    from .presets.names import PresetName

_DIGEST = re.compile(r',\s*"digest"\s*:\s*"([^"]*)"\s*}\s*\Z')


def presets() -> list[PresetName]:
    """Return the names that `HashLayout.preset` takes."""
    return list(_presets.PRESETS)


class HashLayout(_core.Layout):
    """The numbers of one model, checked and frozen; two layouts are equal when their numbers and token maps are.

    `multipliers[layer]` (int64 [N], or [C, N] for polynomial layouts), `moduli[layer]` and `offsets[layer]` (int64 [C])
    are read-only arrays, `rows[layer]` is the number of rows of the joint table.

    >>> layout = HashLayout.preset("qwen-ple")
    >>> layout.layer_ids, layout.orders, layout.heads, layout.columns
    ((2,), (2, 3), 8, 16)
    >>> layout.multipliers[2].tolist()
    [23703573157769, 20109073645365, 8052911324071]
    >>> layout.rows[2]
    320001536
    """

    __slots__ = ()

    @classmethod
    def preset(cls, name: PresetName, *, token_map: TokenMap | None = None, **overrides: Any) -> Self:
        """Return the layout of a published model.

        Args:
            name: one of `presets()`.
            token_map: the token map that compresses the ids; presets that hash raw ids take None.
            **overrides: parameters of the model under their published names. Lists may be arrays or CPU tensors.

        Raises:
            ValueError: the name or a parameter is unknown, a value is wrong, or the token map is missing or needless.
            TypeError: a parameter has a wrong type. Both name the parameter as the caller spelled it.
        """
        return cls.from_json(_text(_presets.find(name).document(overrides, token_map)))

    @classmethod
    def from_hf_config(cls, config: Any, *, token_map: TokenMap | None = None) -> Self:
        """Return the layout of a model by its configuration.

        The result's `.name` and `.parameters` say which preset the configuration stands for.

        Args:
            config: a mapping; a `config.json`, or the folder that holds one; or a configuration object (one with
                `to_dict`, a dataclass, a namespace). The parameters may stand under `text_config`.
            token_map: the token map of the model's tokenizer, if the layout hashes compressed ids.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the configuration has no known n-gram memory, or a parameter is missing or wrong.
            TypeError: a parameter has a wrong type, or `config` is no configuration.
        """
        found = recognise(config)
        try:
            return cls.preset(found.preset, token_map=token_map, **found.parameters)
        except (ValueError, TypeError) as error:
            raise type(error)(f"{error} ({found.describe()})") from None

    @classmethod
    def from_numbers(
        cls,
        *,
        multipliers: ArrayLike | Mapping[int, ArrayLike],
        moduli: ArrayLike | Mapping[int, ArrayLike],
        orders: Sequence[int],
        offsets: ArrayLike | Mapping[int, ArrayLike] | None = None,
        rows: int | Sequence[int] | Mapping[int, int] | None = None,
        layer_ids: Sequence[int] | None = None,
        heads: int | None = None,
        mix: Literal["xor", "sum"] = "xor",
        column_numbering: Literal["order-major", "function-major"] = "order-major",
        align: Literal["newest", "oldest"] = "newest",
        word_bits: int = 64,
        fill: int = 0,
        boundary_ids: int | Sequence[int] = (),
        id_limit: int | None = None,
        negative_ids: Literal["error", "enter"] = "error",
        too_large_ids: Literal["error", "enter"] | None = None,
        token_map: TokenMap | None = None,
        adds_offsets: bool | None = None,
        name: str = "numbers",
    ) -> Self:
        """Return the layout that consists of given numbers: a checkpoint's buffers, or the lists of a GGUF file.

        Numbers are lists, arrays or CPU tensors of integers. Those of several layers have an axis of layers in front,
        or are a mapping from layer id to the numbers of that layer. N is the largest order, C the number of columns.

        Args:
            multipliers: `[N]` for each layer; multiplier k belongs to look-back k. With `mix="sum"` `[C, N]`: the
                coefficient of look-back k in each column, 0 past the column's order.
            moduli: `[C]`, or `[orders, heads]`, for each layer.
            orders: the n-gram orders, ascending.
            offsets: the row at which each column begins in a joint table, shaped as `moduli`; None lays the columns
                end to end.
            rows: rows of each layer's joint table, padding included; None ends the table with its last column.
            layer_ids: ids of the layers; None takes a mapping's keys, or counts from 0.
            heads: columns of each order; None divides the columns among the orders.
            mix: how products become one value: "xor", or "sum" for polynomials.
            column_numbering: "order-major" (column = order index * heads + head), or "function-major" (head * orders +
                order index), which needs `mix="sum"`.
            align: the token that multiplier 0 belongs to: "newest" (the current one) or "oldest" (N - 1 before it).
            word_bits: 64 or 32, the width at which products and mix wrap.
            fill: the value of a look-back that cannot be reached; a compressed id if there is a token map.
            boundary_ids: raw ids after which look-back stops.
            id_limit: raw ids are below this; None takes the token map's length, or sets no limit.
            negative_ids: "error" refuses negative ids, "enter" hashes them as they are.
            too_large_ids: likewise for ids from `id_limit` on; None refuses them if there is a limit.
            token_map: the token map that compresses the ids; None hashes raw ids.
            adds_offsets: whether rows count through the joint table; None does if `offsets` are given.
            name: the layout's name, which does not decide whether layouts are equal.

        Raises:
            ValueError: a number or choice is wrong, or two arguments do not fit; the message names the argument.
            TypeError: an argument has a wrong type; likewise.

        >>> layout = HashLayout.from_numbers(multipliers=[3, 5, 7], moduli=[101, 103], orders=[2, 3], layer_ids=[4])
        >>> layout.heads, layout.rows[4], layout.offsets[4].tolist()
        (1, 204, [0, 101])
        >>> same = HashLayout.from_numbers(multipliers=layout.multipliers, moduli=layout.moduli, orders=layout.orders)
        >>> same == layout
        True
        """
        choices = _numbers.Choices(
            heads=heads,
            mix=mix,
            column_numbering=column_numbering,
            align=align,
            word_bits=word_bits,
            fill=fill,
            boundary_ids=boundary_ids,
            id_limit=id_limit,
            negative_ids=negative_ids,
            too_large_ids=too_large_ids,
            adds_offsets=adds_offsets,
        )
        document = _numbers.document(
            multipliers, moduli, offsets, orders, rows, layer_ids, choices, token_map=token_map, name=name
        )
        try:
            return cls.from_json(_text(document))
        except ValueError as error:
            raise _numbers.renamed(error, [layer["layer_id"] for layer in document["layers"]]) from None

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the layout that `to_json` wrote; every number is checked.

        The text may end with a field "digest", as the file of `NgramHasher.save` does: the numbers must have it.

        Raises:
            ValueError: the text is no layout (the message names the field), or its numbers have another digest.
            TypeError: `text` is no string.
        """
        match = _DIGEST.search(text) if isinstance(text, str) else None
        if match is None:
            return super().from_json(text)
        layout = super().from_json(text[: match.start()] + "}")
        if layout.digest != match[1]:
            raise ValueError(
                f"digest: the numbers have the digest {layout.digest}, but the text says {match[1][:80]}: somebody "
                "changed it after it was saved"
            )
        return layout

    def to_json_with_digest(self) -> str:
        """Return `to_json`'s text with the layout's digest as its last field, which `from_json` checks."""
        return f'{self.to_json()[:-1]},"digest":"{self.digest}"}}'

    @property
    def nbytes(self) -> int:
        """The bytes of the numbers: multipliers, moduli and offsets of all layers, 8 bytes each."""
        arrays = [array for numbers in (self.multipliers, self.moduli, self.offsets) for array in numbers.values()]
        return sum(array.nbytes for array in arrays)

    def with_boundary(self, eos: int | Sequence[int]) -> Self:
        """Return the same layout, with look-back stopping after these raw token ids too.

        The ids are tested before compression; such a token still reads the tokens before it.

        Args:
            eos: one id, or a list, array or CPU tensor of ids.

        Raises:
            ValueError: an id is none of the layout's.
            TypeError: `eos` holds no integers.

        >>> HashLayout.preset("longcat").with_boundary([0, 1]).boundary_ids
        (0, 1, 2)
        """
        low = -(2**63)
        several = _checks.is_list(eos)
        ids = _checks.integers("eos", eos, low, most=256) if several else [_checks.integer("eos", eos, low)]
        for token_id in ids:
            limit = self.id_limit if self.too_large_ids == "error" else None
            beyond = limit is not None and token_id >= limit
            if beyond or (token_id < 0 and (self.id_limit is not None or self.negative_ids == "error")):
                known = "0 or more" if limit is None else f"in 0..{limit - 1}"
                raise ValueError(f"eos: {token_id} is not a token id of this layout, whose ids are {known}")
        document = json.loads(self.to_json())
        document["boundary_ids"] = sorted({*self.boundary_ids, *ids})
        return type(self).from_json(_text(document))


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)
