"""Arrow memory that another program made: read if pyarrow reads it, an error if it is malformed, never a crash.

The cases run in another process: a crash would end this one.
"""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from engram_fast.data import map_batch
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow is missing")

# First on the path of the child process: another folder of tests has a conftest too.
FOLDER = os.path.dirname(os.path.abspath(__file__))

START = """
import numpy as np, pyarrow as pa
from conftest import small_hasher
from engram_fast.data import map_batch
from engram_fast.data.arrow_lists import flatten

INT, LIST = pa.int32(), pa.list_(pa.int32())
def buffer(*numbers, dtype=np.int32): return pa.py_buffer(np.array(numbers, dtype))
VALUES = pa.array([5, 7, 9, 2, 4], INT)
"""

MALFORMED = {
    "no offsets": "pa.Array.from_buffers(LIST, 3, [None, None], children=[VALUES])",
    "short offsets": "pa.Array.from_buffers(LIST, 300, [None, buffer(0, 2, 5)], children=[VALUES])",
    "falling offsets": "pa.Array.from_buffers(LIST, 3, [None, buffer(0, 4, 2, 5)], children=[VALUES])",
    "negative offsets": "pa.Array.from_buffers(LIST, 2, [None, buffer(-4, 2, 5)], children=[VALUES])",
    "offsets past the values": "pa.Array.from_buffers(LIST, 2, [None, buffer(0, 2, 5000000)], children=[VALUES])",
    "a view outside": "pa.Array.from_buffers(pa.list_view(INT), 2, [None, buffer(0, 4000000), buffer(2, 3)], "
    "children=[VALUES])",
    "a view of negative size": "pa.Array.from_buffers(pa.list_view(INT), 2, [None, buffer(0, 1), buffer(2, -3)], "
    "children=[VALUES])",
    "a wrong dictionary index": "pa.ListArray.from_arrays(pa.array([0, 2], INT), "
    "pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int8()), VALUES, safe=False))",
    "short values": "pa.Array.from_buffers(LIST, 1, [None, buffer(0, 400)], "
    "children=[pa.Array.from_buffers(INT, 400, [None, buffer(1)])])",
}
READ = {
    "no list, and no offsets": ("pa.Array.from_buffers(LIST, 0, [None, None], children=[VALUES])", []),
    "no list, and a wrong offset": ("pa.Array.from_buffers(LIST, 0, [None, buffer(9)], children=[VALUES])", []),
    "empty lists": ("pa.Array.from_buffers(LIST, 2, [None, buffer(5, 5, 5)], children=[VALUES])", [[], []]),
    "offsets that begin later": (
        "pa.Array.from_buffers(LIST, 2, [None, buffer(1, 3, 5)], children=[VALUES])",
        [[7, 9], [2, 4]],
    ),
    "unaligned values": (
        "pa.Array.from_buffers(LIST, 1, [None, buffer(0, 2)], children=[pa.Array.from_buffers(INT, 2, "
        "[None, pa.py_buffer(b'x' + np.array([5, 7], np.int32).tobytes()).slice(1)])])",
        [[5, 7]],
    ),
    "a bitmap without a null": (
        "pa.Array.from_buffers(LIST, 2, [buffer(255, dtype=np.uint8), buffer(0, 3, 5)], children=[VALUES])",
        [[5, 7, 9], [2, 4]],
    ),
}


@pytest.fixture(scope="module")
def answers():
    """For each case the rows, or `error: message`."""
    code = """
    import json, sys
    for name, source in json.loads(sys.stdin.read()).items():
        try:
            column = eval(source)
            flatten(column, "x")
            rows = map_batch(pa.table({"input_ids": column}), small_hasher()).column("engram_rows").to_pylist()
            print(json.dumps([name, rows]), flush=True)
        except (ValueError, TypeError, IndexError) as error:
            print(json.dumps([name, f"{type(error).__name__}: {error}"]), flush=True)
    """
    cases = {**MALFORMED, **{name: source for name, (source, _) in READ.items()}}
    done = subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(code)],
        input=json.dumps(cases),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([FOLDER, *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    found = dict(json.loads(line) for line in done.stdout.splitlines())
    missing = [name for name in cases if name not in found]
    assert done.returncode == 0, f"crashed at {missing[:1]}: {done.stderr[-1500:]}"
    return found


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_memory_is_an_error(answers, name):
    assert isinstance(answers[name], str), answers[name]
    assert answers[name].startswith(("ValueError", "ArrowInvalid"))  # from us, or from pyarrow when it was made


@pytest.mark.parametrize("name", READ)
def test_sound_memory_is_read(answers, hasher, name):
    documents = READ[name][1]
    assert len(answers[name]) == len(documents)
    for rows, document in zip(answers[name], documents, strict=True):
        want = hasher.hash_batch(np.array([document], np.int64), layer_axis=-2)[0]
        assert np.array_equal(np.array(rows, np.int64).reshape(want.shape), want)


@given(st.lists(st.integers(-3, 9), min_size=1, max_size=6), st.integers(0, 7), st.booleans())
def test_any_offsets_are_read_as_pyarrow_reads_them_or_refused(hasher, offsets, length, large):
    kind = (pa.large_list if large else pa.list_)(pa.int32())
    buffer = pa.py_buffer(np.array(offsets, np.int64 if large else np.int32))
    try:
        column = pa.Array.from_buffers(kind, length, [None, buffer], children=[pa.array([5, 7, 9, 2, 4], pa.int32())])
        column.validate(full=True)
        documents = column.to_pylist()
    except pa.ArrowInvalid:
        documents = None
    try:
        rows = map_batch(pa.table({"input_ids": column}), hasher).column("engram_rows").to_pylist()
    except (ValueError, UnboundLocalError):
        assert documents is None
        return
    assert documents is not None
    for got, document in zip(rows, documents, strict=True):
        want = hasher.hash_batch(np.array([document], np.int64), layer_axis=-2)[0]
        assert np.array_equal(np.array(got, np.int64).reshape(want.shape), want)
