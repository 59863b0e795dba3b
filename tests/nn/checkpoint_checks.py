"""Saves and loads sharded tables and their optimizers with torch.distributed.checkpoint; run as a program.

    python checkpoint_checks.py save|load|other FOLDER PROCESSES

`save` trains two steps and saves, once for each pair of sharding and optimizer. `load` reads what any number of
processes saved into other weights and takes the third step. Every process compares with the training in one piece.
`other` tries torch.save, safetensors and accelerate.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import accelerate
import pytest
import safetensors.torch
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from engram_fast.nn import Engram, EngramV41, RowwiseAdagrad, param_groups
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh

SIZES = [11, 13, 17]  # three heads and 41 rows: neither divides by two
EQUAL = [6, 6, 6, 6]  # both processes have parts of the same shape


class Model(nn.Module):
    """Two memories and a layer beside them."""

    def __init__(self, sparse: bool, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.demo = Engram(hidden_size=8, hc_mult=2, sizes=SIZES, head_dim=4, sparse=sparse)
        options = {"hidden_size": 8, "hc_mult": 2, "head_dim": 4, "n_heads": 2, "max_ngram_size": 3}
        self.v41 = EngramV41(**options, num_embeddings=26, sizes=EQUAL, sparse=sparse)
        self.last = nn.Linear(8, 8)

    def forward(self, hidden: Tensor, rows: Tensor, rows_v41: Tensor) -> Tensor:
        return self.last(self.v41(hidden + self.demo(hidden, rows), rows_v41))


def batch(step: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(100 + step)
    hidden = torch.randn(2, 5, 2, 8, generator=generator)
    rows = torch.stack([torch.randint(0, size, (2, 5), generator=generator) for size in SIZES], -1)
    starts = torch.tensor([0, 6, 12, 18])
    return hidden, rows, starts + torch.randint(0, 6, (2, 5, 4), generator=generator)


def build(sharding: str, optimizer: str, seed: int) -> tuple[nn.Module, list[torch.optim.Optimizer]]:
    model: nn.Module = Model(optimizer == "SparseAdam" or optimizer.startswith("sparse "), seed)
    if dist.is_initialized() and sharding != "none":
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        if sharding == "fsdp2":
            from torch.distributed.fsdp import fully_shard

            model = fully_shard(model, mesh=mesh)
        else:
            from engram_fast.nn.sharding import shard_tables

            shard_tables(model, mesh, by=sharding)
    makers = {
        "RowwiseAdagrad": RowwiseAdagrad,
        "sparse RowwiseAdagrad": RowwiseAdagrad,
        "AdamW": torch.optim.AdamW,
        "SparseAdam": torch.optim.SparseAdam,
        "momentum": lambda params: torch.optim.SGD(params, momentum=0.9),
    }
    rest, tables = param_groups(model, lr=0.05)
    tables.pop("weight_decay")
    return model, [torch.optim.AdamW([rest]), makers[optimizer]([tables])]


def step(model: nn.Module, optimizers: list[torch.optim.Optimizer], number: int) -> None:
    model.zero_grad()
    model(*batch(number)).square().sum().backward()
    for optimizer in optimizers:
        optimizer.step()


def full(value: object) -> object:
    value = value.full_tensor() if hasattr(value, "full_tensor") else value
    return value.to_dense() if isinstance(value, Tensor) and value.is_sparse else value


def check(model: nn.Module, optimizers: list, single: nn.Module, of_single: list, what: str) -> None:
    """All weights and states equal those of the training in one piece, up to the order of sums."""
    pairs = [(name, full(model.state_dict()[name]), full(value)) for name, value in single.state_dict().items()]
    for mine, other in zip(optimizers, of_single, strict=True):
        got, want = mine.state_dict()["state"], other.state_dict()["state"]
        assert got.keys() == want.keys(), (what, got.keys(), want.keys())
        pairs += [(f"{n}.{name}", full(got[n][name]), value) for n, s in want.items() for name, value in s.items()]
    for name, got, want in pairs:
        got, want = torch.as_tensor(full(got)).double(), torch.as_tensor(full(want)).double()
        assert got.shape == want.shape, (what, name, got.shape, want.shape)
        off = float((got - want).abs().max())
        assert off <= 1e-5 * max(1.0, float(want.abs().max())), (what, name, off)


def trained(optimizer: str, steps: int) -> tuple[nn.Module, list[torch.optim.Optimizer]]:
    """The training in one piece."""
    single, of_single = build("none", optimizer, seed=0)
    for number in range(steps):
        step(single, of_single, number)
    return single, of_single


def save(sharding: str, optimizer: str, folder: str) -> None:
    single, of_single = trained(optimizer, 2)
    model, optimizers = build(sharding, optimizer, seed=0)
    for number in range(2):
        step(model, optimizers, number)
    check(model, optimizers, single, of_single, "before saving")
    dcp.save(raw_state(model, optimizers), checkpoint_id=f"{folder}/raw")
    dcp.save(named_state(model, optimizers), checkpoint_id=f"{folder}/named")
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = get_model_state_dict(model, options=whole)
    states = get_optimizer_state_dict(model, optimizers, options=whole)
    if dist.get_rank() == 0:
        for name, value in single.state_dict().items():
            assert torch.allclose(state[name], value, atol=1e-5), ("whole", name)
        torch.save((state, states), f"{folder}/whole.pt")


def load(sharding: str, optimizer: str, folder: str) -> None:
    single, of_single = trained(optimizer, 3)
    same = Path(folder).name.split("-")[1] in (sharding, "none") or sharding == "none"
    for way in ("raw", "named", "whole") if same else ("named",):
        model, optimizers = build(sharding, optimizer, seed=7)
        if way == "raw":
            if optimizer == "SparseAdam":
                continue  # its steps are numbers, for which torch reads the parameters' numbers as text
            step(model, optimizers, 9)  # a state of the right shapes to read into
            state = raw_state(model, optimizers)
            dcp.load(state, checkpoint_id=f"{folder}/raw")
            model.load_state_dict(state["model"])
            for one, loaded in zip(optimizers, state["optimizers"], strict=True):
                one.load_state_dict(loaded)
        else:
            if optimizer == "SparseAdam":
                step(model, optimizers, 9)  # torch makes an empty state with dense gradients, which this one refuses
            if way == "named":
                named = named_state(model, optimizers)
                dcp.load(named, checkpoint_id=f"{folder}/named")
                weights, states, options = named["model"], named["optimizer"], None
            else:
                weights, states = torch.load(f"{folder}/whole.pt", weights_only=True)
                options = StateDictOptions(full_state_dict=True)
            set_state_dict(model, optimizers, model_state_dict=weights, optim_state_dict=states, options=options)
        step(model, optimizers, 2)
        check(model, optimizers, single, of_single, f"{folder} {way}")


def refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises((RuntimeError, ValueError), match=words):
        call()


def other_ways(sharding: str, folder: str) -> None:
    """Equal values, or a refusal before a file is there."""
    model, optimizers = build(sharding, "RowwiseAdagrad", seed=0)
    step(model, optimizers, 0)
    rank, path = dist.get_rank(), Path(folder) / sharding
    path.mkdir(exist_ok=True)
    words = "invalid python storage"  # torch's, for tensors that are distributed
    refused(lambda: safetensors.torch.save_file(model.state_dict(), path / f"{rank}.safetensors"), words)
    refused(lambda: safetensors.torch.save_model(model, str(path / f"{rank}.model.safetensors")), words)
    assert not list(path.glob("*.safetensors"))
    torch.save((model.state_dict(), optimizers[1].state_dict()), path / f"{rank}.pt")
    dist.barrier()
    if sharding == "fsdp2":
        accelerate.state.AcceleratorState._reset_state()
    else:
        accelerator = accelerate.Accelerator(cpu=True)
        accelerator._models.append(model)
        refused(lambda: accelerator.save_state(str(path / "state")), words)
        refused(lambda: accelerator.save_model(model, str(path / "model")), words)
        accelerator._models.clear()
        assert not list(path.glob("*/*.safetensors"))
    other, of_other = build(sharding, "RowwiseAdagrad", seed=5)
    weights, states = torch.load(path / f"{rank}.pt", weights_only=True)
    other.load_state_dict(weights)
    of_other[1].load_state_dict(states)
    check(other, of_other[1:], model, optimizers[1:], "torch.save")
    if sharding == "heads":
        weights, states = torch.load(path / f"{1 - rank}.pt", weights_only=True)
        refused(lambda: other.load_state_dict(weights), "load the whole table")
        refused(lambda: of_other[1].load_state_dict(states), "load the whole table")
        plain = {name: full(value).clone() for name, value in weights.items()}
        del plain["demo.multi_head_embedding.embedding.weight"]
        refused(lambda: other.load_state_dict(plain, strict=False), "of a process that it does not name")
        check(other, of_other[1:], model, optimizers[1:], "after refusals")


def raw_state(model: nn.Module, optimizers: list[torch.optim.Optimizer]) -> dict[str, object]:
    return {"model": model.state_dict(), "optimizers": [optimizer.state_dict() for optimizer in optimizers]}


def named_state(model: nn.Module, optimizers: list[torch.optim.Optimizer]) -> dict[str, object]:
    weights, states = get_state_dict(model, optimizers)
    return {"model": weights, "optimizer": states}


def pairs(world: int) -> list[tuple[str, str]]:
    """Shardings and optimizers that go together, for so many processes."""
    everywhere, sparse = ["RowwiseAdagrad", "AdamW"], ["sparse RowwiseAdagrad", "SparseAdam"]
    if world == 1:
        return [("none", optimizer) for optimizer in [*everywhere, *sparse, "momentum"]]
    found = [(sharding, optimizer) for sharding in ("rows", "heads", "fsdp2") for optimizer in everywhere]
    return found + [("heads", optimizer) for optimizer in [*sparse, "momentum"]]


def worker(rank: int, action: str, folder: str, meeting: str, world: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)
    for sharding in ("rows", "heads", "fsdp2") if action == "other" else ():
        other_ways(sharding, folder)
        if rank == 0:
            print(sharding, "refused or equal", flush=True)
    for sharding, optimizer in pairs(world):
        if action == "save":
            save(sharding, optimizer, f"{folder}/{world}-{sharding}-{optimizer}")
        for saved in sorted(Path(folder).glob(f"*-*-{optimizer}")) if action == "load" else []:
            load(sharding, optimizer, str(saved))
            if rank == 0:
                print(f"{saved.name} -> {world}-{sharding}-{optimizer}", flush=True)
    dist.barrier()  # neither leaves while the other still talks to it
    dist.destroy_process_group()
    if rank == 0:
        print("equal", flush=True)
    # Threads of gloo may outlive the group, and abort a process that is torn down around them (once in thirty runs).
    os._exit(0)


if __name__ == "__main__":
    action, folder, world = sys.argv[1:]
    with tempfile.TemporaryDirectory() as meeting:
        mp.spawn(worker, args=(action, folder, str(Path(meeting) / "meeting"), int(world)), nprocs=int(world))
    sys.stdout.flush()
