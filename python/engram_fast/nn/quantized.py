"""Tables and weights in fp8 (e4m3) with power-of-two scales (e8m0): exact to float32."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

SCALE_BLOCK = 32  # channels of a table row that share a scale


def e8m0_to_float(scale: Tensor) -> Tensor:
    """Exponent bytes to float32: b is 2^(b-127), 0 is 2^-127 (subnormal), 255 is NaN; float scales as they are."""
    if scale.dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        return scale.to(torch.float32)
    exponent = (scale if scale.dtype == torch.uint8 else scale.view(torch.uint8)).to(torch.int32)
    bits = torch.where(exponent == 0, 1 << 22, exponent << 23)
    return torch.where(exponent == 255, 0x7FC00000, bits).view(torch.float32)


def dequantize_blocks(weight: Tensor, scale: Tensor) -> Tensor:
    """A weight [r, c] with scales [ceil(r/a), ceil(c/b)] as float32; a, b: powers of two, from the shapes."""
    factor = e8m0_to_float(scale)
    if weight.ndim != 2 or factor.ndim != 2:
        raise ValueError(f"weight {tuple(weight.shape)} and scale {tuple(scale.shape)} must both have two axes")
    for axis in range(2):
        length, blocks = weight.shape[axis], factor.shape[axis]
        size = 1
        while -(-length // size) > blocks:
            size *= 2
        if -(-length // size) != blocks:
            raise ValueError(f"{blocks} scales do not divide the {length} entries of axis {axis} into equal blocks")
        factor = factor.repeat_interleave(size, axis).narrow(axis, 0, length)
    return weight.to(torch.float32) * factor


def _move(fn: Callable[[Tensor], Tensor], tensor: Tensor) -> Tensor:
    moved = fn(tensor.view(torch.uint8))
    return moved.view(tensor.dtype) if moved.dtype == torch.uint8 else tensor.to(moved.device)


class QuantizedEmbedding(nn.Module):
    """Rows of an fp8 table as float32: ``weight`` float8_e4m3fn [rows, dim], ``scale`` e8m0 [rows, dim / 32]."""

    weight: Tensor
    scale: Tensor

    def __init__(self, num_embeddings: int, dim: int, *, device: torch.device | str | None = None) -> None:
        super().__init__()
        if dim % SCALE_BLOCK:
            raise ValueError(f"an fp8 row of {dim} channels does not divide into blocks of {SCALE_BLOCK}")
        # torch before 2.7 has no dtype for the exponents: they are bytes there.
        scale_dtype = getattr(torch, "float8_e8m0fnu", torch.uint8)
        weight = torch.empty((num_embeddings, dim), dtype=torch.float8_e4m3fn, device=device)
        scale = torch.empty((num_embeddings, dim // SCALE_BLOCK), dtype=scale_dtype, device=device)
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        if not weight.is_meta:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Zero rows with scale 1."""
        self.weight.view(torch.uint8).zero_()
        self.scale.view(torch.uint8).fill_(127)

    def forward(self, rows: Tensor) -> Tensor:
        values = self.weight.view(torch.uint8)[rows].view(torch.float8_e4m3fn).to(torch.float32)
        scale = e8m0_to_float(self.scale.view(torch.uint8)[rows])
        return (values.unflatten(-1, (-1, SCALE_BLOCK)) * scale[..., None]).flatten(-2)

    def _apply(self, fn, recurse=True):
        # .half(), .to(bfloat16) and the like cast floating buffers; these only ever move, as bytes: a cast that is
        # undone afterwards would take twice the table's memory and more.
        return super()._apply(lambda tensor: _move(fn, tensor), recurse)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing, unexpected, errors) -> None:
        weight, scale = state_dict.get(prefix + "weight"), state_dict.get(prefix + "scale")
        for name, given, bytes_of in (("weight", weight, self.weight), ("scale", scale, self.scale)):
            if given is None:
                continue
            if given.dtype == torch.uint8 != bytes_of.dtype:
                state_dict[prefix + name] = given.view(bytes_of.dtype)
            elif given.dtype != bytes_of.dtype and given.element_size() != 1:
                errors.append(f"{prefix}{name} is {given.dtype}, an fp8 table holds {bytes_of.dtype}")
                return
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)
