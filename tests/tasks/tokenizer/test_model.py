"""decode(encode(x)) == x, for every x."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.tokenizer.model import CHUNK_CHARS, chunks_of
from tasks.tokenizer.train import BUILT_IN_SYMBOLS, TokenizerConfig, train

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


def test_the_same_texts_and_config_give_the_same_bytes(texts):
    config = TokenizerConfig(vocab_size=1200, character_coverage=0.98)
    some = [text[:500] for text in texts[:60]]
    assert train(some, config) == train(some, config)


def test_a_vocabulary_that_does_not_fit_says_what_to_set():
    few = ["the cat sat on the mat"] * 20
    with pytest.raises(ValueError, match=r"vocab_size: 5,000 pieces do not exist .* at most \d+"):
        train(few, TokenizerConfig(vocab_size=5000))
    with pytest.raises(ValueError, match=r"vocab_size: 300 is less than the [\d,]+ pieces"):
        train(["".join(map(chr, range(0x4E00, 0x4F00)))] * 3, TokenizerConfig(vocab_size=300))
    with pytest.raises(ValueError, match="Is there any text"):
        train([], TokenizerConfig())


def test_a_soft_limit_takes_what_there_is():
    from tasks.tokenizer.model import Tokenizer

    model = train(["the cat sat on the mat"] * 20, TokenizerConfig(vocab_size=5000, hard_vocab_limit=False))
    assert Tokenizer(model).vocab_size < 5000


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocab_size": 100}, "vocab_size: expected above 264"),
        ({"user_defined_symbols": ("<s>",)}, "user_defined_symbols: '<s>'"),
        ({"language_shares": {}}, "language_shares"),
        ({"model_type": "bpe", "hard_vocab_limit": False}, "needs model_type unigram"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        TokenizerConfig(**settings)
