"""Damaged files against every reader: a ValueError, or a value that comes back from saving; never anything else.

    python tests/support/fuzz_files.py [--seconds 60] [--seed 1] [--keep DIR]

Bytes (and, in JSON, whole values) of small valid files are changed at random. What fails is written to --keep and can
be run again with --input FILE --reader NAME.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from engram_fast import HashLayout, NgramHasher, TokenMap, load_config, megatron_map
from engram_fast.layout_check import check_layout

INTERESTING = [0, 1, 2, 7, 8, 9, 10, 31, 34, 44, 58, 91, 92, 93, 123, 125, 127, 128, 191, 192, 239, 254, 255]
VALUES = ["0", "-1", "1", "2", "1e400", "1.5", "-0", "9223372036854775807", "9223372036854775808", "1" + "0" * 40]
VALUES += ["null", "true", '""', '"x"', "[]", "{}", "[0]", "[[]]", "NaN", "1" * 400, '"\\ud800"', "[" * 2000]
TOKEN = re.compile(rb'-?\d[\d.eE+-]*|"[^"]*"|true|false|null|\[[^\[\]{}]*\]')
SLOW = 5.0  # seconds that no reader may take for a file of a few kilobytes


def read_token_map(path: Path) -> None:
    token_map = TokenMap.load(path)
    token_map.save(path)
    assert TokenMap.load(path) == token_map
    assert len(token_map.lookup) == len(token_map)
    token_map.compress([0, len(token_map) - 1])


def read_tokenizer(path: Path) -> None:
    assert len(TokenMap.from_file(path)) > 0


def read_layout(path: Path) -> None:
    layout = HashLayout.from_json(path.read_text(encoding="utf-8"))
    assert HashLayout.from_json(layout.to_json()) == layout
    if layout.token_map_digest is None:
        rows = NgramHasher(layout).hash_batch([[0, 1, 2]], dtype="int64", num_threads=1)
        assert rows.min() >= 0


def read_megatron(path: Path) -> None:
    found = megatron_map.read(path)
    numbers = {"pad_token_id": found.pad_token_id, "layer_multipliers": found.layer_multipliers}
    megatron_map.write(path, found.token_map, hash_seed=found.hash_seed, **numbers)
    again = megatron_map.read(path)
    assert again.token_map == found.token_map
    assert again.layer_multipliers == found.layer_multipliers


def read_config(path: Path) -> None:
    load_config(path)


def read_model(path: Path) -> None:
    check_layout(path, token_map=TokenMap.identity(64))


def seeds() -> dict[Callable[[Path], None], list[bytes]]:
    """Small valid files of each reader."""
    token_map = TokenMap.from_pieces(["The", "the", None, "�", "dog"], ["The", "the", None, "Ã", "dog"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"

        def written(write: Callable[[Path], None]) -> bytes:
            write(path)
            return path.read_bytes()

        maps = [written(one.save) for one in (token_map, TokenMap.identity(3), TokenMap.from_lookup([0, 1, 0]))]
        multipliers = {2: [3, 5, 7], 9: [11, 13, 15]}
        megatron = []
        for more in ({}, {"padded_vocab_size": 9, "hash_seed": 3}):
            megatron_map.write(path, token_map, pad_token_id=0, layer_multipliers=multipliers, **more)
            megatron.append(path.read_bytes())
    alone = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    bpe = {"type": "BPE", "dropout": None, "byte_fallback": False, "continuing_subword_prefix": None}
    bpe |= {"vocab": {"a": 0, "b": 1, "ab": 2, "<0x41>": 3, "\u0120": 5}, "merges": ["a b"]}
    words = {"type": "WordLevel", "vocab": {"A": 0, "a": 1, "<u>": 4}, "unk_token": "<u>"}
    decoders = [{"type": "ByteFallback"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    tokenizers = [
        {"version": "1.0", "added_tokens": [{"id": 6, "content": "<s>", **alone}], "decoder": decoder, "model": model}
        for model in (bpe, bpe | {"merges": [["a", "b"]]}, words)
        for decoder in (None, {"type": "Sequence", "decoders": decoders})
    ]
    small = {"engram_vocab_size": [97, 101], "n_head_per_ngram": 2, "layer_ids": [1, 3], "pad_id": 0}
    layouts = [
        HashLayout.preset("engram-demo-v1", token_map=token_map, **small),
        HashLayout.preset("qwen-ple", heads_per_ngram=2).with_boundary([1, 2]),
        HashLayout.preset("longcat"),
        HashLayout.preset("blt", encoder_hash_byte_group_nb_functions=2),
    ]
    two = {"engram": {**small, "max_ngram_size": 3}, "backbone": {"hidden_size": 8, "num_layers": 4}}
    deepseek = {"engram_layer_ids": [1, 2], "engram_max_ngram_size": 3, "engram_vocab_size": 97, "engram_n_heads": 2}
    deepseek |= {"engram_pad_token_id": 0, "vocab_size": 64, "num_hidden_layers": 4}
    qwen = {"model_type": "qwen4_exp", "ple_layer_ids": [2], "eos_token_id": 5, "vocab_size": 64, "ngram_size": 3}
    models = [{"model_type": "deepseek_v41", "text_config": deepseek}, qwen, {"model_type": "blt"}, two]
    return {
        read_token_map: maps,
        read_tokenizer: [json.dumps(tokenizer).encode() for tokenizer in tokenizers],
        read_layout: [layout.to_json().encode() for layout in layouts],
        read_megatron: megatron,
        read_config: [json.dumps(two).encode()],
        read_model: [json.dumps(model).encode() for model in models],
    }


def mutated(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """`data` with one to four changes."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(out) + 1)
        size = min(len(out) - at, rng.choice((1, 1, 2, 4, 8, 64)))
        tokens = list(TOKEN.finditer(bytes(out)))
        match rng.randrange(9):
            case 0 if size:
                out[at] ^= 1 << rng.randrange(8)
            case 1 if size:
                out[at] = rng.choice(INTERESTING)
            case 2:
                out[at:at] = rng.randbytes(rng.choice((1, 2, 4, 8)))
            case 3:
                del out[at : at + size]
            case 4:
                out[at:at] = out[at : at + size] * rng.choice((1, 2, 50))
            case 5:
                del out[at:]
            case 6:
                other = rng.choice(others)
                out[at:] = other[rng.randrange(len(other) + 1) :]
            case 7 if tokens:
                token = rng.choice(tokens)
                out[token.start() : token.end()] = rng.choice(VALUES).encode()
            case 8 if tokens:
                one, other = rng.choice(tokens), rng.choice(tokens)
                out[one.start() : one.end()] = other.group()
    return bytes(out)


