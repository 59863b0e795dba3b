"""Sides that run in a process of their own (`worker.py`), fed in turn by this one."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benches.cases import Case, lookup
from benches.environment import ROOT
from benches.harness import Side

SCRIPT = Path(__file__).with_name("worker.py")


class Unavailable(RuntimeError):
    """The worker cannot do what was asked: no such kernel on this processor, no such version."""


class Worker:
    """One process. `kernel` forces a kernel; `python` is another interpreter, with the engram_fast of its own venv."""

    def __init__(self, *, kernel: str | None = None, python: Path | None = None) -> None:
        environment = {key: value for key, value in os.environ.items() if key != "ENGRAM_FAST_KERNEL"}
        if kernel is not None:
            environment["ENGRAM_FAST_KERNEL"] = kernel
        # Isolated, so that the other interpreter cannot find this tree; this one has to.
        command = [sys.executable, str(SCRIPT)] if python is None else [str(python), "-I", str(SCRIPT)]
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
        )
        np.save(self.path("lookup"), lookup())

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()

    def path(self, name: str) -> str:
        return str(Path(self.folder.name) / f"{name}.npy")

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        print(json.dumps(job), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise Unavailable(f"{self.process.args[0]} ended with {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise Unavailable(answer["error"])
        return answer

    def side(self, name: str, case: Case, ids: np.ndarray, threads: int = 1) -> tuple[Side, dict[str, Any]]:
        """A side that hashes `ids` into one int32 buffer, its answer checked against this process's."""
        np.save(self.path("ids"), ids)
        job = {
            "lookup": self.path("lookup"),
            "ids": self.path("ids"),
            "preset": case.preset,
            "parameters": dict(case.parameters),
            "compressed": case.compressed,
            "threads": threads,
        }
        proof = self.ask(job)
        ours = case.hasher.hash_batch(ids, dtype=np.int32)
        if hashlib.sha256(ours).hexdigest() != proof["sha256"]:
            raise AssertionError(f"{name}: its rows differ from ours")
        return Side(name, lambda n: self.ask({"timer": proof["timer"], "burst": n})["ns"]), proof
