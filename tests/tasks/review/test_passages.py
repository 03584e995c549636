"""What is marked in two texts, and around a span."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from tasks.review.passages import Passage, differences, shorten, with_span

TEXTS = st.text(alphabet="ab 中文\n.", max_size=60)


@given(TEXTS, TEXTS)
def test_marked_and_unmarked_pieces_make_up_the_text_and_the_unmarked_agree(left: str, right: str) -> None:
    ours, theirs = differences(left, right, max_chars=1000)
    assert "".join(p.text for p in ours) == left and "".join(p.text for p in theirs) == right
    assert "".join(p.text for p in ours if not p.marked) == "".join(p.text for p in theirs if not p.marked)


def test_a_changed_word_is_marked_whole() -> None:
    ours, theirs = differences("the sky is bright today", "the sky is brighter today", 100)
    assert [p.text for p in ours if p.marked] == ["bright "] and [p.text for p in theirs if p.marked] == ["brighter "]


def test_a_changed_chinese_character_is_marked_alone() -> None:
    ours, _ = differences("今天天气很好，我们去公园。", "今天天气很坏，我们去公园。", 100)
    assert [p.text for p in ours if p.marked] == ["好"]


def test_long_agreement_is_cut_so_that_the_difference_is_seen() -> None:
    common = "word " * 2000
    ours, _ = differences(f"{common}left {common}", f"{common}right {common}", 400)
    shown = "".join(p.text for p in ours)
    assert "left" in shown and len(shown) < 400


def test_texts_with_nothing_in_common_but_frequent_characters_are_compared_in_no_time() -> None:
    started = time.monotonic()
    differences("的一是" * 660, "一的不" * 660, 1000)
    differences("的一是" * 60_000, "一的不" * 60_000, 1000)
    assert time.monotonic() - started < 5  # 47 s without difflib's autojunk


def test_a_span_is_found_over_punctuation_case_and_spaces() -> None:
    pieces = with_span("He said: The  tailor had\nmeasured, it twice.", "the tailor had measured it", 100)
    assert [p.text for p in pieces if p.marked] == ["The  tailor had\nmeasured, it"]
    chinese = with_span("前文。蝙蝠在黑夜里，飞行。", "蝙蝠在黑夜里飞行", 100)
    assert [p.text for p in chinese if p.marked] == ["蝙蝠在黑夜里，飞行"]


def test_what_is_cut_off_is_counted() -> None:
    assert shorten([Passage("abcdef", False)], 4) == [Passage("abcd", False), Passage(" … (2 more characters)", False)]