def attempt(reader: Callable[[Path], None], data: bytes, path: Path) -> str:
    """ "read" or "refused"; what else happens is raised."""
    path.write_bytes(data)
    started = time.perf_counter()
    try:
        reader(path)
        outcome = "read"
    except (ValueError, TypeError) as error:
        # A TypeError is for values of the wrong type in a configuration; both must say something.
        if not str(error):
            raise
        outcome = "refused"
    except IndexError as error:
        # The layout is sound, and does not know the three ids that it was tried on.
        if "token id" not in str(error):
            raise
        outcome = "read"
    if (seconds := time.perf_counter() - started) > SLOW:
        raise TimeoutError(f"{seconds:.1f} s for {len(data)} bytes")
    return outcome


def fuzz(seconds: float, seed: int, keep: Path, report: Callable[[str], None] = print) -> int:
    """The number of failures; stops at the fifth."""
    rng = random.Random(seed)
    files = list(seeds().items())
    outcomes: Counter[tuple[str, str]] = Counter()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged"
        for reader, originals in files:
            for original in originals:
                assert attempt(reader, original, path) == "read", reader.__name__
        end = time.monotonic() + seconds
        while time.monotonic() < end and failures < 5:
            reader, originals = rng.choice(files)
            data = mutated(rng.choice(originals), originals, rng)
            try:
                outcomes[reader.__name__, attempt(reader, data, path)] += 1
            except KeyboardInterrupt:
                raise
            # A panic of the core is no Exception.
            except BaseException as error:
                failures += 1
                keep.mkdir(parents=True, exist_ok=True)
                kept = keep / f"{reader.__name__}-{seed}-{failures}"
                kept.write_bytes(data)
                report(f"{reader.__name__}: {type(error).__name__}: {error}\n  kept as {kept}")
    for (name, outcome), count in sorted(outcomes.items()):
        report(f"{name:16} {outcome:8} {count}")
    report(f"seed {seed}: {outcomes.total()} files, {failures} failures")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    parser.add_argument("--input", type=Path)
    parser.add_argument("--reader")
    arguments = parser.parse_args()
    if arguments.input is None:
        print(f"seed {arguments.seed}, {arguments.seconds:g} s")
        return 1 if fuzz(arguments.seconds, arguments.seed, arguments.keep) else 0
    (reader,) = (reader for reader in seeds() if reader.__name__ == arguments.reader)
    with tempfile.TemporaryDirectory() as folder:
        print(attempt(reader, arguments.input.read_bytes(), Path(folder) / "damaged"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
