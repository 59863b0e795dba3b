"""Tokens that a tokenizer's folder names outside its `tokenizer.json`, added as transformers' `AutoTokenizer` does.

`tokenizer_config.json` lists added tokens with their ids and names special tokens. In older folders those lists are
`added_tokens.json` and `special_tokens_map.json`. A token that `tokenizer.json` lacks gets the next free id, whatever
id it is listed with.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""The special tokens that every tokenizer of transformers may have, in the order in which it adds them."""


def completed(folder: Path) -> bytes | None:
    """Return the folder's `tokenizer.json` with the tokens that it lacks; None if it lacks none.

    A `tokenizer.json` that is damaged lacks none: the core names what is wrong with it.

    Raises:
        ValueError: another file is damaged; the message names it.
        OSError: a file cannot be read.
    """
    config = _object(folder / "tokenizer_config.json")
    is_old = not isinstance(config.get("added_tokens_decoder"), dict)
    if is_old:
        config |= _object(folder / "special_tokens_map.json")
        path = folder / "added_tokens.json"
        listed = {_number(path, token_id): content for content, token_id in _object(path).items()}
    else:
        listed = _decoder(folder / "tokenizer_config.json", config["added_tokens_decoder"])
    special = _special(config)
    if not listed and not special:
        return None
    try:
        document = json.loads((folder / "tokenizer.json").read_bytes())
        vocabulary = document["model"]["vocab"]
        # A Unigram model lists pairs of a piece and its score.
        known = set(vocabulary) if isinstance(vocabulary, dict) else {piece for piece, _ in vocabulary}
        entries = document.get("added_tokens") or []
        added = {token["id"]: token["content"] for token in entries}
        first = max(len(vocabulary), *(token_id + 1 for token_id in added), 0)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if is_old:
        # An id that both files list is the one of tokenizer.json.
        listed |= added
    known.update(added.values())
    wanted = dict.fromkeys([*(listed[token_id] for token_id in sorted(listed)), *special])
    missing = [content for content in wanted if content and content not in known]
    if not missing:
        return None
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    more = [{"id": first + place, "content": content, **flags} for place, content in enumerate(missing)]
    return json.dumps({**document, "added_tokens": [*entries, *more]}).encode()


def _special(config: dict[str, Any]) -> list[str]:
    """Return the special tokens that a configuration names, in the order in which transformers adds them."""
    others = [value for key, value in config.items() if key.endswith("_token") and key not in NAMED]
    extra = config.get("extra_special_tokens") or config.get("additional_special_tokens") or []
    values = [*(config.get(key) for key in NAMED), *others]
    values += extra.values() if isinstance(extra, dict) else extra if isinstance(extra, list) else []
    contents = (value.get("content") if isinstance(value, dict) else value for value in values)
    # `add_bos_token` and the like are flags, and a special token that is not set is null.
    return [content for content in contents if isinstance(content, str)]


def _decoder(path: Path, decoder: dict[str, Any]) -> dict[int, str]:
    found: dict[int, str] = {}
    for token_id, token in decoder.items():
        content = token.get("content") if isinstance(token, dict) else None
        if not isinstance(content, str):
            raise ValueError(f"{path}: added_tokens_decoder: token {token_id} has no content that is a text")
        found[_number(path, token_id)] = content
    return found


def _number(path: Path, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(f"{path}: {value!r:.80} is no token id") from None


def _object(path: Path) -> dict[str, Any]:
    """Return the JSON object in the file; an empty one if there is no file."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path}: expected a JSON object, got a {type(found).__name__}")
    return found
