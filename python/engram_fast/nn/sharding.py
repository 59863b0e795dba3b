"""Tables that are larger than one process: sharded by rows or by whole heads over a torch device mesh.

Rows: torch's own ``RowwiseParallel`` (the table becomes a DTensor with ``Shard(0)``). Heads: each process owns the rows
of some heads, reads only those, and DTensor exchanges the vectors; gradients may then be sparse.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import RowwiseParallel, parallelize_module

try:
    from torch.distributed.tensor import DTensor, Replicate, Shard
except ImportError:  # torch 2.4
    from torch.distributed._tensor import DTensor, Replicate, Shard  # type: ignore[attr-defined]

from .embedding import MultiHeadEmbedding
from .engram_v41 import EngramV41


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

    A whole table can be loaded (each process takes its part); ``state_dict`` holds the part, ``full_table`` the whole.
    Rows behind the last head's belong to the last process.
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
        self.rows, self.all_rows = slice(starts[self.heads.start], starts[self.heads.stop]), table.num_embeddings
        own = table.weight.detach()[self.rows].clone()
        super().__init__(len(own), table.embedding_dim, sparse=table.sparse, _weight=own)
        self.weight.requires_grad_(table.weight.requires_grad)
        self.mesh, self.batch_sharded = mesh, batch_sharded

    def forward(self, rows: Tensor) -> Tensor:
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
        """The whole table, on every process; all must call it."""
        counts = [0] * self.mesh.size()
        dist.all_gather_object(counts, self.num_embeddings, group=self.mesh.get_group())
        padded = self.weight.new_zeros((max(counts), self.embedding_dim))
        padded[: self.num_embeddings] = self.weight
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded, group=self.mesh.get_group())
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    def _load_from_state_dict(self, state_dict, prefix, *arguments) -> None:
        name = prefix + "weight"
        given = state_dict.get(name)
        if given is not None and given.shape[0] == self.all_rows:
            state_dict[name] = given[self.rows]
        super()._load_from_state_dict(state_dict, prefix, *arguments)
