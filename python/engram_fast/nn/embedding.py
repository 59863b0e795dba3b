"""One table for all heads: each head owns a range of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from .row_check import check_rows, table_rows


class MultiHeadEmbedding(nn.Module):
    """Rows [..., C] of C heads to vectors [..., C, dim].

    Names in the state are those of the published demo: ``embedding.weight`` and ``offsets`` (int64 [C]).

    Args:
        sizes: number of rows of each head (the moduli of the layer).
        dim: width of a row.
        sparse: gradients are sparse tensors: for ``torch.optim.SparseAdam``, ``SGD`` or ``RowwiseAdagrad``.
        rows_have_offsets: the rows count from the start of the whole table already.
        init_std: standard deviation of the table's start values.

    Raises IndexError for a row outside its own head, TypeError for rows that are not int32 or int64.

    >>> import torch
    >>> from engram_fast.nn import MultiHeadEmbedding
    >>> MultiHeadEmbedding([97, 101], dim=4)(torch.tensor([[[96, 100], [0, 0]]])).shape
    torch.Size([1, 2, 2, 4])
    """

    offsets: Tensor
    head_sizes: Tensor

    def __init__(
        self,
        sizes: Sequence[int],
        dim: int,
        *,
        sparse: bool = False,
        rows_have_offsets: bool = False,
        init_std: float = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.sizes = tuple(int(size) for size in sizes)
        if not self.sizes or min(self.sizes) < 1:
            raise ValueError(f"each head needs at least one row, the sizes are {list(self.sizes)}")
        self.dim, self.rows_have_offsets, self.init_std = dim, rows_have_offsets, init_std
        # torch.nn.Embedding fills its table on the way: on the meta device first, once afterwards.
        self.embedding = nn.Embedding(sum(self.sizes), dim, sparse=sparse, device="meta", dtype=dtype)
        self.embedding.to_empty(device=device or torch.get_default_device())
        self.register_buffer("offsets", self._offsets(self.weight.device))
        self.register_buffer("head_sizes", torch.tensor(self.sizes, device=self.weight.device), persistent=False)
        self.register_load_state_dict_post_hook(self._leave_meta)
        self.reset_parameters()

    @property
    def weight(self) -> Tensor:
        """The table [sum of sizes, dim]."""
        return self.embedding.weight

    def reset_parameters(self) -> None:
        """Start values of the table, and the integer buffers from the sizes."""
        if not self.weight.is_meta:
            nn.init.normal_(self.weight, std=self.init_std)
        self._rebuild_buffers()

    def forward(self, rows: Tensor) -> Tensor:
        rows = check_rows(rows, len(self.sizes))
        return self.embedding(table_rows(rows, self.head_sizes, self.offsets, self.rows_have_offsets))

    def extra_repr(self) -> str:
        return f"{len(self.sizes)} heads, {sum(self.sizes)} rows, dim={self.dim}"

    def _offsets(self, device: torch.device) -> Tensor:
        return torch.tensor([0, *accumulate(self.sizes)][:-1], dtype=torch.int64, device=device)

    def _rebuild_buffers(self, device: torch.device | None = None) -> None:
        device = device or self.offsets.device
        self.offsets = self._offsets(device)
        self.head_sizes = torch.tensor(self.sizes, dtype=torch.int64, device=device)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> MultiHeadEmbedding:
        # to_empty() leaves buffers undefined, and a cast must not reach them: they follow from the sizes alone.
        super()._apply(fn, recurse)
        self._rebuild_buffers()
        return self

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing, unexpected, errors) -> None:
        given = state_dict.get(prefix + "offsets")
        expected = self._offsets(torch.device("cpu"))
        if given is not None and not given.is_meta and not torch.equal(given.cpu().to(torch.int64), expected):
            errors.append(
                f"{prefix}offsets are {given.tolist()}, the head sizes here give {expected.tolist()}: "
                "the table was made for another layout"
            )
            return
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)

    @staticmethod
    def _leave_meta(module: MultiHeadEmbedding, _keys: object) -> None:
        """After ``load_state_dict(assign=True)`` into a module on the meta device."""
        if not module.weight.is_meta and (module.offsets.is_meta or module.head_sizes.is_meta):
            module._rebuild_buffers(module.weight.device)
