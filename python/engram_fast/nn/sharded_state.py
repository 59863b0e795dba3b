"""A table's rows of some heads as a part of the whole table: in states, checkpoints and the states of optimizers.

The processes' parts differ in size, which torch's `Shard` cannot say. A `HeadShards` knows its rows, so distributed
checkpoints write and read it in place, and gathering gives the whole table. Needs torch 2.6 or later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType
from torch.distributed.device_mesh import DeviceMesh
from torch.optim.optimizer import register_optimizer_step_pre_hook

try:
    from torch.distributed.tensor import DTensor, Replicate, Shard
except ImportError:  # torch 2.4
    from torch.distributed._tensor import DTensor, Replicate, Shard  # type: ignore[attr-defined]


@dataclass(frozen=True)
class HeadPlacement:
    """Which rows of a table each process of a mesh holds, in the order of the processes."""

    counts: tuple[int, ...]
    mesh: DeviceMesh

    @property
    def rows(self) -> slice:
        """The rows of this process."""
        place = self.mesh.get_local_rank()
        start = sum(self.counts[:place])
        return slice(start, start + self.counts[place])

    @property
    def all_rows(self) -> int:
        """The number of rows of the whole table."""
        return sum(self.counts)

    def gather(self, part: Tensor) -> Tensor:
        """Return the whole of which each process has the `part` of its rows; all processes must call it."""
        padded = part.new_zeros((max(self.counts), *part.shape[1:]))
        padded[: len(part)] = part
        parts = [torch.empty_like(padded) for _ in self.counts]
        dist.all_gather(parts, padded, group=self.mesh.get_group())
        return torch.cat([piece[:count] for piece, count in zip(parts, self.counts, strict=True)])

    def part_of(self, name: str, value: Tensor) -> Tensor:
        """Return this process's rows of `value`: the whole table, a part of it, or a distributed tensor.

        Raises:
            ValueError: a part that is another process's, or that two processes might own.
        """
        rows = self.rows
        if isinstance(value, HeadShards) and value.placement.rows == rows:
            return value._local_tensor
        if isinstance(value, DTensor):
            value = value.full_tensor()
        if value.shape[:1] == (self.all_rows,):
            return value[rows]
        own, saved = (rows.start, self.all_rows), getattr(value, "part_of_table", None)
        if saved == own or (
            saved is None
            and self.counts.count(len(value)) == 1
            and len(value) == self.counts[self.mesh.get_local_rank()]
        ):
            return value
        held = "of a process that it does not name" if saved is None else f"from row {saved[0]} of {saved[1]}"
        raise ValueError(
            f"{name} holds {len(value)} rows {held}; this process has the rows {rows.start} to {rows.stop - 1} of "
            f"{self.all_rows}: load the whole table, or the state that this process saved"
        )


class HeadShards(DTensor):
    """This process's rows of a table [rows, ...], with the shape of the whole table. Made by `head_shards`."""

    placement: HeadPlacement

    def redistribute(self, device_mesh: Any = None, placements: Sequence[Any] | None = None, **options: Any) -> DTensor:
        """Return the whole table on every process, or a table that torch can cut; all processes must call it."""
        whole = DTensor.from_local(
            self.placement.gather(self._local_tensor), self.device_mesh, [Replicate()], run_check=False
        )
        return whole.redistribute(device_mesh, placements, **options)

    def full_tensor(self, **_options: Any) -> Tensor:
        """Return the whole table; all processes must call it."""
        return self.placement.gather(self._local_tensor)

    def detach(self) -> HeadShards:
        """Return the same rows without a graph."""
        return head_shards(self._local_tensor.detach(), self.placement)

    def clone(self, **options: Any) -> HeadShards:
        """Return a copy of the rows."""
        return head_shards(self._local_tensor.clone(**options), self.placement)

    def to(self, *arguments: Any, **options: Any) -> HeadShards:
        """Return the rows on another device or in another dtype."""
        return head_shards(self._local_tensor.to(*arguments, **options), self.placement)

    def cpu(self, *arguments: Any, **options: Any) -> HeadShards:
        """Return the rows on the CPU."""
        return head_shards(self._local_tensor.cpu(*arguments, **options), self.placement)

    def __deepcopy__(self, _memo: dict[int, Any]) -> HeadShards:
        return self.clone()

    def __reduce_ex__(self, _protocol: Any) -> tuple[Any, ...]:
        part = self._local_tensor.detach()
        return _saved_part, (part, self.placement.rows.start, self.placement.all_rows)

    def __create_write_items__(self, name: str, _object: Any) -> list[WriteItem]:
        chunk = self._chunk()
        properties = TensorProperties.create_from_tensor(self._local_tensor)
        data = TensorWriteData(chunk=chunk, properties=properties, size=self.size())
        return [WriteItem(index=MetadataIndex(name, chunk.offsets), type=WriteItemType.SHARD, tensor_data=data)]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return [self._chunk()]

    def __get_tensor_shard__(self, _index: MetadataIndex) -> Tensor:
        return self._local_tensor

    def _chunk(self) -> ChunkStorageMetadata:
        first = [self.placement.rows.start] + [0] * (self.ndim - 1)
        return ChunkStorageMetadata(offsets=torch.Size(first), sizes=self._local_tensor.shape)


