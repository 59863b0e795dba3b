"""Draws `record/hash.json`: ns per token and layer of every side, N=3 and N=4, at 16384 and 2**20 tokens.

python -m benches.plot benches/record/hash.json benches/record/hash.svg benches/record/hash.png
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benches.report import figure as figure_of

SIZES = {"8x2048": "8x2048 tokens", "1M": "2²⁰ tokens"}
OURS, LIMIT, PEER = "#1b6ca8", "#9a9a9a", "#d08c3c"


def colour(side: str) -> str:
    if side.startswith("ours"):
        return OURS
    return LIMIT if "fill" in side else PEER


def wanted(side: str) -> bool:
    """One bar per thing to compare; the rest is in the tables."""
    if side in ("ours, new array", "ours, qwen-ple", "ours, engram-peft", "engramdb-python"):
        return False
    return not side.endswith("kernel, 2 threads")


def label(side: str) -> str:
    return {"engram-peft": "engram-peft (its layout)"}.get(side, side.replace("ours, into out=", "ours"))


def panel(axes: Any, group: dict[str, Any]) -> None:
    """One bar per side, longest on top, with quartiles."""
    sides = [side for side in group["sides"] if wanted(side["side"])]
    sides.sort(key=lambda side: side["ns_per_unit"])
    for place, side in enumerate(sides):
        units, numbers = side["units_per_call"], side["ns_per_call"]
        value, low, high = side["ns_per_unit"], numbers["q1"] / units, numbers["q3"] / units
        spread = [[max(0.0, value - low)], [max(0.0, high - value)]]
        axes.barh(place, value, xerr=spread, color=colour(side["side"]), height=0.72, ecolor="#444444", capsize=2)
        axes.text(max(high, value) * 1.08, place, figure_of(value), va="center", fontsize=9)
    axes.set_yticks(range(len(sides)), [label(side["side"]) for side in sides], fontsize=9)
    axes.set_xscale("log")
    axes.set_xlim(right=max(side["ns_per_unit"] for side in sides) * 4)
    axes.set_title(f"N={group['order']}, {SIZES[group['size']]}", fontsize=11, loc="left")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for edge in ("top", "right"):
        axes.spines[edge].set_visible(False)


def draw(result: dict[str, Any]) -> Any:
    """The figure of one result."""
    import matplotlib

    matplotlib.use("Agg")
    # Text stays text, and names are the same in every run: an SVG changes only where the numbers do.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "engram-fast"})
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    groups = [group for group in result["groups"] if group["size"] in SIZES]
    if not groups:
        raise SystemExit(f"no group of {', '.join(SIZES)} tokens in this result")
    rows = -(-len(groups) // 2)
    figure, all_axes = pyplot.subplots(rows, 2, figsize=(13, 0.6 + 4.6 * rows), squeeze=False)
    for axes, group in zip(all_axes.flat, groups, strict=False):
        panel(axes, group)
    for axes in all_axes.flat[len(groups) :]:
        axes.set_visible(False)
    for axes in all_axes[-1]:
        axes.set_xlabel("ns per token and layer (log scale; less is better)", fontsize=9)
    about = result["environment"]
    versions = about["packages"]
    caption = (
        f"H=8, two layers, medians and quartiles, all sides of a panel in one run. {about['cpu']}, "
        f"kernel {about['kernel']}, "
        f"{about['processors_usable']} processors; engram_fast {about['engram_fast']}, NumPy {versions['numpy']}, "
        f"torch {versions['torch']}, ONNX Runtime {versions['onnxruntime']}, {about['date']}"
    )
    legend = [
        Patch(color=OURS, label="engram_fast"),
        Patch(color=PEER, label="others"),
        Patch(color=LIMIT, label="write only"),
    ]
    figure.legend(handles=legend, loc="upper right", ncols=3, frameon=False, fontsize=10)
    figure.suptitle("Token ids to table rows", x=0.01, ha="left", fontsize=14)
    figure.text(0.01, 0.005, caption, fontsize=7.5, color="#555555")
    figure.tight_layout(rect=(0, 0.02, 1, 0.99))
    return figure


def main(arguments_given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("result", type=Path, help="JSON of bench_hash")
    parser.add_argument("pictures", type=Path, nargs="+", help="files to write: .png, .svg, .pdf")
    options = parser.parse_args(arguments_given)
    figure = draw(json.loads(options.result.read_text(encoding="utf-8")))
    for picture in options.pictures:
        figure.savefig(picture, dpi=100, metadata={"Date": None} if picture.suffix == ".svg" else None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
