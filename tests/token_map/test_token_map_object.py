"""A token map as a Python object: frozen, compared by content, shared, copied, sent to other processes."""

import copy
import hashlib
import multiprocessing
import pickle
import sys
import threading

import engram_fast
import numpy as np
import pytest
from engram_fast import TokenMap, _core
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

EXAMPLE = [0, 1, 0, 2, 7]


def test_numbers_and_names():
    token_map = TokenMap.from_lookup(EXAMPLE)
    assert (len(token_map), token_map.size, token_map.holes) == (5, 8, [])
    assert token_map.lookup.dtype == np.int32
    assert isinstance(token_map, _core.TokenMap)
    assert repr(token_map) == f"TokenMap(5 ids -> 8 compressed, 0 holes, digest {token_map.digest[:12]}...)"
    assert token_map.metadata["rule"] == "none"
    assert token_map.metadata["engram_fast"] == engram_fast.__version__


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=3000))
@settings(deadline=None, max_examples=50)
def test_the_digest_is_of_length_and_content_alone(values):
    content = len(values).to_bytes(4, "little") + np.array(values, "<i4").tobytes()
    assert TokenMap.from_lookup(values).digest == hashlib.sha256(content).hexdigest()


def test_the_look_up_is_read_only_and_not_a_copy():
    token_map = TokenMap.from_lookup(EXAMPLE)
    lookup = token_map.lookup
    assert np.shares_memory(lookup, token_map.lookup)
    assert np.shares_memory(lookup, TokenMap(token_map).lookup)
    assert lookup.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        lookup[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        lookup.flags.writeable = True
    with pytest.raises(ValueError, match="WRITEABLE"):
        lookup[1:].flags.writeable = True
    del token_map
    assert lookup.tolist() == EXAMPLE  # the array keeps its map alive


def test_a_look_up_is_copied_from_the_caller():
    mine = np.array(EXAMPLE)
    token_map = TokenMap.from_lookup(mine)
    mine[:] = 9
    assert token_map.lookup.tolist() == EXAMPLE


def test_nothing_can_be_changed():
    token_map = TokenMap.from_lookup(EXAMPLE)
    for name in ("size", "lookup", "holes", "digest", "metadata", "anything"):
        with pytest.raises(AttributeError):
            setattr(token_map, name, 1)
    token_map.holes.append(3)
    token_map.metadata["rule"] = "other"
    assert token_map.holes == []
    assert token_map.metadata["rule"] == "none"


def test_equal_by_content_wherever_it_comes_from():
    by_number = TokenMap.from_lookup([0, 1, 0])
    by_text = TokenMap.from_pieces(["A", "b", "a"], ["A", "b", "a"])
    assert by_number == by_text
    assert hash(by_number) == hash(by_text)
    assert {by_number: 1}[by_text] == 1
    assert by_number != TokenMap.from_lookup([0, 1, 0, 0])
    assert by_number != [0, 1, 0]
    assert (by_number == "x") is False
    assert TokenMap.identity(3) == TokenMap.from_lookup([0, 1, 2])


def test_copies():
    token_map = TokenMap.from_pieces(["A", None], ["A", None])
    for other in (copy.copy(token_map), copy.deepcopy({"map": token_map})["map"], TokenMap(token_map)):
        assert other == token_map
        assert other.holes == [1]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_keeps_everything_and_stays_small(protocol):
    token_map = TokenMap.from_pieces(["A", None, "a"] * 40_000, ["A", None, "a"] * 40_000)
    data = pickle.dumps(token_map, protocol)
    assert len(data) < 4_000_000
    if protocol > 2:  # protocol 2 writes bytes as text
        assert len(data) < 4 * len(token_map) + 4 * len(token_map.holes) + 2000
    back = pickle.loads(data)
    assert type(back) is TokenMap
    assert back == token_map
    assert (back.holes, back.metadata) == (token_map.holes, token_map.metadata)


def test_a_subclass_survives_pickling():
    assert type(pickle.loads(pickle.dumps(Sub.identity(3)))) is Sub


class Sub(TokenMap):
    pass


def test_a_damaged_pickle_is_refused():
    restore, (cls, data) = TokenMap.from_lookup(EXAMPLE).__reduce__()
    with pytest.raises(ValueError, match="digest"):
        restore(cls, data[:-8] + b"\x01" + data[-7:])


def compress_in_worker(token_map):
    return token_map.compress([[4, 3]]).tolist(), hash(token_map)


@pytest.mark.parametrize("method", [m for m in ("spawn", "fork") if m in multiprocessing.get_all_start_methods()])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_other_processes_use_it(method):
    token_map = TokenMap.from_lookup(EXAMPLE)
    with multiprocessing.get_context(method).Pool(2) as pool:
        results = pool.map_async(compress_in_worker, [token_map] * 4).get(60)
    assert results == [([[7, 2]], hash(token_map))] * 4


def build_in_worker(n):
    texts = [f"Tok{i // 2}" for i in range(n)]
    return TokenMap.from_pieces(texts, texts).size


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_builds_a_map_after_its_parent_did():
    assert build_in_worker(20_000) == 10_000
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(build_in_worker, [20_000] * 4).get(60) == [10_000] * 4


def test_threads_share_one_map():
    token_map = TokenMap.identity(100_000)
    wrong = []

    def work(seed):
        ids = np.random.default_rng(seed).integers(0, 100_000, 20_000)
        for _ in range(20):
            if not np.array_equal(token_map.compress(ids), ids) or token_map.compress(token_map.lookup)[-1] != 99_999:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


INTEGERS = st.sampled_from(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i2", ">i4", ">u8"])


@settings(deadline=None)
@given(
    hnp.arrays(INTEGERS, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0), elements=st.integers(0, 4)), st.data()
)
def test_compress_keeps_the_shape_for_every_dtype_and_stride(ids, data):
    token_map = TokenMap.from_lookup(EXAMPLE)
    if ids.ndim:
        ids = data.draw(
            st.sampled_from(
                [ids, ids[::-1], ids[::2], np.asfortranarray(ids), ids.T, np.broadcast_to(ids, (2, *ids.shape))]
            )
        )
    compressed = token_map.compress(ids)
    assert compressed.dtype == np.int32
    assert compressed.shape == ids.shape
    np.testing.assert_array_equal(compressed, np.array(EXAMPLE)[ids.astype("i8")])


def test_compress_takes_unaligned_and_read_only_arrays():
    raw = np.zeros(8 * 4 + 1, "u1")
    ids = raw[1:].view("<i8")
    ids[:] = [4, 0, 3, 1]
    assert TokenMap.from_lookup(EXAMPLE).compress(ids).tolist() == [7, 0, 2, 1]
    ids.flags.writeable = False
    assert TokenMap.from_lookup(EXAMPLE).compress(ids).tolist() == [7, 0, 2, 1]


def test_compress_takes_lists_scalars_and_tensors():
    token_map = TokenMap.from_lookup(EXAMPLE)
    assert token_map.compress([[4, 3], [2, 1]]).tolist() == [[7, 2], [0, 1]]
    assert token_map.compress([]).shape == (0,)
    assert token_map.compress([[], []]).shape == (2, 0)
    assert token_map.compress(4).shape == ()
    assert token_map.compress(range(3)).tolist() == [0, 1, 0]
    torch = pytest.importorskip("torch", reason="needs the package torch")
    assert token_map.compress(torch.tensor([[4, 3]])).tolist() == [[7, 2]]


@pytest.mark.parametrize(
    "wrong",
    [
        *(1.0, [1.0], True, [True], [None], "1", ["1"], {}, [1, 2.5], b"1", 1j, [2**70, "x"], [2**63, 0.5]),
        *(np.array([1], dtype=object), np.zeros(0), np.zeros(2, "M8[s]"), np.zeros(2, [("a", "i4")])),
    ],
    ids=repr,
)
def test_what_are_no_integers_is_a_type_error(wrong):
    with pytest.raises(TypeError, match="ids"):
        TokenMap.from_lookup(EXAMPLE).compress(wrong)
    with pytest.raises(TypeError, match="lookup"):
        TokenMap.from_lookup(wrong)


@pytest.mark.parametrize("wrong", [[], [[0]], 0, [-1], [2**31], [2**63], [0, -(2**63)]])
def test_a_look_up_that_is_no_list_of_compressed_ids_is_refused(wrong):
    with pytest.raises(ValueError, match="lookup"):
        TokenMap.from_lookup(wrong)


@pytest.mark.parametrize("n", [0, -1, 2**26 + 1, 2**64, -(2**200)])
def test_an_identity_of_no_or_too_many_ids_is_refused(n):
    with pytest.raises(ValueError, match=rf"n: {n} "):
        TokenMap.identity(n)


def test_pieces_must_match_the_texts():
    with pytest.raises(ValueError, match="1 pieces for 2 texts"):
        TokenMap.from_pieces(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="token id 1 has no piece"):
        TokenMap.from_pieces(["a", "\ufffd"], ["a", None])
    with pytest.raises(ValueError, match="at least one"):
        TokenMap.from_pieces([], [])
    with pytest.raises(UnicodeEncodeError):
        TokenMap.from_pieces(["\ud800"], ["a"])
    with pytest.raises(TypeError):
        TokenMap.from_pieces([b"a"], ["a"])


def test_it_is_not_made_by_its_name():
    for arguments in [(), ([0, 1],), (np.zeros(3, "i4"),)]:
        with pytest.raises(TypeError):
            TokenMap(*arguments)


def test_reading_it_leaks_no_references():
    token_map = TokenMap.from_lookup(EXAMPLE)
    before = sys.getrefcount(token_map)
    for _ in range(100):
        token_map.lookup  # noqa: B018
        token_map.compress([0, 1])
    assert sys.getrefcount(token_map) == before
