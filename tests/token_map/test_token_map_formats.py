"""Files and objects of tiktoken, sentencepiece and mistral_common: the map of the library's own texts and pieces."""

import base64
import builtins
import io
import json
import os

import pytest
from engram_fast import TokenMap, reference
from engram_fast.token_map.decoding import byte_alphabet

tokenizers = pytest.importorskip("tokenizers", reason="needs the package tokenizers")

WORDS = ["the", " The", "\u00e6", "\ufffd", "\u4e2d", "  ", "\n", "\u00c9"]
TOKENS = list(
    dict.fromkeys(
        [*(bytes([i]) for i in range(256)), *(word.encode() for word in WORDS), b"\xe4\xb8", b"a\xff", b"\xe4\xb8\xad!"]
    )
)


def pieces(tokens):
    alphabet = byte_alphabet()
    return ["".join(alphabet[byte] for byte in token) for token in tokens]


def expected(texts, pieces):
    return reference.token_map(texts, pieces, reference.normalizer()).tolist()


# ---- tiktoken -----------------------------------------------------------------------------------------------------


def encoding(ranks):
    tiktoken = pytest.importorskip("tiktoken", reason="needs the package tiktoken")
    return tiktoken.Encoding("x", pat_str=r"\w+|\W", mergeable_ranks=ranks, special_tokens={})


def write_ranks(path, ranks, end="\n"):
    lines = (base64.b64encode(token).decode() + f" {rank}{end}" for token, rank in ranks.items())
    path.write_bytes("".join(lines).encode())
    return path


RANKS = {token: rank for rank, token in enumerate(TOKENS)}


@pytest.mark.parametrize("name", ["x.tiktoken", "tiktoken.model", "tokenizer.model"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_a_tiktoken_file_gives_the_map_of_the_encoding_that_tiktoken_loads_from_it(tmp_path, name, end):
    load = pytest.importorskip("tiktoken.load", reason="needs the package tiktoken")
    path = write_ranks(tmp_path / name, RANKS, end)
    found = TokenMap.from_file(path)
    assert found == TokenMap.from_tokenizer(encoding(load.load_tiktoken_bpe(str(path))))
    texts = [token.decode(errors="replace") for token in TOKENS]
    assert found.lookup.tolist() == expected(texts, pieces(TOKENS))
    assert found.metadata["source"] == "tiktoken"


def test_a_tiktoken_file_gives_the_map_of_the_tokenizer_that_transformers_converts_it_to(tmp_path):
    convert = pytest.importorskip("transformers.convert_slow_tokenizer", reason="needs the package transformers")
    pytest.importorskip("tiktoken", reason="needs the package tiktoken")
    path = write_ranks(tmp_path / "x.tiktoken", RANKS)
    assert TokenMap.from_file(path) == TokenMap.from_tokenizer(convert.TikTokenConverter(str(path)).converted())


def test_gaps_of_a_tiktoken_file_are_holes(tmp_path):
    path = write_ranks(tmp_path / "x.tiktoken", {b"a": 0, b"A": 3})
    assert TokenMap.from_file(path, vocab_size=6).lookup.tolist() == [0, 1, 1, 0, 1, 1]
    assert TokenMap.from_file(path, vocab_size=6).holes == [1, 2, 4, 5]
    with pytest.raises(ValueError, match="vocab_size: 3 loses token id 3"):
        TokenMap.from_file(path, vocab_size=3)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "no tokens"),
        (b"\n\n", "no tokens"),
        (b"YQ== 0\nYg==\n", "line 2"),
        (b"YQ== 0\nYg== x\n", "line 2"),
        (b"YQ== 0\n!!! 1\n", "line 2"),
        (b"YQ== 0\nYQ= 1\n", "line 2"),
        (b"YQ== 0\nYg== 0\n", "line 2: the rank 0 is negative or occurs twice"),
        (b"YQ== -1\n", "rank -1"),
        (b"\x00\xff" * 50, "line 1"),
        (b"YQ== 4000000000\n", "largest token id is 4000000000"),
    ],
)
def test_a_damaged_tiktoken_file_is_named(tmp_path, content, match):
    path = tmp_path / "x.tiktoken"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=match) as caught:
        TokenMap.from_file(path)
    assert "x.tiktoken" in str(caught.value) or "largest" in match


# ---- tekken.json --------------------------------------------------------------------------------------------------


