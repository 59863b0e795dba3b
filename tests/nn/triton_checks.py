"""Triton kernels against their torch oracles; run as a program, on the CPU (TRITON_INTERPRET=1) or on a CUDA device."""

from __future__ import annotations

import sys

import numpy as np
import torch
from engram_fast.nn import RowHasher
from engram_fast.nn.gate import formula
from engram_fast.nn.gate import triton as triton_gate
from engram_fast.nn.hash import formula as hash_formula
from engram_fast.nn.hash import triton as triton_hash
from hashing import hashers


def check_hash(device: str) -> int:
    count = 0
    generator = np.random.default_rng(0)
    for name, hasher in hashers().items():
        module = RowHasher(hasher).to(device)
        for shape in ((1, 1), (2, 66)):
            ids = torch.from_numpy(generator.integers(0, 256, shape)).to(device)
            mask = torch.from_numpy(generator.random(shape) > 0.2).to(device)
            segments = torch.from_numpy(np.sort(generator.integers(0, 3, shape), 1)).to(device)
            for where in ({}, {"mask": mask}, {"mask": mask, "segment_ids": segments}):
                offsets = module.offsets if where else None
                arguments = (ids, module.lookup, module.multipliers, module.moduli, offsets, module.rules)
                got, want = triton_hash.hash_rows(*arguments, **where), hash_formula.hash_rows(*arguments, **where)
                assert torch.equal(got, want), (name, shape, list(where))
                count += 1
    return count


def check_gate(device: str) -> int:
    torch.manual_seed(0)
    count = 0
    for dtype, bound in ((torch.float32, 1e-4), (torch.bfloat16, 2**-7)):
        for tokens, branches, width in ((1, 1, 8), (37, 3, 20)):
            for positive in (True, False):
                wide = torch.randn(tokens, (branches + 1) * width, device=device, dtype=dtype)
                keys = wide[:, : branches * width].unflatten(1, (branches, width))  # rows that lie apart
                hidden = torch.randn(tokens, branches, width, device=device, dtype=dtype)
                keys[0, 0] = 0
                weight = torch.randn(branches, width, device=device)
                upstream = torch.randn(tokens, branches, device=device)
                results = []
                for function in (
                    lambda h, k, w, p=positive: triton_gate.TritonGate.apply(h, k, w, 1e-20, p),
                    lambda h, k, w, p=positive: formula.gate(h, k, w, eps=1e-20, zero_is_positive=p),
                ):
                    inputs = [t.detach().requires_grad_() for t in (hidden, keys, weight)]
                    gate = function(*inputs)
                    results.append([gate, *torch.autograd.grad((gate * upstream).sum(), inputs)])
                for got, want in zip(*results, strict=True):
                    off = (got.double() - want.double()).abs().max() / want.double().abs().max().clamp_min(1e-30)
                    assert torch.isfinite(got).all()
                    assert off <= bound, (dtype, tokens, positive, float(off))
                    count += 1
    return count


if __name__ == "__main__":
    print("equal", check_hash(sys.argv[1]), check_gate(sys.argv[1]))
