"""Tables that are larger than one process: sharded by rows or by whole heads over a torch device mesh.

Rows: torch's own ``RowwiseParallel`` (the table becomes a DTensor with ``Shard(0)``). Heads: each process owns the rows
of some heads, reads only those, and DTensor exchanges the vectors; gradients may then be sparse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import RowwiseParallel, parallelize_module

try:
    from torch.distributed.tensor import DTensor, Replicate, Shard
except ImportError:  # torch 2.4
    from torch.distributed._tensor import DTensor, Replicate, Shard  # type: ignore[attr-defined]

from .embedding import MultiHeadEmbedding
from .engram_v41 import EngramV41
from .sharded_state import HeadPlacement, head_shards


def shard_tables(model: nn.Module, mesh: DeviceMesh, *, by: str = "rows", batch_sharded: bool = False) -> nn.Module:
    """Shard every n-gram table of ``model`` in place over a mesh of one axis; returns the model.

    To be called before the optimizer is made: the tables become other parameters.

    Args:
        by: "rows" cuts the table into equal parts; "heads" gives each process whole heads. An ``EngramV41`` knows its
            heads where it was made with ``sizes`` (``from_config`` with a layout).
        batch_sharded: False: all processes pass the same batch. True: each passes its own, of equal shape (data
            parallelism); the gradient of the table is then the sum over all processes.
    """
    if by not in ("rows", "heads"):
        raise ValueError(f"by={by!r} is not known; accepted are 'rows' and 'heads'")
    if mesh.ndim != 1:
        raise ValueError(f"the mesh has {mesh.ndim} axes; pass the one to shard over, as in mesh['tensor']")
    tables = [
        (module, "embed" if isinstance(module, EngramV41) else "embedding")
        for module in model.modules()
        if isinstance(module, (MultiHeadEmbedding, EngramV41))
    ]
    # All are looked at before the first is replaced.
    for module, name in tables:
        _check_table(getattr(module, name))
        if by == "heads":
            _head_sizes(module)
    for module, name in tables:
        if by == "heads":
            table = HeadShardedTable(getattr(module, name), _head_sizes(module), mesh, batch_sharded=batch_sharded)
            setattr(module, name, table)
        else:
            _shard_rows(module, name, mesh, batch_sharded)
    return model


def _check_table(table: nn.Module) -> None:
    if not isinstance(table, nn.Embedding):
        raise TypeError(f"only float tables can be sharded, not {type(table).__name__}")
    if isinstance(table, HeadShardedTable) or isinstance(table.weight, DTensor):
        raise ValueError(f"a table of {table.num_embeddings} rows is sharded already")


def _head_sizes(module: MultiHeadEmbedding | EngramV41) -> tuple[int, ...]:
    if module.sizes is None:
        raise ValueError(
            "an EngramV41 without sizes does not know which rows are which head's: make it with sizes=, or by='rows'"
        )
    return module.sizes


def _shard_rows(module: nn.Module, name: str, mesh: DeviceMesh, batch_sharded: bool) -> None:
    if getattr(module, name).sparse:
        raise ValueError("DTensor has no sparse gradients: shard by='heads', or make the table with sparse=False")
    layout = Shard(0) if batch_sharded else Replicate()
    parallelize_module(module, mesh, {name: RowwiseParallel(input_layouts=layout, output_layouts=layout)})


class HeadShardedTable(nn.Embedding):
    """The rows of this process's heads, in the place of the whole table: rows [..., C] of all heads to [..., C, dim].

    Rows behind the last head's belong to the last process. ``state_dict`` holds the part as a distributed tensor that
    knows its rows; it loads from the whole table, from any distributed tensor of the whole table's shape, and from the
    part that this process saved. ``full_table`` gives the whole.
    """

    def __init__(
        self, table: nn.Embedding, sizes: Sequence[int], mesh: DeviceMesh, *, batch_sharded: bool = False
    ) -> None:
        heads, processes, place = len(sizes), mesh.size(), mesh.get_local_rank()
        each = -(-heads // processes)  # as DTensor cuts an axis
        if each * (processes - 1) >= heads:
            raise ValueError(f"{heads} heads cannot be shared by {processes} processes, each with {each} of them")
        self.heads = slice(place * each, min(heads, (place + 1) * each))
        starts = [sum(sizes[:head]) for head in range(heads)] + [table.num_embeddings]
        cuts = [starts[min(heads, each * process)] for process in range(processes + 1)]
        self.placement = HeadPlacement(tuple(stop - start for start, stop in pairwise(cuts)), mesh)
        self.rows, self.all_rows = self.placement.rows, table.num_embeddings
        own = table.weight.detach()[self.rows].clone()
        super().__init__(len(own), table.embedding_dim, sparse=table.sparse, _weight=own)
        self.weight.requires_grad_(table.weight.requires_grad)
        self._mark_weight()
        self.mesh, self.batch_sharded = mesh, batch_sharded

    def forward(self, rows: Tensor) -> Tensor:
        """Return the vectors [..., C, dim] of rows [..., C] of all heads, on every process."""
        if self.batch_sharded:
            rows = DTensor.from_local(rows, self.mesh, [Shard(0)], run_check=False).full_tensor()
        own = super().forward(rows[..., self.heads] - self.rows.start)
        shape = torch.Size([*rows.shape, self.embedding_dim])
        stride = torch.empty(shape, device="meta").stride()
        heads_axis = Shard(rows.ndim - 1)
        vectors = DTensor.from_local(own, self.mesh, [heads_axis], run_check=False, shape=shape, stride=stride)
        return vectors.redistribute(placements=[Shard(0) if self.batch_sharded else Replicate()]).to_local()

    @torch.no_grad()
    def full_table(self) -> Tensor:
        """Return the whole table, on every process; all must call it."""
        return self.placement.gather(self.weight.detach())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> HeadShardedTable:
        super()._apply(fn, recurse)
        self._mark_weight()
        return self

    def _mark_weight(self) -> None:
        weight: Any = self.weight
        weight.head_placement = self.placement  # optimizers see the parameter alone

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"] = head_shards(self.weight.detach(), self.placement)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing: list[str],
        unexpected: list[str],
        errors: list[str],
    ) -> None:
        name = prefix + "weight"
        if name in state_dict:
            try:
                state_dict[name] = self.placement.part_of(name, state_dict[name])
            except ValueError as error:
                errors.append(str(error))
                return
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)
