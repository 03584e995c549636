"""The figures of the vocabulary experiment, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tasks.tokenizer.measures import byte_pieces, measure, powers_up_to, renyi_efficiency
from tasks.tokenizer.published import Published, shipped


def test_renyi_efficiency_is_one_when_all_pieces_are_used_alike_and_falls_with_skew():
    assert renyi_efficiency(np.full(64, 3)) == pytest.approx(1)
    assert renyi_efficiency(np.array([5, 0, 0, 0])) == 0
    skewed = np.array([6, 1, 1])  # Zouhar et al.: log(sum p^a) / (1 - a) / log |V|, a = 2.5
    expected = math.log(0.75**2.5 + 2 * 0.125**2.5) / -1.5 / math.log(3)
    assert renyi_efficiency(skewed) == pytest.approx(expected)


def test_a_character_without_a_piece_counts_once_and_its_bytes_each(tokenizer):
    unknown, begins = byte_pieces(tokenizer)
    figures = measure(tokenizer, {"zh": ["的\U0002a6d6"], "en": ["a b"]}, unknown, begins)
    zh, en = figures["groups"]["zh"], figures["groups"]["en"]
    assert zh["num_tokens"] == 5 and zh["byte_fallback_rate"] == pytest.approx(4 / 5)
    assert zh["oov_char_rate"] == pytest.approx(1 / 2)
    assert zh["tokens_per_word"] is None and zh["bytes_per_token"] == pytest.approx(7 / 5)
    assert en["tokens_per_word"] == en["num_tokens"] / 2 and en["byte_fallback_rate"] == 0


def test_the_coverage_curve_ends_at_all_tokens(tokenizer, texts):
    unknown, begins = byte_pieces(tokenizer)
    figures = measure(tokenizer, {"en": texts[:20]}, unknown, begins)
    shares = [share for _, share in figures["coverage"]]
    assert shares == sorted(shares) and shares[-1] == pytest.approx(1)
    assert figures["coverage"][-1][0] == tokenizer.vocab_size
    assert powers_up_to(10) == [1, 2, 4, 8, 10]


def test_published_tokenizers_of_installed_packages_are_measured():
    found = shipped()
    if not found:
        pytest.skip("no installed package ships a tokenizer")
    for path in found.values():
        theirs = Published(path)
        figures = measure(theirs, {"en": ["the cat sat on the mat"]}, theirs.unknown, theirs.unknown)
        assert 3 < figures["groups"]["en"]["bytes_per_token"] < 6
        assert figures["groups"]["en"]["byte_fallback_rate"] == 0
        snowman = measure(theirs, {"en": ["\U0002a6d6"]}, theirs.unknown, theirs.unknown)
        assert snowman["byte_fallback_rate"] > 0


def test_a_file_of_another_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.model, \.json or \.tiktoken"):
        Published(tmp_path / "vocab.txt")
