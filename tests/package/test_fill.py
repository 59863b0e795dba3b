"""The fill that benchmarks measure the memory with: every byte written, and nothing that cannot be written accepted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engram_fast import _core


@pytest.mark.parametrize("temporal", [True, False])
@pytest.mark.parametrize("threads", [None, 1, 2])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 7), (2, 100_003)])
def test_every_byte_is_written(shape: tuple[int, ...], threads: int | None, temporal: bool) -> None:
    for dtype in (np.int32, np.int64):
        out = np.zeros(shape, dtype)
        _core.fill_bytes(out, temporal, threads)
        assert set(out.tobytes()) <= {0xA5}


@pytest.mark.parametrize(
    ("out", "threads", "error"),
    [
        ([1, 2], 1, TypeError),
        (np.zeros(4), 1, TypeError),
        (np.zeros(4, np.int16), 1, TypeError),
        (np.zeros(4, ">i4"), 1, TypeError),
        (np.zeros((4, 4), np.int32)[:, ::2], 1, ValueError),
        (np.broadcast_to(np.int32(0), (4, 4)), 1, ValueError),
        (np.zeros(4, np.int32), 0, ValueError),
        (np.zeros(4, np.int32), 1.5, TypeError),
    ],
)
def test_what_cannot_be_filled_is_refused_and_left_alone(out: Any, threads: Any, error: type[Exception]) -> None:
    before = np.array(out).copy()
    with pytest.raises(error):
        _core.fill_bytes(out, True, threads)
    assert np.array_equal(before, np.array(out))
