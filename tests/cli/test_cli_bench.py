"""engram-fast bench: what it measures is verified."""

from __future__ import annotations

import numpy as np
import pytest
from cli_tools import run, run_json
from engram_fast import reference
from engram_fast.cli import bench
from engram_fast.cli.app import app
from typer.testing import CliRunner

QUICK = ("--batch", 2, "--length", 40, "--rounds", 2)


@pytest.mark.parametrize(("order", "heads", "layers"), [(2, 1, 1), (3, 8, 2), (4, 3, 3)])
def test_the_plain_formula_is_the_reference(order, heads, layers):
    hasher = bench._hasher(order, heads, layers)
    ids = np.random.default_rng(2).integers(0, 129280, (2, 9))
    names = ("engram_vocab_size", "max_ngram_size", "n_head_per_ngram", "layer_ids", "pad_id", "seed")
    parameters = {name: hasher.layout.parameters[name] for name in names}
    layout = reference.preset("engram-demo-v1", lookup=hasher.token_map.lookup, **parameters)
    expected = reference.hash_rows(layout, ids, lookup=hasher.token_map.lookup)
    np.testing.assert_array_equal(bench.plain_numpy(hasher.layout, bench._lookup(hasher), ids), expected)


def test_json_has_both_sides():
    report = run_json("bench", *QUICK, "--order", 4, "--heads", 2, "--layers", 1, "--threads", 2)
    assert report["verified_equal"] is True
    assert (report["order"], report["heads"], report["layers"], report["threads"]) == (4, 2, 1, 2)
    for side in ("hash_batch", "numpy"):
        figures = report[side]
        assert figures["tokens_per_second"] * figures["median_seconds"] == pytest.approx(80)
        assert figures["ns_per_token_and_layer"] * 80 == pytest.approx(figures["median_seconds"] * 1e9)
    faster = report["numpy"]["median_seconds"] / report["hash_batch"]["median_seconds"]
    assert report["times_faster"] == pytest.approx(faster)


def test_text_names_the_case_and_both_sides():
    text = run("bench", *QUICK).stdout
    assert "2 x 40 tokens, 2 layers, orders 2 to 3, 8 heads" in text
    assert "hash_batch (int32)" in text
    assert "plain NumPy (int64)" in text
    assert "rows equal bit for bit" in text


@pytest.mark.parametrize("length", [1, 2])
def test_sequences_shorter_than_the_window(length):
    assert run_json("bench", "--batch", 1, "--length", length, "--order", 4, "--rounds", 1)["verified_equal"]


def test_a_difference_is_told_and_nothing_measured(monkeypatch):
    monkeypatch.setattr(bench, "plain_numpy", lambda *_: np.zeros(3))
    result = CliRunner().invoke(app, ["bench", *map(str, QUICK)])
    assert result.exit_code == 1
    assert "differ" in result.stderr
    assert result.stdout == ""
