"""The three stages of a fit: what may be a piece, how many each group gets, what is one token."""

from __future__ import annotations

import pytest

from tasks.tokenizer.characters import characters_of
from tasks.tokenizer.compounds import find_compounds
from tasks.tokenizer.config import MATH_SYMBOLS, WHITESPACE_RUNS, TokenizerConfig
from tasks.tokenizer.model import Tokenizer, is_unigram, proto_of
from tasks.tokenizer.prepare import HAN_RUN
from tasks.tokenizer.train import Fitted, fit
from tasks.tokenizer.vocabulary import Row


def fit_rows(rows: list[Row], **settings) -> Fitted:
    return fit(rows, characters_of(rows), TokenizerConfig(**settings))


def pieces_of(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.processor.id_to_piece(i) for i in range(tokenizer.vocab_size)]


def test_no_piece_joins_chinese_characters_to_anything_else_or_is_too_long(tokenizer):
    with_han = [piece for piece in pieces_of(tokenizer) if HAN_RUN.search(piece)]
    assert len(with_han) > 500
    assert [piece for piece in with_han if not HAN_RUN.fullmatch(piece) or len(piece) > 4] == []
    assert max(map(len, with_han)) == 4


def test_characters_can_be_tokens_of_their_own(rows):
    fitted = fit_rows(rows, vocab_size=5000, max_han_chars=1, hard_vocab_limit=False)
    ids = fitted.tokenizer.encode("我喜欢学习")
    assert [fitted.tokenizer.decode([i]) for i in ids] == ["我", "喜", "欢", "学", "习"]


def test_mathematical_symbols_and_forced_merges_are_single_tokens_wherever_they_occur(tokenizer):
    for symbol in MATH_SYMBOLS:
        assert symbol in [tokenizer.decode([i]) for i in tokenizer.encode(f"x{symbol}y之{symbol}")]
    ids = tokenizer.encode("Transformers, a Transformer in PyTorch")
    found = [tokenizer.decode([i]).strip() for i in ids]
    assert found.count("Transformer") == 2 and found.count("PyTorch") == 1


def test_digits_are_tokens_of_their_own(tokenizer):
    assert len(tokenizer.encode("20240312")) == 8


def test_runs_of_blanks_are_pieces_of_a_unigram_model(fitted: Fitted):
    if not is_unigram(proto_of(fitted.tokenizer.model)):
        pytest.skip("a BPE model has the runs that it has learned")
    assert [run for run in WHITESPACE_RUNS if run not in pieces_of(fitted.tokenizer)] == []
    assert len(fitted.tokenizer.encode("\t\t\t" + " " * 12)) == 2


def test_a_frequent_word_that_the_model_splits_becomes_a_piece():
    pairs = [(a, b) for a in ("Over", "Under", "Inter", "Super") for b in ("flow", "stand", "act", "pose")]
    text = " ".join(a + " " + b.capitalize() for a, b in pairs * 20) + " " + "OverStand " * 60
    rows: list[Row] = [("en", text, 1)]
    settings = {"vocab_size": 390, "hard_vocab_limit": False, "max_piece_chars": 6, "compound_min_count": 30}
    without = fit_rows(rows, **settings, max_compounds=0)
    fitted = fit_rows(rows, **settings)
    assert len(without.tokenizer.encode("OverStand")) > 1
    assert "OverStand" in [word.strip() for word in fitted.compounds]
    assert len(fitted.tokenizer.encode(" OverStand")) == 1
    assert find_compounds(fitted.tokenizer, rows, TokenizerConfig(compound_min_count=1000)) == {}


def test_pieces_keep_to_the_shares_where_the_sample_has_enough(fitted: Fitted):
    total = sum(row["num_pieces"] for row in fitted.shares.values())
    assert fitted.tokenizer.vocab_size > total > 5000
    assert sum(row["share"] for row in fitted.shares.values()) == pytest.approx(1)
    assert {group: row["target"] for group, row in fitted.shares.items()} == pytest.approx(
        {"zh": 0.45, "en": 0.35, "code": 0.12, "other": 0.08}
    )


def test_required_characters_are_not_spelled_in_bytes(rows, tokenizer):
    zh = characters_of([row for row in rows if row[0] == "zh"])["zh"]
    frequent = [char for char, count in zh.items() if count >= 20 and char.isalpha()]
    assert len(frequent) > 100
    assert [char for char in frequent if len(tokenizer.encode(char)) != 1] == []


def test_the_same_rows_and_config_give_the_same_bytes(rows):
    some = [(group, text[:500], times) for group, text, times in rows[::5]]
    settings = {"vocab_size": 1200, "hard_vocab_limit": False}
    assert fit_rows(some, **settings).tokenizer.model == fit_rows(some, **settings).tokenizer.model


def test_a_vocabulary_that_does_not_fit_says_what_to_set():
    few: list[Row] = [("en", "the cat sat on the mat", 20)]
    with pytest.raises(ValueError, match=r"vocab_size: 5,000 pieces do not exist .* at most \d+"):
        fit_rows(few, vocab_size=5000)
    with pytest.raises(ValueError, match="Is there any text"):
        fit([], {}, TokenizerConfig())


def test_a_soft_limit_takes_what_there_is():
    few: list[Row] = [("en", "the cat sat on the mat", 20)]
    assert fit_rows(few, vocab_size=5000, hard_vocab_limit=False).tokenizer.vocab_size < 5000


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocab_size": 100}, "vocab_size: expected above 3"),
        ({"user_defined_symbols": ("<s>",), "document_markers": {}}, "user_defined_symbols: '<s>'"),
        ({"language_shares": {}}, "language_shares"),
        ({"character_coverage": {"zh": 0.2}}, "character_coverage.zh: expected 0.9 to 1"),
        ({"character_coverage": {"fr": 0.99}}, "character_coverage: no group 'fr'"),
        ({"document_markers": {"code": "<PY>"}}, "document_markers.code: '<PY>' is not among"),
        ({"model_type": "bpe", "hard_vocab_limit": False}, "needs model_type unigram"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        TokenizerConfig(**settings)
