"""The JSON token map of Megatron: out and in again, and every field that lies."""

import json
import os

import pytest
from engram_fast import TokenMap, megatron_map
from hypothesis import given, settings
from hypothesis import strategies as st

MULTIPLIERS = {2: [3, 5, 7], 15: [9, 11, 13]}
FIELDS = {
    "format",
    "version",
    "source_vocab_size",
    "tokenizer_vocab_size",
    "compressed_vocab_size",
    "normalization",
    "pad_token_id",
    "compressed_pad_token_id",
    "max_ngram_order",
    "hash_seed",
    "layer_ids",
    "layer_multipliers",
    "remap",
}


def token_map():
    return TokenMap.from_pieces(["The", "the", "pad", "dog"], ["The", "the", "pad", "dog"])


def write(path, **options):
    options = {"pad_token_id": 2, "layer_multipliers": MULTIPLIERS, "padded_vocab_size": 6, **options}
    token_map().to_megatron_json(path, **options)
    return json.loads(path.read_text())


def test_the_fields_of_the_file(tmp_path):
    artefact = write(tmp_path / "map.json", hash_seed=7)
    assert set(artefact) == FIELDS
    assert artefact["remap"] == [0, 0, 1, 2, 1, 1]
    assert artefact["format"] == "megatron-engram-token-map"
    assert artefact["layer_multipliers"] == {"2": [3, 5, 7], "15": [9, 11, 13]}
    assert artefact["layer_ids"] == [2, 15]
    assert artefact["normalization"] == "NFKC+NFD+StripAccents+Lowercase+WhitespaceCollapse"
    numbers = ("version", "source_vocab_size", "tokenizer_vocab_size", "compressed_vocab_size", "pad_token_id")
    assert [artefact[name] for name in numbers] == [1, 6, 4, 3, 2]
    numbers = ("compressed_pad_token_id", "max_ngram_order", "hash_seed")
    assert [artefact[name] for name in numbers] == [1, 3, 7]
    assert os.listdir(tmp_path) == ["map.json"]


def test_out_and_in_again(tmp_path):
    write(tmp_path / "map.json", hash_seed=7)
    found = megatron_map.read(tmp_path / "map.json")
    assert found.token_map.lookup.tolist() == [0, 0, 1, 2, 1, 1]
    assert found.token_map.holes == [4, 5]
    assert found.layer_multipliers == {2: (3, 5, 7), 15: (9, 11, 13)}
    assert (found.pad_token_id, found.compressed_pad_token_id, found.hash_seed) == (2, 1, 7)
    assert (found.tokenizer_vocab_size, found.max_ngram_order, found.layer_ids) == (4, 3, (2, 15))
    assert found.token_map.metadata["rule"] == "normalized-text"
    again = TokenMap.from_megatron_json(tmp_path / "map.json")
    assert type(again) is TokenMap
    assert again == found.token_map
    again.to_megatron_json(tmp_path / "again.json", pad_token_id=2, layer_multipliers=MULTIPLIERS, hash_seed=7)
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "map.json").read_bytes()


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=50), st.data())
def test_any_look_up_comes_back(tmp_path_factory, values, data):
    path = tmp_path_factory.mktemp("map") / "map.json"
    given_map = TokenMap.from_lookup(values)
    pad = data.draw(st.integers(0, len(values) - 1))
    given_map.to_megatron_json(path, pad_token_id=pad, layer_multipliers={1: [1, 3]})
    assert TokenMap.from_megatron_json(path) == given_map


def test_fields_that_are_not_known_are_ignored(tmp_path):
    artefact = write(tmp_path / "map.json")
    artefact["tokenizer_name_or_path"] = "some/tokenizer"
    (tmp_path / "map.json").write_text(json.dumps(artefact))
    assert TokenMap.from_megatron_json(tmp_path / "map.json").size == 3


