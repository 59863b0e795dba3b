"""`HashLayout`: the numbers of one model, by preset, by the model's configuration, or from JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from typing import Any

from .. import _checks, _core
from . import presets as _presets
from .model_config import recognise


def presets() -> list[str]:
    """The names that `HashLayout.preset` takes."""
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
    def preset(cls, name: str, *, token_map: Any = None, **overrides: Any) -> HashLayout:
        """The layout of a published model; `overrides` are its parameters under their published names.

        Presets with compressed ids need the `TokenMap` that compresses them. ValueError (or TypeError for a wrong type)
        names the parameter as it was spelled here.
        """
        return cls.from_json(_text(_presets.find(name).document(overrides, token_map)))

    @staticmethod
    def presets() -> list[str]:
        """The names that `preset` takes."""
        return presets()

    @classmethod
    def from_hf_config(
        cls, path_or_dict: str | PathLike[str] | Mapping[str, Any], *, token_map: Any = None
    ) -> HashLayout:
        """The layout of a model by its configuration: a dict, a `config.json`, or the folder that holds one.

        `engram_fast.hf_config.recognise` says what it is taken for; so do the result's `.name` and `.parameters`.
        """
        found = recognise(path_or_dict)
        try:
            return cls.preset(found.preset, token_map=token_map, **found.parameters)
        except (ValueError, TypeError) as error:
            raise type(error)(f"{error} ({found.describe()})") from None

    def with_boundary(self, eos: int | list[int]) -> HashLayout:
        """The same layout, with look-back stopping after these raw token ids as well.

        The ids are tested before compression, and such a token keeps its own look-back.

        >>> HashLayout.preset("longcat").with_boundary([0, 1]).boundary_ids
        (0, 1, 2)
        """
        one = not isinstance(eos, (list, tuple, range)) and not getattr(eos, "shape", ())
        low = -(2**63)
        ids = [_checks.integer("eos", eos, low)] if one else _checks.integers("eos", eos, low, most=256)
        for token_id in ids:
            limit = self.id_limit if self.too_large_ids == "error" else None
            beyond = limit is not None and token_id >= limit
            if beyond or (token_id < 0 and (self.id_limit is not None or self.negative_ids == "error")):
                known = "0 or more" if limit is None else f"in 0..{limit - 1}"
                raise ValueError(f"eos: {token_id} is not a token id of this layout, which are {known}")
        document = json.loads(self.to_json())
        document["boundary_ids"] = sorted({*self.boundary_ids, *ids})
        return type(self).from_json(_text(document))


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)
