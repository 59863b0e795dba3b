"""Tables that are larger than one process: sharded by rows or by whole heads over a torch device mesh.

Rows: torch's own ``RowwiseParallel`` (the table becomes a DTensor with ``Shard(0)``). Heads: each process owns the rows
of some heads, reads only those, and DTensor exchanges the vectors; gradients may then be sparse.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import RowwiseParallel, parallelize_module

try:
    from torch.distributed.tensor import DTensor, Replicate, Shard
except ImportError:  # torch 2.4
    from torch.distributed._tensor import DTensor, Replicate, Shard

from engram_fast.nn.engram_v41 import EngramV41
from engram_fast.nn.multi_head_embedding import MultiHeadEmbedding
from engram_fast.nn.row_check import check_rows, table_rows


def shard_tables(model: nn.Module, mesh: DeviceMesh, *, by: str = "rows", batch_sharded: bool = False) -> nn.Module:
    """Shard every n-gram table of ``model`` in place over a mesh of one axis; returns the model.

    To be called before the optimizer is made: the tables become other parameters.

    Args:
        by: "rows" cuts the table into equal parts; "heads" gives each process whole heads (not for ``EngramV41``).
        batch_sharded: False: all processes pass the same batch. True: each passes its own, of equal shape (data
            parallelism); the gradient of the table is then the sum over all processes.
    """
    if by not in ("rows", "heads"):
        raise ValueError(f"by={by!r} is not known; accepted are 'rows' and 'heads'")
    if mesh.ndim != 1:
        raise ValueError(f"the mesh has {mesh.ndim} axes; pass the one to shard over, as in mesh['tensor']")
    if isinstance(model, MultiHeadEmbedding) and by == "heads":
        return HeadShardedEmbedding(model, mesh, batch_sharded=batch_sharded)
    for module in list(model.modules()):
        if by == "rows" and isinstance(module, (MultiHeadEmbedding, EngramV41)):
            _shard_rows(module, mesh, batch_sharded)
        elif by == "heads" and isinstance(module, EngramV41):
            raise ValueError("the table of EngramV41 is sharded by rows only: by='rows'")
        elif by == "heads":
            for name, child in list(module.named_children()):
                if isinstance(child, MultiHeadEmbedding):
                    setattr(module, name, HeadShardedEmbedding(child, mesh, batch_sharded=batch_sharded))
    return model


def _shard_rows(module: nn.Module, mesh: DeviceMesh, batch_sharded: bool) -> None:
    name = "embed" if isinstance(module, EngramV41) else "embedding"
    table = getattr(module, name)
    if not isinstance(table, nn.Embedding):
        raise TypeError(f"only float tables can be sharded by rows, not {type(table).__name__}")
    if table.sparse:
        raise ValueError("DTensor has no sparse gradients: shard by='heads', or make the table with sparse=False")
    layout = Shard(0) if batch_sharded else Replicate()
    parallelize_module(module, mesh, {name: RowwiseParallel(input_layouts=layout, output_layouts=layout)})


class HeadShardedEmbedding(MultiHeadEmbedding):
    """As ``MultiHeadEmbedding``, with the rows of this process's heads only.

    A whole table can be loaded (each process takes its part); ``state_dict`` holds the part, ``full_table`` the whole.
    """

    def __init__(self, source: MultiHeadEmbedding, mesh: DeviceMesh, *, batch_sharded: bool = False) -> None:
        nn.Module.__init__(self)
        heads, processes, place = len(source.sizes), mesh.size(), mesh.get_local_rank()
        each = -(-heads // processes)  # as DTensor cuts an axis
        if each * (processes - 1) >= heads:
            raise ValueError(f"{heads} heads cannot be shared by {processes} processes, each with {each} of them")
        self.sizes, self.dim, self.init_std = source.sizes, source.dim, source.init_std
        self.rows_have_offsets, self.mesh, self.batch_sharded = source.rows_have_offsets, mesh, batch_sharded
        self.heads = slice(place * each, min(heads, (place + 1) * each))
        starts = [sum(source.sizes[:head]) for head in range(heads + 1)]
        self.rows = slice(starts[self.heads.start], starts[self.heads.stop])
        whole = source.embedding
        self.embedding = nn.Embedding.from_pretrained(
            whole.weight.detach()[self.rows].clone(), freeze=not whole.weight.requires_grad, sparse=whole.sparse
        )
        self.register_buffer("offsets", source.offsets.clone())
        self.register_buffer("head_sizes", source.head_sizes.clone(), persistent=False)
        self.register_load_state_dict_post_hook(self._leave_meta)

    def forward(self, rows: Tensor) -> Tensor:
        rows = check_rows(rows, len(self.sizes))
        rows = table_rows(rows, self.head_sizes, self.offsets, self.rows_have_offsets)
        if self.batch_sharded:
            rows = DTensor.from_local(rows, self.mesh, [Shard(0)], run_check=False).full_tensor()
        own = self.embedding(rows[..., self.heads] - self.rows.start)
        shape = torch.Size([*rows.shape, self.dim])
        stride = torch.empty(shape, device="meta").stride()
        heads_axis = Shard(rows.ndim - 1)
        vectors = DTensor.from_local(own, self.mesh, [heads_axis], run_check=False, shape=shape, stride=stride)
        return vectors.redistribute(placements=[Shard(0) if self.batch_sharded else Replicate()]).to_local()

    @torch.no_grad()
    def full_table(self) -> Tensor:
        """The whole table [sum of sizes, dim], on every process; all must call it."""
        counts = [0] * self.mesh.size()
        dist.all_gather_object(counts, self.rows.stop - self.rows.start, group=self.mesh.get_group())
        padded = self.weight.new_zeros((max(counts), self.dim))
        padded[: counts[self.mesh.get_local_rank()]] = self.weight
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded, group=self.mesh.get_group())
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    def _load_from_state_dict(self, state_dict, prefix, *arguments) -> None:
        name = prefix + "embedding.weight"
        given = state_dict.get(name)
        if given is not None and given.shape[0] == sum(self.sizes):
            state_dict[name] = given[self.rows]
        super()._load_from_state_dict(state_dict, prefix, *arguments)
