"""PyTorch modules of the n-gram memory: the paper's demo and DeepSeek-V4.1, with their checkpoints' names.

Needs torch (the extra ``torch``).
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    message = "engram_fast.nn needs torch: run pip install 'engram-fast[torch]' (the extra torch)"
    raise ModuleNotFoundError(message, name="torch") from None

from .embedding import MultiHeadEmbedding
from .engram import Engram
from .engram_v41 import EngramV41
from .gate import EngramGate
from .hash import RowHasher, split_layers
from .optim import RowwiseAdagrad, param_groups, table_parameters
from .quantized import QuantizedEmbedding
from .short_conv import ConvState, ShortConv

__all__ = [
    "ConvState",
    "Engram",
    "EngramGate",
    "EngramV41",
    "MultiHeadEmbedding",
    "QuantizedEmbedding",
    "RowHasher",
    "RowwiseAdagrad",
    "ShortConv",
    "param_groups",
    "split_layers",
    "table_parameters",
]