def head_shards(part: Tensor, placement: HeadPlacement) -> HeadShards:
    """Return this process's rows as a part of the whole; they share memory."""
    shape = torch.Size([placement.all_rows, *part.shape[1:]])
    stride = torch.empty(shape, device="meta").stride()
    even = DTensor.from_local(part, placement.mesh, [Shard(0)], run_check=False, shape=shape, stride=stride)
    shards: Any = DTensor.__new__(HeadShards, part, even._spec, requires_grad=False)
    shards.placement = placement
    return shards


def _saved_part(part: Tensor, first_row: int, all_rows: int) -> Tensor:
    """What `torch.load` gives for a saved `HeadShards`: the rows, which remember where they belong."""
    part.part_of_table = (first_row, all_rows)  # type: ignore[attr-defined]
    return part


torch.serialization.add_safe_globals([_saved_part])


def follow_heads(optimizer: torch.optim.Optimizer, *_step: Any) -> None:
    """Let the states of `optimizer` name the rows that they belong to, if a parameter holds some heads of a table."""
    if "_follows_heads" in vars(optimizer) or not any(placement_of(p) for p in _parameters(optimizer)):
        return
    vars(optimizer)["_follows_heads"] = True
    optimizer.register_state_dict_post_hook(_state_to_shards)
    optimizer.register_load_state_dict_pre_hook(_state_to_parts)


# Optimizers are made by their users; at the first step each is known, and none has a state before.
register_optimizer_step_pre_hook(follow_heads)


def placement_of(parameter: Tensor) -> HeadPlacement | None:
    """Return which rows of its table a parameter holds, or None for any other parameter."""
    return getattr(parameter, "head_placement", None)


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _state_to_shards(optimizer: torch.optim.Optimizer, state_dict: dict[str, Any]) -> dict[str, Any]:
    numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
    states = dict(state_dict["state"])
    for number, parameter in zip(numbers, _parameters(optimizer), strict=True):
        placement = placement_of(parameter)
        if placement is not None and number in states:
            states[number] = {
                name: head_shards(value, placement) if _has_rows(value, len(parameter)) else value
                for name, value in states[number].items()
            }
    return {**state_dict, "state": states}


def _state_to_parts(optimizer: torch.optim.Optimizer, state_dict: dict[str, Any]) -> dict[str, Any]:
    numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
    states = dict(state_dict["state"])
    for number, parameter in zip(numbers, _parameters(optimizer), strict=True):
        placement = placement_of(parameter)
        if placement is not None and number in states:
            states[number] = {
                name: placement.part_of(f"the optimizer's {name}", value)
                if isinstance(value, Tensor) and value.ndim
                else value
                for name, value in states[number].items()
            }
    return {**state_dict, "state": states}


def _has_rows(value: Any, rows: int) -> bool:
    return isinstance(value, Tensor) and value.shape[:1] == (rows,)
