"""Sharded tables against one process, in two gloo processes; run as a program."""

from __future__ import annotations

import copy
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from engram_fast.nn import Engram, EngramV41, RowwiseAdagrad, param_groups
from engram_fast.nn.sharding import HeadShardedTable, shard_tables
from torch.distributed.device_mesh import init_device_mesh

WORLD = 2
SIZES = [11, 13, 17]  # three heads and 41 rows: neither divides by two


def near(got, want, what: str) -> None:
    off = float((got - want).abs().max() / want.abs().max().clamp_min(1e-30))
    assert got.shape == want.shape, (what, got.shape, want.shape)
    assert off < 1e-5, f"{what} is off by {off}"


def full(tensor):
    tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return tensor.to_dense() if tensor.is_sparse else tensor


def demo(sparse: bool) -> Engram:
    torch.manual_seed(0)
    return Engram(hidden_size=8, hc_mult=2, sizes=SIZES, head_dim=4, sparse=sparse)


def check_demo(mesh, by: str, batch_sharded: bool, sparse: bool) -> None:
    single = demo(sparse)
    sharded = shard_tables(copy.deepcopy(single), mesh, by=by, batch_sharded=batch_sharded)
    torch.manual_seed(1)
    hidden = torch.randn(4, 5, 2, 8)
    rows = torch.stack([torch.randint(0, size, (4, 5)) for size in SIZES], -1)
    mine = slice(2 * dist.get_rank(), 2 * dist.get_rank() + 2) if batch_sharded else slice(None)
    optimizers = []
    for model in (single, sharded):
        table = next(g for g in param_groups(model, lr=0.1) if g["name"] == "tables")
        optimizers.append(RowwiseAdagrad([table]))
    for _ in range(2):
        single.zero_grad(), sharded.zero_grad()
        want, got = single(hidden, rows), sharded(hidden[mine], rows[mine])
        near(got, want[mine], "output")
        want.square().sum().backward()
        got.square().sum().backward()
        place = sharded.multi_head_embedding.embedding
        part = place.rows if isinstance(place, HeadShardedTable) else slice(None)
        near(full(place.weight.grad), full(single.multi_head_embedding.weight.grad)[part], "gradient of the table")
        for (name, p), q in zip(single.named_parameters(), sharded.parameters(), strict=True):
            if "embedding" not in name:
                if batch_sharded:
                    dist.all_reduce(q.grad)
                near(q.grad, p.grad, name)
        for optimizer in optimizers:
            optimizer.step()
        near(full(place.weight.detach()), single.multi_head_embedding.weight.detach()[part], "table after the step")
    if isinstance(place, HeadShardedTable):
        near(place.full_table(), single.multi_head_embedding.weight.detach(), "whole table")
        sharded.load_state_dict(demo(sparse).state_dict())
        near(place.weight.detach(), demo(sparse).multi_head_embedding.weight.detach()[part], "loaded table")
    rows[0, 0, 1] = 13
    try:
        sharded(hidden, rows)
    except IndexError:
        return
    raise AssertionError("a row of another head was accepted")


def v41(sparse: bool) -> EngramV41:
    """Four heads with 41 rows together, and two rows that belong to no head."""
    torch.manual_seed(0)
    options = {"hidden_size": 8, "hc_mult": 2, "head_dim": 4, "n_heads": 2, "max_ngram_size": 3}
    return EngramV41(**options, num_embeddings=43, sizes=[5, 7, 12, 17], sparse=sparse)


def check_v41(mesh, by: str, batch_sharded: bool, sparse: bool) -> None:
    single = v41(sparse)
    sharded = shard_tables(copy.deepcopy(single), mesh, by=by, batch_sharded=batch_sharded)
    hidden = torch.randn(4, 5, 2, 8)
    rows = single.head_starts + torch.stack([torch.randint(0, size, (4, 5)) for size in single.sizes], -1)
    mine = slice(2 * dist.get_rank(), 2 * dist.get_rank() + 2) if batch_sharded else slice(None)
    want, got = single(hidden, rows), sharded(hidden[mine], rows[mine])
    near(got, want[mine], "output")
    want.square().sum().backward()
    got.square().sum().backward()
    part = sharded.embed.rows if by == "heads" else slice(None)
    near(full(sharded.embed.weight.grad), full(single.embed.weight.grad)[part], "gradient of the table")
    if by == "heads":
        near(sharded.embed.full_table(), single.embed.weight.detach(), "whole table")
        single.embed.weight.data.mul_(2)
        sharded.load_state_dict(single.state_dict())
        near(sharded.embed.weight.detach(), single.embed.weight.detach()[part], "loaded table")


def worker(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=WORLD)
    mesh = init_device_mesh("cpu", (WORLD,))
    for batch_sharded in (False, True):
        check_demo(mesh, "rows", batch_sharded, sparse=False)
        check_demo(mesh, "heads", batch_sharded, sparse=False)
        check_demo(mesh, "heads", batch_sharded, sparse=True)
        check_v41(mesh, "rows", batch_sharded, sparse=False)
        check_v41(mesh, "heads", batch_sharded, sparse=False)
        check_v41(mesh, "heads", batch_sharded, sparse=True)
    dist.barrier()  # neither leaves while the other still talks to it
    dist.destroy_process_group()
    if rank == 0:
        print("equal", flush=True)
    # Threads of gloo may outlive the group, and abort a process that is torn down around them (once in thirty runs).
    os._exit(0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(worker, args=(folder,), nprocs=WORLD)
    sys.stdout.flush()
