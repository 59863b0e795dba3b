"""Optimisation of tables: one number of state per row, and parameter groups that treat tables as the paper does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from .embedding import MultiHeadEmbedding
from .engram_v41 import EngramV41


class RowwiseAdagrad(torch.optim.Optimizer):
    """Adagrad with one accumulator per row: state += mean(g^2); row -= lr * g / (sqrt(state) + eps).

    Sparse gradients touch the rows of the batch alone; a row whose gradient is zero keeps its exact bits, whatever the
    weight decay (which therefore acts on touched rows only). Dense gradients follow the same rule. Parameters of one
    axis have one accumulator per element.

    Args:
        params: parameters or groups. lr, eps. weight_decay: added to the gradient as weight_decay * row.
        initial_accumulator_value: start of the state.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-2,
        *,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
            if not value >= 0:
                raise ValueError(f"{name} must not be negative, it is {value}")
        if not initial_accumulator_value >= 0:
            raise ValueError(f"initial_accumulator_value must not be negative, it is {initial_accumulator_value}")
        defaults = {"lr": lr, "eps": eps, "weight_decay": weight_decay, "initial": initial_accumulator_value}
        super().__init__(params, defaults)
        if any(hasattr(parameter, "head_placement") for group in self.param_groups for parameter in group["params"]):
            from .sharded_state import follow_heads

            follow_heads(self)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load as any optimizer does; the state keeps its own dtype, and is a copy.

        Raises:
            ValueError: the state has another number of rows than its parameter, as one process's part has. Nothing has
                changed then.
        """
        sums: dict[Tensor, Any] = {}

        def read(_optimizer: torch.optim.Optimizer, state_dict: dict[str, Any]) -> None:
            numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
            parameters = [parameter for group in self.param_groups for parameter in group["params"]]
            for number, parameter in zip(numbers, parameters, strict=False):  # the base class compares the lengths
                if number in state_dict["state"]:
                    sums[parameter] = _sums_for(parameter, state_dict["state"][number]["sum"])

        handle = self.register_load_state_dict_pre_hook(read)  # the last: it sees what the others make of the state
        try:
            super().load_state_dict(state_dict)  # casts to the parameters' dtype: too coarse for sums of squares
        finally:
            handle.remove()
        for parameter, total in sums.items():
            self.state[parameter]["sum"] = total

    def _update(self, parameter: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if "sum" not in state:
            state["sum"] = _new_sums(parameter, group["initial"])
        sums = state["sum"]
        if hasattr(parameter, "to_local"):  # a DTensor sharded by rows: each process updates its own
            grad, parameter, sums = _local(grad, parameter), parameter.to_local(), sums.to_local()
        table = parameter.view(parameter.shape[0], -1) if parameter.ndim else parameter.view(1, 1)
        if grad.is_sparse:
            grad = grad.coalesce()
            rows, values = grad.indices()[0], grad.values()
            values = values.reshape(values.shape[0], -1)
        else:
            values = grad.reshape(table.shape)
            rows = None
        values = values.to(sums.dtype)
        touched = (values != 0).any(1)
        if rows is None:
            rows = touched.nonzero().flatten()
            values = values[rows]
        else:
            rows, values = rows[touched], values[touched]
        current = table[rows].to(values.dtype)
        if group["weight_decay"]:
            values = values + group["weight_decay"] * current
        total = sums[rows] + values.square().mean(1)
        sums[rows] = total
        table[rows] = (current - group["lr"] * values / (total.sqrt() + group["eps"])[:, None]).to(table.dtype)


def param_groups(
    model: nn.Module,
    *,
    lr: float | None = None,
    table_lr: float | None = None,
    table_lr_factor: float = 5.0,
    weight_decay: float | None = None,
) -> list[dict]:
    """Two groups for an optimizer: tables (learning rate times 5, weight decay 0, as the paper has it) and the rest.

    Each parameter appears exactly once; a group without parameters is left out. A rate that is not given (``lr``, and
    ``table_lr`` with it) is left to the optimizer's own default, for both groups alike.

    Args:
        lr, weight_decay: of the rest. table_lr: of the tables; by default ``table_lr_factor * lr``.
    """
    tables = {id(p): p for p in table_parameters(model)}
    rest = [p for p in model.parameters() if id(p) not in tables]
    table_group: dict = {"params": list(tables.values()), "name": "tables", "weight_decay": 0.0}
    rest_group: dict = {"params": rest, "name": "rest"}
    if table_lr is None and lr is not None:
        table_lr = table_lr_factor * lr
    if table_lr is not None:
        table_group["lr"] = table_lr
    if lr is not None:
        rest_group["lr"] = lr
    if weight_decay is not None:
        rest_group["weight_decay"] = weight_decay
    return [group for group in (rest_group, table_group) if group["params"]]


def table_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The embedding tables of all n-gram memories in the model; word embeddings are not among them."""
    found: dict[int, nn.Parameter] = {}
    for module in model.modules():
        if isinstance(module, (MultiHeadEmbedding, EngramV41)):
            table = module.embed if isinstance(module, EngramV41) else module
            found.update((id(p), p) for p in table.parameters())
    return list(found.values())


def _new_sums(parameter: Any, initial: float) -> Any:
    """Return one number for each row: a tensor, or a DTensor that is distributed as the parameter's rows are."""
    # float32 also for half-precision tables: sums of squares outgrow them.
    dtype = torch.float64 if parameter.dtype == torch.float64 else torch.float32
    if not hasattr(parameter, "to_local"):
        return torch.full(parameter.shape[:1] or (1,), initial, dtype=dtype, device=parameter.device)
    for placement in parameter.placements:
        if not (placement.is_replicate() or placement.is_shard(0)):
            raise ValueError(f"RowwiseAdagrad needs whole rows; a parameter is distributed by {placement}")
    local = parameter.to_local()
    sums = torch.full(local.shape[:1], initial, dtype=dtype, device=local.device)
    where = {"shape": torch.Size(parameter.shape[:1]), "stride": (1,)}
    return type(parameter.data).from_local(sums, parameter.device_mesh, parameter.placements, run_check=False, **where)


def _sums_for(parameter: Any, saved: Any) -> Any:
    """Return a copy of a saved state where `parameter` lies and as it is distributed."""
    if saved.shape != (parameter.shape[:1] or (1,)):
        raise ValueError(
            f"the state has {tuple(saved.shape)} numbers, its parameter {tuple(parameter.shape)} has another number of "
            "rows: was it one process's part of a table?"
        )
    if not hasattr(parameter, "to_local"):
        whole = saved.full_tensor() if hasattr(saved, "full_tensor") else saved
        return whole.to(parameter.device, copy=True)
    sums = _new_sums(parameter, 0.0)
    if not hasattr(saved, "to_local"):
        saved = type(sums).from_local(saved.to(sums.device), sums.device_mesh, run_check=False)  # replicated
    if tuple(saved.placements) != tuple(sums.placements):
        saved = saved.redistribute(sums.device_mesh, sums.placements)
    return sums.to(saved.dtype).copy_(saved)


def _local(grad: Any, parameter: Any) -> Tensor:
    if not hasattr(grad, "to_local"):
        return grad
    if grad.placements != parameter.placements:
        grad = grad.redistribute(placements=parameter.placements)
    return grad.to_local()
