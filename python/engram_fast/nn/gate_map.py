"""Gates of tokens and branches as a coloured table for terminals and as a heat map in a PNG."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from torch import Tensor


def print_table(gates: dict[int, Tensor], pieces: list[str], console: Any = None) -> None:
    """One row per token, one column per layer and branch; gates {layer: [T, M]} from 0 (dark) to 1 (bright)."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title="gate of each token, layer and branch", show_edge=False)
    table.add_column("token", no_wrap=True)
    for layer, gate in gates.items():
        for branch in range(gate.shape[1]):
            table.add_column(f"{layer}.{branch}", justify="right")
    for place, piece in enumerate(pieces):
        cells = [Text(_visible(piece))]
        for gate in gates.values():
            for value in gate[place].tolist():
                shade = 16 + round(max(0.0, min(1.0, value)) * 239)
                ink = "black" if shade > 130 else "white"
                cells.append(Text(f"{value:.3f}", style=f"{ink} on rgb({shade // 3},{shade // 2},{shade})"))
        table.add_row(*cells)
    (console or Console()).print(table)


def write_heat_map(gates: dict[int, Tensor], pieces: list[str], path: str | PathLike[str]) -> Path:
    """PNG of tokens x branches, one panel per layer. Needs matplotlib (the extra ``plot``)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.0 + 0.55 * len(pieces), 1.2 + 1.5 * len(gates)), layout="constrained")
    FigureCanvasAgg(figure)  # no window and no global state
    panels = figure.subplots(len(gates), 1, squeeze=False)[:, 0]
    for panel, (layer, gate) in zip(panels, gates.items(), strict=True):
        image = panel.imshow(gate.T.float().numpy(), vmin=0, vmax=1, aspect="auto", cmap="viridis")
        panel.set_ylabel(f"layer {layer}\nbranch")
        panel.set_yticks(range(gate.shape[1]))
        panel.set_xticks(range(len(pieces)), [_visible(piece) for piece in pieces], rotation=45, ha="right")
    figure.colorbar(image, ax=list(panels), label="gate")
    figure.savefig(path, dpi=120)
    return Path(path)


def _visible(piece: str) -> str:
    piece = piece.replace("\uff5c", "|").replace("\u2581", "_")  # of special tokens: few fonts have them
    return piece.replace(" ", "\u2423").replace("\n", "\\n").replace("\t", "\\t") or "(empty)"
