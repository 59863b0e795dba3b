"""`engram-fast layout`: show the numbers of a layout, check a model's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .group import Group, command
from .options import ConfigFile, Json, Parameters, TokenizerFile, TokenMapFile, VocabSize
from .output import console, count, fields, numbers, print_json, table

if TYPE_CHECKING:
    from .. import HashLayout

app = typer.Typer(cls=Group, help="Show and check hash layouts (the numbers of a model).")


@command(
    app,
    "engram-fast layout show",
    "engram-fast layout show qwen-ple",
    "engram-fast layout show engram-demo-v1 --tokenizer tokenizer.json --set seed=7 --json > layout.json",
    "engram-fast layout show --config model-folder --tokenizer model-folder",
)
def show(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A preset or a layout JSON; without it, list the presets.")
    ] = None,
    config: ConfigFile = None,
    tokenizer: TokenizerFile = None,
    token_map: TokenMapFile = None,
    vocab_size: VocabSize = None,
    parameters: Parameters = None,
    json: Json = False,
) -> None:
    """Show a layout: layers, orders, multipliers, moduli and table sizes. --json prints the complete layout JSON."""
    from .sources import given_token_map, read_layout_and_map

    if name is None and config is None:
        from .. import presets

        if json:
            print_json(presets())
        else:
            console().print("\n".join(presets()), markup=False)
        return
    found, _ = read_layout_and_map(name, config, parameters, given_token_map(tokenizer, token_map, vocab_size))
    if json:
        typer.echo(found.to_json())
    else:
        _print(found)


@command(
    app,
    "engram-fast layout check model-folder --tokenizer model-folder",
    "engram-fast layout check config.json --tokenizer tokenizer.json --json",
)
def check(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="A config.json, its folder, or an engram and backbone JSON.")
    ],
    tokenizer: TokenizerFile = None,
    token_map: TokenMapFile = None,
    json: Json = False,
) -> None:
    """Compare a model's configuration with its tokenizer: everything that can disagree in silence.

    Exit code 0: all agrees; 1: each finding in a sentence.
    """
    from ..layout.check import check_layout, describe_config
    from .files import check_input
    from .sources import default_map, given_token_map

    if config.is_file():
        check_input(config)
    recognised = describe_config(config)
    found = given_token_map(tokenizer, token_map, None)
    try:
        findings = check_layout(config, token_map=found)
    except ValueError as error:
        if found is not None or not str(error).startswith("token_map:"):
            raise
        found = default_map(config)
        if found is None:
            raise ValueError(f"{error}; give --tokenizer FILE or --token-map FILE") from None
        findings = check_layout(config, token_map=found)
    if json:
        print_json({"recognised": recognised, "findings": findings})
    else:
        printer = console()
        printer.print(recognised, markup=False, soft_wrap=True)
        for finding in findings:
            printer.print(finding[:1].upper() + finding[1:], markup=False, soft_wrap=True)
        if not findings:
            printer.print("No findings.")
    raise typer.Exit(1 if findings else 0)


def _print(layout: HashLayout) -> None:
    printer = console()
    summary: dict[str, Any] = {
        "name": layout.name,
        "digest": layout.digest,
        "layers": numbers(layout.layer_ids),
        "orders": numbers(layout.orders),
        "heads": layout.heads,
        "columns": f"{layout.columns} ({layout.column_numbering})",
        "mix": f"{layout.mix}, wrapping at {layout.word_bits} bits",
        "fill": f"{layout.fill} where a look-back is missing",
        "boundary ids": numbers(layout.boundary_ids) or "none",
        "offsets": "added" if layout.adds_offsets else "not added",
    }
    if layout.token_map_digest is not None:
        summary["token map"] = f"{layout.token_map_length} ids → {layout.token_map_size}"
        summary["map digest"] = layout.token_map_digest
    printer.print(fields(summary))
    for layer in layout.layer_ids:
        printer.print(f"\n[bold]layer {layer}[/]: {count(layout.rows[layer])} rows")
        multipliers = layout.multipliers[layer]
        if multipliers.ndim == 1:
            printer.print(f"multipliers {numbers(multipliers)}", soft_wrap=True)
        made = table("order", "moduli")
        for order in layout.orders:
            columns = [c for c, of in enumerate(layout.column_orders) if of == order]
            made.add_row(str(order), numbers(layout.moduli[layer][columns]))
        printer.print(made)
