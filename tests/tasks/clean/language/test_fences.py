"""Fenced blocks of Markdown."""

from hypothesis import given
from hypothesis import strategies as st

from tasks.clean.language.fences import fences, without_fences


def test_a_block_lasts_from_its_first_to_its_last_line():
    text = "a\n\n```python\nx = 1\n```\nb\n"
    [(start, end)] = fences(text)
    assert text[start:end] == "```python\nx = 1\n```\n" and without_fences(text) == "a\n\nb\n"


def test_a_longer_fence_holds_a_shorter_one():
    text = "````\n```\nx\n```\n````\nb"
    assert without_fences(text) == "b"


def test_a_fence_that_never_closes_is_none_unless_the_text_is_cut():
    assert fences("a\n```\nb") == []
    assert fences("a\n```\nb", to_end=True) == [(2, 7)]


def test_marks_within_a_line_open_nothing():
    assert fences("use ``` to open\nand ``` to close\n") == []


@given(st.lists(st.sampled_from(["```", "~~~", "````", "```py", "x", "> ```", "", "x ``` y"]), max_size=12))
def test_blocks_are_in_order_and_never_overlap(lines):
    text = "\n".join(lines)
    edges = [edge for block in fences(text, to_end=True) for edge in block]
    assert edges == sorted(edges) and all(0 <= edge <= len(text) for edge in edges)
