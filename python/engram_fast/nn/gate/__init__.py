"""The gate of the n-gram memory: the module, the formula, and the fused code for the CPU and for CUDA."""

from .module import EngramGate

__all__ = ["EngramGate"]