@pytest.mark.parametrize("name", sorted(FIELDS))
@pytest.mark.parametrize("value", ["absent", None, "x", -1, 2**70, 1.5, True, [], {}, [None], {"2": None}])
def test_a_wrong_or_missing_field_is_refused_by_its_name(tmp_path, name, value):
    path = tmp_path / "map.json"
    artefact = write(path)
    if value == "absent":
        del artefact[name]
    else:
        artefact[name] = value
    path.write_text(json.dumps(artefact))
    with pytest.raises(ValueError, match=rf"map\.json: {name}: "):
        megatron_map.read(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("version", 2),
        ("version", "1"),
        ("source_vocab_size", 5),
        ("tokenizer_vocab_size", 7),
        ("tokenizer_vocab_size", 3),  # id 3 past it is no padding
        ("compressed_vocab_size", 2),
        ("compressed_vocab_size", 4),
        ("normalization", "NFC"),
        ("pad_token_id", 4),  # padding, not a token
        ("compressed_pad_token_id", 2),
        ("max_ngram_order", 4),
        ("max_ngram_order", 1),
        ("hash_seed", "0"),
        ("layer_ids", [2]),
        ("layer_ids", [2, 2]),
        ("layer_ids", [2, 15, 16]),
        ("layer_multipliers", {"2": [3, 5, 7]}),
        ("layer_multipliers", {"2": [3, 5, 7], "15": [9, 11]}),
        ("layer_multipliers", {"2": [3, 5, 7], "15": [9, 11, 12]}),
        ("layer_multipliers", {"2": [3, 5, 7], "15": [9, 11, -1]}),
        ("layer_multipliers", {"2": [3, 5, 7], "15": [9, 11, 2**62 + 1]}),  # a product could wrap
        ("layer_multipliers", {"2": [3, 5, 7], "15": [9, 11, 13.0]}),
        ("remap", [0, 0, 1, 2, 1, -1]),
        ("remap", [0, 0, 1, 2, 1, 2**31]),
        ("remap", [0, 0, 1, 2, 1, True]),
    ],
)
def test_a_field_that_disagrees_with_the_others_is_refused(tmp_path, name, value):
    path = tmp_path / "map.json"
    path.write_text(json.dumps({**write(path), name: value}))
    other = "layer_multipliers" if name in ("max_ngram_order", "layer_ids") else name
    with pytest.raises(ValueError, match=rf"map\.json: ({name}|{other}): "):
        megatron_map.read(path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff\xfe", b"[" * 10**5, b'{"format": NaN}', b"\x00"])
def test_what_is_no_json_object_is_refused(tmp_path, content):
    (tmp_path / "map.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"map\.json: "):
        megatron_map.read(tmp_path / "map.json")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"pad_token_id": 4}, "pad_token_id: 4"),
        ({"pad_token_id": -1}, "pad_token_id: -1"),
        ({"padded_vocab_size": 3}, "padded_vocab_size: 3 loses token id 3"),
        ({"padded_vocab_size": -1}, "^padded_vocab_size: "),
        ({"layer_multipliers": {}}, "^layer_multipliers: no layers"),
        ({"layer_multipliers": {-1: [3, 5]}}, "^layer_ids: "),
        ({"layer_multipliers": {1: [3, 5], 2: [3]}}, "layer_multipliers"),
        ({"layer_multipliers": {1: [3, 4]}}, "layer_multipliers"),
        ({"hash_seed": -1}, "hash_seed"),
    ],
)
def test_a_wrong_argument_writes_nothing(tmp_path, options, match):
    with pytest.raises(ValueError, match=match):
        write(tmp_path / "map.json", **options)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "options",
    [
        *({name: value} for name in ("pad_token_id", "hash_seed", "padded_vocab_size") for value in (1.0, "6", True)),
        *({"layer_multipliers": value} for value in (None, 5, [3, 5], {1: 3}, {1: [3.0, 5]}, {"1": [3, 5]})),
    ],
    ids=str,
)
def test_an_argument_of_another_type_is_named_and_writes_nothing(tmp_path, options):
    with pytest.raises(TypeError, match=f"^{next(iter(options))}"):
        write(tmp_path / "map.json", **options)
    assert os.listdir(tmp_path) == []


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError):
        megatron_map.read(tmp_path / "none.json")
