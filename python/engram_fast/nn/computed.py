"""Buffers that follow from a module's own numbers, computed again wherever something else may have written them.

Libraries build models on the meta device and replace each buffer by uninitialised memory afterwards; `to_empty` and
casts do the same. Such a buffer is never read here: its device is kept, its values are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class ComputedBuffers(nn.Module):
    """A module whose buffers named in `COMPUTED` hold what `compute_buffers` returns, on whatever device they lie."""

    COMPUTED: tuple[str, ...] = ()

    def compute_buffers(self) -> dict[str, Tensor | None]:
        """Return the buffers named in `COMPUTED`, on the CPU; to be overridden."""
        raise NotImplementedError

    def place_buffers(self, device: torch.device) -> None:
        """Compute the buffers anew on `device`."""
        with torch.device("cpu"):  # whatever the caller's default device is
            computed = self.compute_buffers()
        placed = {name: None if part is None else part.to(device) for name, part in computed.items()}
        self._buffers.update(placed)
        self.__dict__["_placed"] = placed

    def buffers_on(self, device: torch.device) -> list[Tensor]:
        """Return the buffers in the order of `COMPUTED`, as computed and on `device`."""
        if not torch.compiler.is_compiling():  # a graph reads what lies in the module when it is traced
            placed = self.__dict__["_placed"]
            ours = all(self._buffers[name] is part for name, part in placed.items())
            if not ours or any(part is not None and part.device != device for part in placed.values()):
                self.place_buffers(device)
        return [self._buffers[name] for name in self.COMPUTED]  # type: ignore[misc]

    def __setattr__(self, name: str, value: Any) -> None:
        """Take the device of a tensor that is put in the place of a computed buffer, and not its values."""
        if name in self.COMPUTED and isinstance(value, Tensor) and "_placed" in self.__dict__:
            self.place_buffers(value.device)
        else:
            super().__setattr__(name, value)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        devices = [part.device for name in self.COMPUTED if (part := self._buffers[name]) is not None]
        self.place_buffers(devices[0])
        return self


def keep_start_values(module: nn.Module) -> None:
    """Mark the start values of `module` as made, so that a model's own initialisation leaves them alone.

    transformers initialises every weight once more at the end of a model's construction (`post_init`), unless the
    module (before version 5) or the parameter (since then) bears this mark. Parameters on the meta device have no
    values yet and bear none.
    """
    for part in module.modules():
        own = list(part.parameters(recurse=False))
        for parameter in own:
            if not parameter.is_meta:
                parameter._is_hf_initialized = True  # type: ignore[attr-defined]
        if not any(parameter.is_meta for parameter in own):
            part._is_hf_initialized = True  # type: ignore[assignment]
