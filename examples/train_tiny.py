"""A small language model with and without n-gram memory on real text: both losses after the same number of steps.

    python examples/train_tiny.py [--steps 150] [--out curves.csv]

The text is the manual that comes with CPython, the tokenizer a byte-level BPE trained on it here (`manual.py`).
Less than a minute on two idle cores; the picture of the curves needs matplotlib. It shows how the parts go together and
promises nothing about quality: the text is so small that the memory learns it by heart from about 200 steps on.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import math
from pathlib import Path

import engram_fast as ef
import numpy as np
import torch
import torch.nn.functional as F
from engram_fast.nn import Engram, RowHasher, param_groups
from manual import END, VOCABULARY, read_texts, train_tokenizer
from rich.progress import Progress
from torch import Tensor, nn

WIDTH, BRANCHES, LAYERS, LENGTH, BATCH = 96, 2, 3, 96, 8
ENGRAM_LAYER = 1
CONFIG = ef.EngramConfig(
    engram_vocab_size=[8009, 8009], n_embed_per_ngram=48, n_head_per_ngram=4, layer_ids=[ENGRAM_LAYER], pad_id=END
)


class Block(nn.Module):
    """Causal attention and a feed-forward layer, with norms before them."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.feed(self.norms[1](x))


class TinyModel(nn.Module):
    """Token ids [B, T] to logits; one layer has n-gram memory where a hasher is given."""

    def __init__(self, hasher: ef.NgramHasher | None) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Sequential(nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY))
        self.hash = self.engram = None
        if hasher is not None:
            self.hash = RowHasher(hasher)
            backbone = ef.BackBoneConfig(hidden_size=WIDTH, hc_mult=BRANCHES, vocab_size=VOCABULARY, num_layers=LAYERS)
            self.engram = Engram.from_config(
                CONFIG,
                backbone,
                layer_id=ENGRAM_LAYER,
                layout=hasher.layout,
                sparse=False,
                zero_init_conv=True,
                init_std=0.02,
            )

    def forward(self, ids: Tensor) -> Tensor:
        rows = None if self.hash is None else self.hash(ids)
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        for layer, block in enumerate(self.blocks):
            if layer == ENGRAM_LAYER and self.engram is not None:
                x = x + self.engram(x[:, :, None].expand(-1, -1, BRANCHES, -1), rows).mean(2)
            x = block(x)
        return self.head(x)


def prepare() -> tuple[Tensor, Tensor, ef.NgramHasher]:
    """Token ids for training and validation, and the hasher of the trained tokenizer."""
    texts = read_texts()
    tokenizer = train_tokenizer(texts)
    token_map = ef.TokenMap.from_tokenizer(tokenizer)
    layout = ef.HashLayout.preset("engram-demo-v1", token_map=token_map, **CONFIG.hash_parameters())
    ids = torch.tensor(tokenizer.encode("\n\n".join(texts)).ids)
    cut = len(ids) * 9 // 10
    return ids[:cut], ids[cut:], ef.NgramHasher(layout, token_map)


def batches(ids: Tensor, count: int, seed: int) -> Tensor:
    """[count, BATCH, LENGTH + 1] pieces of the text at random places."""
    starts = np.random.default_rng(seed).integers(0, len(ids) - LENGTH - 1, (count, BATCH, 1))
    return ids[torch.from_numpy(starts) + torch.arange(LENGTH + 1)]


def loss_of(model: TinyModel, piece: Tensor) -> Tensor:
    """Mean cross-entropy of the next token, in nats."""
    return F.cross_entropy(model(piece[:, :-1]).flatten(0, 1), piece[:, 1:].flatten())


@torch.no_grad()
def validate(model: TinyModel, pieces: Tensor) -> float:
    """Mean loss over the validation pieces."""
    return sum(loss_of(model, piece).item() for piece in pieces) / len(pieces)


def train(name: str, hasher: ef.NgramHasher | None, data: Tensor, validation: Tensor, steps: int) -> list[tuple]:
    """Rows (name, step, training loss, validation loss or empty)."""
    torch.manual_seed(0)
    model = TinyModel(hasher)
    optimizer = torch.optim.AdamW(param_groups(model, lr=2e-3, weight_decay=0.01))
    curve = []
    with Progress() as progress:
        task = progress.add_task(f"{name:15}", total=steps)
        for step, piece in enumerate(batches(data, steps, seed=1), 1):
            loss = loss_of(model, piece)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            checked = validate(model, validation) if step % 50 == 0 or step == steps else ""
            curve.append((name, step, loss.item(), checked))
            progress.update(task, advance=1, description=f"{name:15} loss {loss.item():.3f}")
    return curve


def draw(curves: list[tuple], path: Path) -> None:
    """Training losses as lines, validation losses as points on them. Needs matplotlib (the extra ``plot``)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)  # no window and no global state
    panel = figure.subplots()
    for name in dict.fromkeys(row[0] for row in curves):
        _, steps, losses, _ = zip(*(row for row in curves if row[0] == name), strict=True)
        line = panel.plot(steps, losses, alpha=0.4, linewidth=1)[0]
        checked = [(row[1], row[3]) for row in curves if row[0] == name and row[3] != ""]
        panel.plot(*zip(*checked, strict=True), "o-", color=line.get_color(), label=f"{name}, validation")
    panel.set(xlabel="step", ylabel="loss (nats per token)", title="thin: training, one batch a step")
    panel.legend()
    figure.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--out", default="train_tiny_curves.csv")
    options = parser.parse_args(arguments)
    data, held_out, hasher = prepare()
    validation = batches(held_out, 8, seed=2)
    curves, losses = [], {}
    for name, given in (("without memory", None), ("with memory", hasher)):
        curves += train(name, given, data, validation, options.steps)
        losses[name] = curves[-1][3]
    with open(options.out, "w", newline="") as file:
        csv.writer(file).writerows([("model", "step", "training_loss", "validation_loss"), *curves])
    for name, loss in losses.items():
        print(f"{name:15} validation loss after {options.steps} steps: {loss:.3f} ({math.exp(loss):.1f} perplexity)")
    print(f"curves: {options.out}")
    if importlib.util.find_spec("matplotlib") is not None:
        picture = Path(options.out).with_suffix(".png")
        draw(curves, picture)
        print(f"picture: {picture}")
    return losses


if __name__ == "__main__":
    main()
