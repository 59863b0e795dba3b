"""Collators of transformers and TRL as the base of `EngramCollator`."""

import numpy as np
import pytest
from engram_fast.data import EngramCollator

torch = pytest.importorskip("torch", reason="torch is missing")
transformers = pytest.importorskip("transformers", reason="transformers is missing")

DOCUMENTS = [[5, 6, 7, 8], [9], [5, 5, 6]]


@pytest.fixture(scope="module", params=["right", "left"])
def tokenizer(request):
    from tokenizers import Tokenizer, models

    vocab = {f"t{i}": i for i in range(20)} | {"<pad>": 20, "<mask>": 21}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(vocab, unk_token="t0")),
        pad_token="<pad>",
        mask_token="<mask>",
        padding_side=request.param,
    )


def check_documents(hasher, batch, documents=DOCUMENTS):
    for ids, mask, rows, document in zip(
        batch["input_ids"], batch["attention_mask"], batch["engram_rows"], documents, strict=True
    ):
        real = mask.bool()
        assert ids[real].tolist() == document
        assert np.array_equal(rows[:, real], hasher.hash_batch(np.array([document]), layer_axis=1)[0])


@pytest.mark.parametrize("base", ["DataCollatorForLanguageModeling", "DataCollatorWithPadding"])
def test_transformers_padding(hasher, tokenizer, base):
    options = {"mlm": False} if base == "DataCollatorForLanguageModeling" else {}
    collator = EngramCollator(hasher, getattr(transformers, base)(tokenizer, **options))
    check_documents(hasher, collator([{"input_ids": document} for document in DOCUMENTS]))


def test_masked_language_modelling_hashes_what_the_model_reads(hasher, tokenizer):
    torch.manual_seed(0)
    base = transformers.DataCollatorForLanguageModeling(tokenizer, mlm=True, mlm_probability=0.5)
    batch = EngramCollator(hasher, base)([{"input_ids": document} for document in DOCUMENTS])
    want = hasher.hash_batch(
        batch["input_ids"].numpy(), mask=batch["attention_mask"].numpy().astype(bool), layer_axis=1
    )
    assert np.array_equal(batch["engram_rows"], want)
    assert (batch["labels"] == -100).any()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"position_ids_start": 2},
        {"return_flash_attn_kwargs": True},
        {"return_seq_idx": True, "return_position_ids": False},
        {"return_flash_attn_kwargs": True, "return_position_ids": False},
    ],
)
@pytest.mark.parametrize("return_tensors", ["pt", "np"])
def test_flattening(hasher, options, return_tensors):
    base = transformers.DataCollatorWithFlattening(return_tensors=return_tensors, **options)
    batch = EngramCollator(hasher, base)([{"input_ids": document} for document in DOCUMENTS])
    want = np.concatenate([hasher.hash_batch(np.array([d]), layer_axis=1)[0] for d in DOCUMENTS], axis=1)
    assert np.array_equal(batch["engram_rows"][0], want)


def test_trl_packing_and_padding(hasher):
    sft = pytest.importorskip("trl.trainer.sft_trainer", reason="trl is missing")
    examples = [{"input_ids": document} for document in DOCUMENTS]
    check_documents(hasher, EngramCollator(hasher, sft.DataCollatorForLanguageModeling(pad_token_id=0))(examples))
    want = np.concatenate([hasher.hash_batch(np.array([d]), layer_axis=1)[0] for d in DOCUMENTS], axis=1)
    free = sft.DataCollatorForLanguageModeling(pad_token_id=0, padding_free=True)
    assert np.array_equal(EngramCollator(hasher, free)(examples)["engram_rows"][0], want)
    flat = [token for document in DOCUMENTS for token in document]
    bins = [{"input_ids": flat, "seq_lengths": [4, 1, 3]}, {"input_ids": flat[:5], "seq_lengths": [4, 1]}]
    rows = EngramCollator(hasher, free)(bins)["engram_rows"][0]
    assert np.array_equal(rows, np.concatenate([want, want[:, :5]], axis=1))
