"""A process of its own that times a call when told to, for sides that cannot share one: other kernels, other versions.

Runs as a script with nothing but NumPy and some engram_fast installed, so that an older wheel can be timed as well. One
JSON object per line comes in, one goes out.
"""

from __future__ import annotations

import hashlib
import json
import sys
import timeit
from typing import Any

import numpy as np


def set_up(job: dict[str, Any]) -> tuple[timeit.Timer, dict[str, Any]]:
    """The call to time, and what proves its answer."""
    import engram_fast as ef

    token_map = ef.TokenMap.from_lookup(np.load(job["lookup"])) if job["compressed"] else None
    layout = ef.HashLayout.preset(job["preset"], token_map=token_map, **job["parameters"])
    hasher = ef.NgramHasher(layout, token_map)
    ids = np.load(job["ids"])
    out = np.full((len(layout.layer_ids), *ids.shape, layout.columns), -1, dtype=np.int32)
    options = {"out": out, "num_threads": job["threads"]}
    hasher.hash_batch(ids, **options)
    names = {"hash_batch": hasher.hash_batch, "ids": ids, **options}
    timer = timeit.Timer("hash_batch(ids, out=out, num_threads=num_threads)", globals=names)
    proof = {"sha256": hashlib.sha256(out).hexdigest(), "kernel": hasher.kernel, "version": ef.__version__}
    return timer, proof


def main() -> None:
    timers: list[timeit.Timer] = []
    for line in sys.stdin:
        job = json.loads(line)
        try:
            if "burst" in job:
                answer = {"ns": timers[job["timer"]].timeit(job["burst"]) * 1e9}
            else:
                timer, answer = set_up(job)
                timers.append(timer)
                answer["timer"] = len(timers) - 1
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
