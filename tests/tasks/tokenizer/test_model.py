"""decode(encode(x)) == x, for every x."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.tokenizer.config import BUILT_IN_SYMBOLS
from tasks.tokenizer.model import CHUNK_CHARS, chunks_of

HARD = [
    "",
    "▁",
    " ▁ ▁▁",
    "  leading,  inner and trailing  ",
    "\n\n\t\r\n \n",
    "a\0b",
    "<0x41><0xFF><0x0a>",
    "<s>a</s><pad><unk>",
    "<CODE>x<CODE>y[MED]",
    "😀👩‍👩‍👧🏳️‍🌈",
    "\u0085\u2028\ufeff\u2585",
    "\U0010ffff\ue000\ufffe",
    "e\u0301 ﬁ Ａ①",  # forms that NFKC would change
    "x" * 9000,
    "一" * 5000 + "\n" + " " * 5000,
]
ALPHABET = st.sampled_from([*"▁ \n\t<>0x41As/", "<0x41>", "<s>", "</s>", "<CODE>", "[MED]", "的", "def "])
STRINGS = st.one_of(st.text(), st.lists(ALPHABET).map("".join))


@pytest.mark.parametrize("text", HARD, ids=range(len(HARD)))
def test_hard_strings_come_back(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_every_string_comes_back(tokenizer):
    @settings(max_examples=300, deadline=None, database=None)
    @given(STRINGS)
    def comes_back(text):
        assert tokenizer.decode(tokenizer.encode(text)) == text

    comes_back()


def test_real_texts_come_back_and_a_batch_equals_one_by_one(tokenizer, texts):
    batch = tokenizer.encode_batch(texts)
    assert [tokenizer.decode(ids) for ids in batch] == texts
    assert all((tokenizer.encode(text) == ids).all() for text, ids in zip(texts[:20], batch, strict=False))


def test_symbols_are_one_token_and_control_pieces_in_a_text_are_text(tokenizer):
    for symbol in (*BUILT_IN_SYMBOLS, "<CODE>", "[MED]"):
        assert len(tokenizer.encode(symbol)) == 1
        assert symbol in [tokenizer.decode([i]) for i in tokenizer.encode(f"x{symbol}y")]
    assert not {0, 1, 2, 3} & set(tokenizer.encode("<unk><s></s><pad>").tolist())


def test_chunks_are_short_end_at_lines_and_join_to_the_text():
    text = ("line\n" * 3000) + "y" * 10_000 + "<0x41>"
    chunks = chunks_of(text)
    assert "".join(chunks) == text
    assert max(map(len, chunks)) <= CHUNK_CHARS
    assert chunks[0].endswith("\n")
    assert chunks[-2:] == ["y" * (10_000 - 2 * CHUNK_CHARS) + "<", "0x41>"]


def test_a_lone_surrogate_is_an_error_with_advice(tokenizer):
    with pytest.raises(ValueError, match=r"text 1 of 2: .* lone surrogate at character 1"):
        tokenizer.encode_batch(["b", "a\ud800"])
