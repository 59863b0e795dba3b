"""Pictures of gates: a coloured table in the terminal, a heat map in a PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console
    from rich.text import Text

_TOKEN_WIDTH = 24


def print_gates(gates: Mapping[int, Any], pieces: Sequence[str], console: Console | None = None) -> None:
    """Print one row per token with a column for each layer and branch, from 0 (dark) to 1 (bright).

    Args:
        gates: `{layer: gate}`, each a float array or tensor [T, M].
        pieces: the text of each token, T of them.
        console: where the table goes; the standard output by default.

    Raises:
        ValueError: a layer has another shape, or another number of tokens than `pieces`.
    """
    from rich import console as rich_console
    from rich.table import Table
    from rich.text import Text

    arrays = _arrays(gates, pieces)
    printer = console or rich_console.Console()
    columns = [
        (f"{layer}.{branch}", gate[:, branch]) for layer, gate in arrays.items() for branch in range(gate.shape[1])
    ]
    width = max(5, *(len(name) for name, _ in columns)) + 1 if columns else 1
    # Columns that the terminal has no room for go into a further table: a number that is cut reads as another one.
    most = max(1, (printer.width - _TOKEN_WIDTH - 1) // width)
    printer.print("gate of each token, layer.branch", style="italic")
    for start in range(0, len(columns), most):
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("token", no_wrap=True, max_width=_TOKEN_WIDTH)
        for name, _ in columns[start : start + most]:
            table.add_column(name, justify="right", no_wrap=True, min_width=5)
        for place, piece in enumerate(pieces):
            values = (float(values[place]) for _, values in columns[start : start + most])
            table.add_row(Text(_visible(piece)), *(_shaded(value) for value in values))
        printer.print(table)


def plot_gates(gates: Mapping[int, Any], pieces: Sequence[str], path: str | PathLike[str]) -> Path:
    """Write a PNG with the tokens across, the branches down, and one panel for each layer.

    Args:
        gates: `{layer: gate}`, each a float array or tensor [T, M].
        pieces: the text of each token, T of them.
        path: the file to write.

    Returns:
        The path of the file.

    Raises:
        ImportError: matplotlib is missing (the extra `plot`).
        ValueError: a layer has another shape, or another number of tokens than `pieces`.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    arrays = _arrays(gates, pieces)
    figure = Figure(figsize=(2.0 + 0.55 * len(pieces), 1.2 + 1.5 * len(arrays)), layout="constrained")
    FigureCanvasAgg(figure)  # no window and no global state
    panels = figure.subplots(len(arrays), 1, squeeze=False)[:, 0]
    for panel, (layer, gate) in zip(panels, arrays.items(), strict=True):
        image = panel.imshow(gate.T, vmin=0, vmax=1, aspect="auto", cmap="viridis")
        panel.set_ylabel(f"layer {layer}\nbranch")
        panel.set_yticks(range(gate.shape[1]))
        panel.set_xticks(range(len(pieces)), [_visible(piece) for piece in pieces], rotation=45, ha="right")
    figure.colorbar(image, ax=list(panels), label="gate")
    figure.savefig(path, dpi=120)
    return Path(path)


def _arrays(gates: Mapping[int, Any], pieces: Sequence[str]) -> dict[int, NDArray[np.float32]]:
    if not gates:
        raise ValueError("gates has no layer; a picture needs one at least")
    arrays = {}
    for layer, gate in gates.items():
        # Tensors of every dtype and device; NumPy has no bfloat16.
        array = np.asarray(gate.detach().float().cpu() if hasattr(gate, "detach") else gate, dtype=np.float32)
        if array.ndim != 2 or array.shape[0] != len(pieces):
            raise ValueError(f"the gate of layer {layer} has shape {array.shape}, expected [{len(pieces)}, M]")
        arrays[layer] = array
    return arrays


def _shaded(value: float) -> Text:
    from rich.text import Text

    shade = 16 + round(max(0.0, min(1.0, value)) * 239)
    ink = "black" if shade > 130 else "white"
    return Text(f"{value:.3f}", style=f"{ink} on rgb({shade // 3},{shade // 2},{shade})")


def _visible(piece: str) -> str:
    piece = piece.replace("\uff5c", "|").replace("\u2581", "_")  # of special tokens: few fonts have them
    return piece.replace(" ", "\u2423").replace("\n", "\\n").replace("\t", "\\t") or "(empty)"


# The names that these functions had in `engram_fast.nn.gate_map`.
print_table, write_heat_map = print_gates, plot_gates