def tekken(special=None, count=24, tokens=TOKENS, size=None, **config):
    def text(token):
        return token.decode() if token.decode(errors="replace").encode() == token else None

    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": text(token)}
        for rank, token in enumerate(tokens)
    ]
    config = {
        "pattern": r"\w+|\W",
        "num_vocab_tokens": len(tokens),
        "default_vocab_size": len(tokens) + count if size is None else size,
        "default_num_special_tokens": count,
        "version": "v3",
        **config,
    }
    document = {"config": config, "vocab": vocab}
    if special is not None:
        named = ({"rank": rank, "token_str": name, "is_control": True} for rank, name in enumerate(special))
        document["special_tokens"] = list(named)
    return document


def write_tekken(path, document):
    path.write_text(json.dumps(document))
    return path


def test_a_tekken_file_names_its_special_tokens_and_fills_the_rest(tmp_path):
    path = write_tekken(tmp_path / "tekken.json", tekken(["<unk>", "<S>", "<s>"], count=5))
    names = ["<unk>", "<S>", "<s>", "<SPECIAL_3>", "<SPECIAL_4>"]
    texts = names + [token.decode(errors="replace") for token in TOKENS]
    found = TokenMap.from_file(path)
    assert found.lookup.tolist() == expected(texts, names + pieces(TOKENS))
    assert found == TokenMap.from_file(tmp_path)
    assert found.metadata["source"] == "tekken"


def test_a_tekken_file_without_special_tokens_has_the_published_twenty(tmp_path):
    path = write_tekken(tmp_path / "tekken_x.json", tekken(tokens=TOKENS[:256]))
    found = TokenMap.from_file(path)
    assert len(found) == 280
    assert len(set(found.lookup[:24].tolist())) == 24


def test_a_tekken_file_gives_the_map_of_the_tokenizer_that_transformers_converts_it_to(tmp_path):
    mistral = pytest.importorskip("transformers.integrations.mistral.tokenizer", reason="needs transformers 5")
    path = write_tekken(tmp_path / "tekken.json", tekken(["<unk>", "<s>", "</s>"], count=5, size=262))
    assert TokenMap.from_file(path) == TokenMap.from_tokenizer(mistral.MistralConverter(str(path)).converted())
    assert len(TokenMap.from_file(path)) == 262


class Tekkenizer:
    """As much of mistral_common's `Tekkenizer` as is read, for environments without that package."""

    def __init__(self, special, tokens):
        self.special, self.tokens = special, tokens
        self.num_special_tokens = len(special)
        self.n_words = len(special) + len(tokens)

    def id_to_piece(self, token_id):
        return (
            self.special[token_id]
            if token_id < len(self.special)
            else self.id_to_byte_piece(token_id).decode(errors="replace")
        )

    def id_to_byte_piece(self, token_id):
        return b"" if token_id < len(self.special) else self.tokens[token_id - len(self.special)]


def test_a_loaded_tekkenizer_gives_the_map_of_its_file(tmp_path):
    names = ["<unk>", "<s>", "</s>", "<SPECIAL_3>"]
    path = write_tekken(tmp_path / "tekken.json", tekken(names[:3], count=4))
    assert TokenMap.from_tokenizer(Tekkenizer(names, TOKENS)) == TokenMap.from_file(path)


@pytest.mark.parametrize("special", [None, ["<unk>", "<s>", "</s>"]], ids=["published", "named"])
def test_mistral_commons_own_tekkenizer_gives_the_map_of_its_file(tmp_path, special):
    library = pytest.importorskip("mistral_common.tokens.tokenizers.tekken", reason="needs the package mistral-common")
    path = write_tekken(tmp_path / "tekken.json", tekken(special))
    assert TokenMap.from_tokenizer(library.Tekkenizer.from_file(path)) == TokenMap.from_file(path)


@pytest.mark.parametrize(
    "document",
    [
        "{",
        "[]",
        "{}",
        "[" * 10**5,
        json.dumps({**tekken(), "config": {}}),
        json.dumps(tekken(count=3)),
        json.dumps(tekken(count=2**40)),
        json.dumps({**tekken(), "vocab": tekken()["vocab"][1:]}),
        json.dumps({**tekken(), "vocab": tekken()["vocab"][:-1]}),
        json.dumps({**tekken(size=25), "vocab": [{"rank": 0, "token_bytes": "?"}]}),
        json.dumps({**tekken(), "special_tokens": [{"rank": 0}]}),
        json.dumps({**tekken(), "special_tokens": ["<s>"]}),
    ],
)
def test_a_damaged_tekken_file_is_named(tmp_path, document):
    (tmp_path / "tekken.json").write_text(document)
    with pytest.raises(ValueError, match=r"tekken\.json: "):
        TokenMap.from_file(tmp_path / "tekken.json")


