"""Read tokenizer files: `tokenizer.json`, `.tiktoken`, `tekken.json`, sentencepiece's `.model`, and folders."""

from __future__ import annotations

import base64
import errno
import json
import os
import re
from pathlib import Path
from typing import Any

from .. import _core
from .added_tokens import completed
from .decoding import from_bytes
from .tokenizers import read_tokenizer

TIKTOKEN_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2}[ \t]+[0-9]+[ \t]*\r?\n")
SENTENCEPIECE_NAME = re.compile(r".*\.model(\.v[0-9]+(m[0-9]+)?)?$")
# The special tokens of a `tekken.json` that names none, which only versions up to 7 of the format may do.
TEKKEN_SPECIAL = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]"),
    *("[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"),
)


def read_file(path: str | os.PathLike[str], vocab_size: Any) -> _core.TokenMap:
    """Return the core's map of a tokenizer's file or folder; arguments and errors as of `TokenMap.from_file`."""
    file = Path(path)
    if os.fspath(path) and file.is_dir():  # an empty path is no folder, though `Path` takes it for this one
        return _from_folder(file, vocab_size)
    if "tekken" in file.name and file.suffix == ".json":
        return _from_tekken(file, vocab_size)
    if file.suffix == ".tiktoken" or file.name == "tiktoken.model":
        return _from_tiktoken(file, file.read_bytes(), vocab_size)
    if SENTENCEPIECE_NAME.match(file.name):
        data = file.read_bytes()
        # Llama 3 calls its list of tiktoken's ranks `tokenizer.model`.
        read = _from_tiktoken if TIKTOKEN_LINE.match(data) else _from_sentencepiece
        return read(file, data, vocab_size)
    return _core.TokenMap.from_file(path, vocab_size)


def _from_folder(folder: Path, vocab_size: Any) -> _core.TokenMap:
    if (folder / "tokenizer.json").exists():
        data = completed(folder)
        if data is None:
            return _core.TokenMap.from_file(folder, vocab_size)
        try:
            return _core.TokenMap.from_json(data, vocab_size)
        except ValueError as error:
            if str(error).startswith("vocab_size"):
                raise
            raise ValueError(f"{folder / 'tokenizer.json'}: {error}") from error
    if (folder / "tekken.json").exists():
        return _from_tekken(folder / "tekken.json", vocab_size)
    names = sorted(file.name for file in folder.iterdir() if file.suffix in (".model", ".tiktoken"))
    # Special tokens of such a file stand elsewhere, so it is read only if the caller names it.
    hint = f"; to read {names[0]} alone, name that file" if names else ""
    raise FileNotFoundError(errno.ENOENT, f"{os.strerror(errno.ENOENT)}{hint}", str(folder / "tokenizer.json"))


def _from_tiktoken(path: Path, data: bytes, vocab_size: Any) -> _core.TokenMap:
    tokens: dict[int, bytes] = {}
    for place, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            number, content = int(rank), base64.b64decode(token, validate=True)
        except ValueError:  # binascii.Error is one
            raise ValueError(f"{path}: line {place} is not a token in base64 and its rank: {line!r:.80}") from None
        if number < 0 or number in tokens:
            raise ValueError(f"{path}: line {place}: the rank {number} is negative or occurs twice")
        tokens[number] = content
    if not tokens:
        raise ValueError(f"{path}: no tokens")
    return from_bytes(largest=max(tokens), vocab_size=vocab_size, token=tokens.__getitem__, source="tiktoken")


def _from_tekken(path: Path, vocab_size: Any) -> _core.TokenMap:
    try:
        tokens = _tekken_tokens(json.loads(path.read_bytes()))
    except RecursionError:
        raise ValueError(f"{path}: nested too deeply") from None
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{path}: no tekken.json: {error!r}") from error
    return from_bytes(largest=len(tokens) - 1, vocab_size=vocab_size, token=tokens.__getitem__, source="tekken")


def _tekken_tokens(document: dict[str, Any]) -> list[bytes]:
    """Return the bytes of every id: special tokens first, then as many of the vocabulary as the file configures."""
    config = document["config"]
    special = int(config["default_num_special_tokens"])
    known = document.get("special_tokens")
    names = (
        TEKKEN_SPECIAL if known is None else [token["token_str"] for token in sorted(known, key=lambda t: t["rank"])]
    )
    if not len(names) <= special <= _core.MAX_IDS:
        raise ValueError(f"default_num_special_tokens is {special}, but there are {len(names)} special tokens")
    size = int(config["default_vocab_size"]) - special
    if not 0 <= size <= len(document["vocab"]):
        raise ValueError(
            f"default_vocab_size leaves {size} ids, but the vocabulary has {len(document['vocab'])} tokens"
        )
    vocabulary = document["vocab"][:size]
    wrong = next((rank for rank, token in enumerate(vocabulary) if token["rank"] != rank), None)
    if wrong is not None:
        raise ValueError(f"token {wrong} of the vocabulary has the rank {vocabulary[wrong]['rank']}")
    names = [*names, *(f"<SPECIAL_{rank}>" for rank in range(len(names), special))]
    return [
        *(name.encode() for name in names),
        *(base64.b64decode(token["token_bytes"], validate=True) for token in vocabulary),
    ]


def _from_sentencepiece(path: Path, data: bytes, vocab_size: Any) -> _core.TokenMap:
    if not data:
        raise ValueError(f"{path}: the file is empty")
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise ImportError(f"{path}: to read a sentencepiece model, install the package sentencepiece") from error
    try:
        processor = SentencePieceProcessor(model_proto=data)
    except Exception as error:
        raise ValueError(f"{path}: no sentencepiece model: {error}") from error
    return read_tokenizer(processor, vocab_size)
