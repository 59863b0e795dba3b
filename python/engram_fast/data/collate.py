"""`PadCollate`: the collate function that is used if none is given."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .boundaries import Boundaries
from .boundary_names import Kind

# The value of a padded position, per key; 0 for keys that are not named here.
FILL = {"labels": -100, "seq_idx": -1, "segment_ids": -1, "special_tokens_mask": 1}

_FILL_OF_LISTS = {"lengths": 0, "cumulative lengths": -1}


class PadCollate:
    """torch's default collate that also takes lists of ids and examples of different lengths.

    Per-token values (those as long as the ids) become one tensor [B, T]. If the lengths differ, they are padded on the
    right, and `attention_mask` is added unless the examples bring one. Lists of document lengths (`seq_lengths`) are
    padded with 0, cumulative ones with -1. An example without labels among others with labels gets -100. All else goes
    to torch's default collate as it is. No example is changed, and none shares memory with the batch.

    Args:
        pad_token_id: the value of padded ids.
        ids_key: the key of the ids.
        boundary_keys: more names of boundaries with their kinds, as in `EngramCollator`.
    """

    def __init__(
        self, pad_token_id: int = 0, ids_key: str = "input_ids", boundary_keys: Mapping[str, Kind] | None = None
    ) -> None:
        self.pad_token_id = pad_token_id
        self.ids_key = ids_key
        self._boundaries = Boundaries(ids_key, boundary_keys=boundary_keys)

    def __call__(self, examples: Sequence[Any]) -> Any:
        """Return the batch of `examples`; those that are no mapping with ids go to torch's default collate."""
        import torch
        from torch.utils.data import default_collate

        first = examples[0]
        if not isinstance(first, Mapping) or self.ids_key not in first:
            return default_collate(list(examples))
        lengths = [len(example[self.ids_key]) for example in examples]
        batch: dict[str, Any] = {}
        keys = dict.fromkeys(key for example in examples for key in example)
        kinds = dict(self._boundaries.sort(keys).ends)
        for key in keys:
            values = [self._value(example, key, length) for example, length in zip(examples, lengths, strict=True)]
            if kinds.get(key) in _FILL_OF_LISTS and not _are_numbers(values):
                batch[key] = _stack_lists(values, _FILL_OF_LISTS[kinds[key]])
            elif all(_per_token(value, length) for value, length in zip(values, lengths, strict=True)):
                batch[key] = self._stack(key, values, lengths)
            else:
                batch[key] = default_collate(values)
        longest = max(lengths)
        if min(lengths) < longest and "attention_mask" not in batch:
            batch["attention_mask"] = (torch.arange(longest) < torch.tensor(lengths)[:, None]).to(torch.int64)
        return batch

    def _value(self, example: Mapping[str, Any], key: str, length: int) -> Any:
        if key == "labels" and key not in example:
            return np.full(length, FILL["labels"])
        return example[key]

    def _stack(self, key: str, values: list[Any], lengths: list[int]) -> Any:
        import torch
        from torch.utils.data import default_collate

        tensors = [_tensor(value, key == self.ids_key) for value in values]
        longest = max(lengths)
        if min(lengths) == longest:
            return default_collate(tensors)
        fill = self.pad_token_id if key == self.ids_key else FILL.get(key, 0)
        dtype = functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors))  # as stacking them does
        padded = torch.full((len(tensors), longest), fill, dtype=dtype)
        for row, tensor in zip(padded, tensors, strict=True):
            row[: len(tensor)] = tensor
        return padded


def _are_numbers(values: list[Any]) -> bool:
    return all(getattr(value, "ndim", 1 if hasattr(value, "__len__") else 0) == 0 for value in values)


def _stack_lists(values: list[Any], fill: int) -> Any:
    """Return lists of numbers as one tensor [B, longest], filled on the right."""
    import torch

    tensors = [_tensor(value, False) for value in values]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=fill)


def _per_token(value: Any, length: int) -> bool:
    shape = getattr(value, "shape", None)
    if shape is not None:
        return len(shape) == 1 and shape[0] == length
    return isinstance(value, (list, tuple)) and len(value) == length and not (value and isinstance(value[0], str))


def _tensor(value: Any, is_ids: bool) -> Any:
    """Copy into a tensor; ids in a dtype that embeddings refuse, and unsigned integers, become int64."""
    import torch

    if isinstance(value, torch.Tensor):
        return value
    array = np.array(value)
    narrow = is_ids and array.dtype.kind in "iu" and array.dtype.itemsize < 4
    if array.size == 0 or narrow or (array.dtype.kind == "u" and array.dtype.itemsize > 1):
        array = array.astype(np.int64)
    return torch.from_numpy(array)