# ---- sentencepiece ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def model(request):
    sentencepiece = pytest.importorskip("sentencepiece", reason="needs the package sentencepiece")
    out = io.BytesIO()
    text = ["The quick brown fox", "the lazy dog", "\u00c9t\u00e9, \u00e9t\u00e9 \u4e2d\u6587", "A a B b THE the"]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text * 20),
        model_writer=out,
        model_type=request.param,
        vocab_size=320,
        byte_fallback=True,
        hard_vocab_limit=False,
        user_defined_symbols=["<sep>"],
        control_symbols=["<pad>"],
        minloglevel=2,
    )
    return out.getvalue()


def of_pieces(processor):
    ids = range(processor.get_piece_size())
    return expected([processor.decode([i]) for i in ids], [processor.id_to_piece(i) for i in ids])


@pytest.mark.parametrize("name", ["tokenizer.model", "x.model.v3"])
def test_a_sentencepiece_file_gives_the_map_of_its_decoded_texts_and_pieces(tmp_path, model, name):
    import sentencepiece

    (tmp_path / name).write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    found = TokenMap.from_file(tmp_path / name)
    assert found.lookup.tolist() == of_pieces(processor)
    assert found == TokenMap.from_tokenizer(processor)
    assert found.metadata["source"] == "sentencepiece"
    assert found.holes == []


def test_bytes_of_a_sentencepiece_model_keep_apart(tmp_path, model):
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    high = [processor.piece_to_id(f"<0x{byte:02X}>") for byte in range(128, 256)]
    lookup = TokenMap.from_tokenizer(processor).lookup
    assert len(set(lookup[high].tolist())) == 128


def test_a_padded_vocabulary_adds_holes_to_a_sentencepiece_map(model):
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    size = processor.get_piece_size()
    found = TokenMap.from_tokenizer(processor, vocab_size=size + 3)
    assert found.holes == [size, size + 1, size + 2]
    assert found.lookup[:size].tolist() == of_pieces(processor)


@pytest.mark.parametrize("content", [b"", b"\n", b"\n\x05xxxxx", b"\xff" * 100])
def test_a_damaged_sentencepiece_file_is_named(tmp_path, content):
    pytest.importorskip("sentencepiece", reason="needs the package sentencepiece")
    (tmp_path / "x.model").write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.model: "):
        TokenMap.from_file(tmp_path / "x.model")


def test_a_sentencepiece_file_names_the_package_that_is_missing(tmp_path, monkeypatch):
    imported = builtins.__import__

    def fail(name, *arguments, **options):
        if name == "sentencepiece":
            raise ImportError(name)
        return imported(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", fail)
    (tmp_path / "x.model").write_bytes(b"\n\x05xxxxx")
    with pytest.raises(ImportError, match=r"x\.model: .*install the package sentencepiece"):
        TokenMap.from_file(tmp_path / "x.model")


# ---- folders and names --------------------------------------------------------------------------------------------


def test_an_empty_path_is_a_missing_file(tmp_path, monkeypatch):
    write_tekken(tmp_path / "tekken.json", tekken())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="No such file"):
        TokenMap.from_file("")
    assert len(TokenMap.from_file(".")) == len(TOKENS) + 24


@pytest.mark.parametrize("name", ["none.tiktoken", "tekken.json", "none.model", "tiktoken.model"])
def test_a_missing_file_is_named(tmp_path, name):
    with pytest.raises(FileNotFoundError) as caught:
        TokenMap.from_file(tmp_path / name)
    assert caught.value.filename == str(tmp_path / name)


@pytest.mark.parametrize("name", ["tokenizer.model", "x.tiktoken"])
def test_a_folder_without_tokenizer_json_names_the_file_that_could_be_read_alone(tmp_path, name):
    write_ranks(tmp_path / name, RANKS)
    with pytest.raises(FileNotFoundError, match=f"No such file or directory; to read {name} alone") as caught:
        TokenMap.from_file(tmp_path)
    assert caught.value.filename == os.fspath(tmp_path / "tokenizer.json")
