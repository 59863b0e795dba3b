"""Ctrl-C, signals and killed runs: the command stops at once, and leaves no file behind."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from cli_tools import listing, refuse, run
from engram_fast import NgramHasher
from engram_fast.cli import files, pieces

posix = pytest.mark.skipif(os.name != "posix", reason="needs signals of a POSIX system")


def temporary_files(folder):
    return [file.name for file in folder.iterdir() if file.name.endswith(".tmp")]


def start_slow(source, target, hasher):
    """A process that hashes slowly, token by token, once it has begun."""
    slow = "import time; from engram_fast.cli import pieces; pieces._PIECE = 1; "
    slow += "first = pieces._places; pieces._places = lambda *a: (time.sleep(0.05) or place for place in first(*a)); "
    statements = f"{slow}from engram_fast.cli import main; main()"
    arguments = [sys.executable, "-c", statements, "hash", source, "-o", target, "--hasher", hasher]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(list(map(str, arguments)), env=environment, stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        if temporary_files(target.parent):
            time.sleep(0.1)
            return process
        time.sleep(0.05)
    process.kill()
    raise AssertionError("the command did not begin to write")


@posix
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"])
def test_a_signal_stops_hash_within_a_second_and_leaves_nothing(tmp_path, hasher, saved, number, code):
    source = saved("i.npy", np.zeros(5000, int))
    before = listing(tmp_path)
    process = start_slow(source, tmp_path / "r.npy", hasher)
    sent = time.monotonic()
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - sent < 3  # a second, and two for a busy machine
    assert process.returncode == code
    assert "Traceback" not in errors
    assert listing(tmp_path) == before


@posix
def test_a_killed_run_leaves_a_file_that_the_next_run_removes(tmp_path, hasher, saved):
    source = saved("i.npy", np.zeros(5000, int))
    process = start_slow(source, tmp_path / "r.npy", hasher)
    process.kill()
    process.communicate(timeout=60)
    assert len(temporary_files(tmp_path)) == 1
    run("hash", source, "-o", tmp_path / "other.npy", "--hasher", hasher)
    assert len(temporary_files(tmp_path)) == 1
    run("hash", source, "-o", tmp_path / "r.npy", "--hasher", hasher)
    assert temporary_files(tmp_path) == []
    assert np.load(tmp_path / "r.npy").shape == (2, 5000, 4)


@posix
def test_the_file_of_a_run_that_still_writes_stays(tmp_path, hasher, saved):
    source = saved("i.npy", np.zeros(300, int))
    process = start_slow(source, tmp_path / "r.npy", hasher)
    run("hash", source, "-o", tmp_path / "r.npy", "--hasher", hasher)
    assert len(temporary_files(tmp_path)) == 1
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert temporary_files(tmp_path) == []


def test_files_of_others_that_look_alike_stay(tmp_path, hasher, saved):
    for name in (".r.npy.tmp", ".r.npy.0123.tmp", ".rr.npy.0123456789abcdef.tmp", "r.npy.0123456789abcdef.tmp"):
        (tmp_path / name).write_text("mine")
    (tmp_path / ".r.npy.0123456789abcdee.tmp").mkdir()
    before = listing(tmp_path)
    run("hash", saved("i.npy", np.zeros(3, int)), "-o", tmp_path / "r.npy", "--hasher", hasher)
    assert {name: content for name, content in listing(tmp_path).items() if name in before} == before
    assert (tmp_path / ".r.npy.0123456789abcdee.tmp").is_dir()


def test_no_call_into_the_core_hashes_more_than_a_fraction_of_a_second(tmp_path, hasher, saved, monkeypatch):
    sizes = []
    original = NgramHasher.hash_batch

    def spy(self, ids, **options):
        sizes.append(np.size(ids))
        return original(self, ids, **options)

    monkeypatch.setattr(NgramHasher, "hash_batch", spy)
    run("hash", saved("i.npy", np.zeros((2000, 1000), np.uint8)), "-o", tmp_path / "r.npy", "--hasher", hasher)
    assert sum(sizes) == 2000 * 1000
    assert max(sizes) * 2 * 4 * 4 <= pieces._PIECE


def test_a_large_output_goes_to_the_disk_as_it_fills(tmp_path, hasher, saved, monkeypatch):
    synced = []
    original = os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(1) or original(number))
    monkeypatch.setattr(files, "_SYNCED", 1 << 20)
    monkeypatch.setattr(pieces, "_PIECE", 1 << 18)
    run("hash", saved("i.npy", np.zeros(200_000, np.uint8)), "-o", tmp_path / "r.npy", "--hasher", hasher)
    assert len(synced) == 200_000 * 2 * 4 * 4 // (1 << 20) + 1


def test_a_disk_that_fails_while_it_is_written_is_an_error_and_leaves_nothing(tmp_path, hasher, saved, monkeypatch):
    def fail(number):
        raise OSError(errno.EIO, "Input/output error")

    source = saved("i.npy", np.zeros(200_000, np.uint8))
    before = listing(tmp_path)
    monkeypatch.setattr(os, "fsync", fail)
    monkeypatch.setattr(files, "_SYNCED", 1 << 20)
    assert "Input/output error" in refuse("hash", source, "-o", tmp_path / "r.npy", "--hasher", hasher)
    assert listing(tmp_path) == before


def test_ctrl_c_in_any_command_is_exit_code_130(tmp_path, hasher, saved, monkeypatch):
    import engram_fast

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(engram_fast, "presets", stop)
    result = run("layout", "show", code=130)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    monkeypatch.setattr(NgramHasher, "hash_batch", stop)
    run("bench", "--batch", 1, "--length", 8, "--rounds", 1, code=130)


@posix
def test_a_link_is_followed_and_permissions_stay(tmp_path, hasher, saved):
    source = saved("i.npy", np.zeros(3, int))
    (tmp_path / "real").mkdir()
    real = tmp_path / "real" / "rows.npy"
    real.write_bytes(b"old")
    real.chmod(0o600)
    (tmp_path / "link.npy").symlink_to(real)
    run("hash", source, "-o", tmp_path / "link.npy", "--hasher", hasher)
    assert (tmp_path / "link.npy").is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert np.load(real).shape == (2, 3, 4)
