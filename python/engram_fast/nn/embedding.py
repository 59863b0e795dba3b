"""One table for all heads: each head owns a range of rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from .computed import ComputedBuffers, keep_start_values
from .row_check import check_rows, table_rows


class MultiHeadEmbedding(ComputedBuffers):
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

    COMPUTED = ("head_sizes", "offsets")
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
        # Given a table, torch.nn.Embedding does not fill one first: it is filled once, below.
        rows = sum(self.sizes)
        table = torch.empty((rows, dim), device=device, dtype=dtype)
        self.embedding = nn.Embedding(rows, dim, sparse=sparse, _weight=table)
        self.register_buffer("offsets", None)
        self.register_buffer("head_sizes", None, persistent=False)
        self.reset_parameters()

    @property
    def weight(self) -> Tensor:
        """The table [sum of sizes, dim]."""
        return self.embedding.weight

    def reset_parameters(self) -> None:
        """Start values of the table, and the integer buffers from the sizes."""
        if not self.weight.is_meta:
            nn.init.normal_(self.weight, std=self.init_std)
        self.place_buffers(self.weight.device)
        keep_start_values(self)

    def compute_buffers(self) -> dict[str, Tensor | None]:
        """Return the sizes of the heads and their first rows, int64 [C]."""
        starts = [0, *accumulate(self.sizes)][:-1]
        numbers = {"head_sizes": self.sizes, "offsets": starts}
        return {name: torch.tensor(part, dtype=torch.int64) for name, part in numbers.items()}

    def forward(self, rows: Tensor) -> Tensor:
        """Return the vectors [..., C, dim] of rows [..., C]."""
        rows = check_rows(rows, len(self.sizes))
        sizes, offsets = self.buffers_on(self.weight.device)
        return self.embedding(table_rows(rows, sizes, offsets, self.rows_have_offsets))

    def extra_repr(self) -> str:
        return f"{len(self.sizes)} heads, {sum(self.sizes)} rows, dim={self.dim}"

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        # A copy: distributed checkpoints are read into the tensors of a state, before anything is checked.
        destination[prefix + "offsets"] = self.buffers_on(self.weight.device)[1].clone()

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
        saved = state_dict.get(prefix + "offsets")
        expected = self.compute_buffers()["offsets"]
        assert expected is not None
        if saved is not None and not saved.is_meta and not torch.equal(saved.cpu().to(torch.int64), expected):
            errors.append(
                f"{prefix}offsets are {saved.tolist()}, the head sizes here give {expected.tolist()}: "
                "the table was made for another layout"
            )
            return
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)
