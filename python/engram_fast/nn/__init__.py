"""PyTorch modules of the n-gram memory: the paper's demo and DeepSeek-V4.1, with their checkpoints' names.

Needs torch (``pip install engram-fast[torch]``).
"""

from engram_fast.nn.demo_engram import Engram
from engram_fast.nn.engram_v41 import EngramV41
from engram_fast.nn.gate import EngramGate
from engram_fast.nn.multi_head_embedding import MultiHeadEmbedding
from engram_fast.nn.optim import RowwiseAdagrad, param_groups, table_parameters
from engram_fast.nn.quantized import QuantizedEmbedding
from engram_fast.nn.row_hasher import RowHasher, split_layers
from engram_fast.nn.short_conv import ConvState, ShortConv

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
