"""Files of token ids, opened without copying: raw, `.npy`, Megatron `.bin/.idx`, Arrow and Parquet."""

from .formats import FORMATS, format_of, open_tokens
from .tokens import Tokens, join

__all__ = ["FORMATS", "Tokens", "format_of", "join", "open_tokens"]
