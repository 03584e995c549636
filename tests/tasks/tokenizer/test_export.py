"""`transformers.AutoTokenizer` gives the ids that danlu gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.tokenizer.export import huggingface_files, mismatches

ODD = [
    "",
    "▁ a",
    "  x\n\n\ty ",
    "<0x41><s></s>",
    "<CODE>def f():\n    pass",
    "😀👩‍👩‍👧",
    "漢字かな",
    "a\0b",
    "z" * 9000,
    "\n" * 9000,
]
PIECES = st.sampled_from(
    [*"▁ \n\t<>0x41As/的", "<0x41>", "<s>", "</s>", "<unk>", "<CODE>", "[MED]", "😀", "the ", "ing"]
)


@pytest.fixture(scope="session")
def exported(tokenizer, tmp_path_factory):
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("hf")
    for name, data in huggingface_files(tokenizer.model).items():
        (folder / name).write_bytes(data)
    return AutoTokenizer.from_pretrained(folder)


def test_ids_are_equal_on_a_thousand_documents(tokenizer, exported, texts):
    paragraphs = [part for text in texts for part in text.split("\n\n")]
    documents = [*ODD, *texts, *paragraphs][:1000]
    assert len(documents) == 1000
    ours = [ids.tolist() for ids in tokenizer.encode_batch(documents)]
    assert exported(documents)["input_ids"] == ours
    assert exported(documents, add_special_tokens=False)["input_ids"] == ours
    assert [exported.decode(ids) for ids in ours[: len(ODD)]] == ODD


def test_ids_are_equal_on_every_string(tokenizer, exported):
    @settings(max_examples=300, deadline=None, database=None)
    @given(st.one_of(st.text(), st.lists(PIECES).map("".join)))
    def equal(text):
        assert exported(text)["input_ids"] == tokenizer.encode(text).tolist()

    equal()


def test_special_tokens_have_the_ids_of_the_model(tokenizer, exported):
    assert (exported.unk_token_id, exported.bos_token_id, exported.eos_token_id, exported.pad_token_id) == (0, 1, 2, 3)
    assert len(exported) == tokenizer.vocab_size
    assert exported.decode([*tokenizer.encode("a b").tolist(), 2], skip_special_tokens=True) == "a b"


def test_a_differing_export_is_noticed(tokenizer):
    files = huggingface_files(tokenizer.model)
    damaged = files | {"tokenizer.json": files["tokenizer.json"].replace(b"MergedWithPrevious", b"Removed")}
    assert mismatches(tokenizer, files, ODD) == []
    assert mismatches(tokenizer, damaged, ["plain", "<0x41>"]) == [1]
