"""The compiled counts equal the plain ones on real and on arbitrary texts."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.text_metrics import numba as compiled
from kernels.text_metrics import reference
from kernels.text_metrics.characters import CJK, GARBAGE, LETTER, WHITE, classes

TEXTS = [
    "",
    "\n\n \u3000\n",
    "The cat sat. The cat sat (down). \"Yes!\" it said; 3.14 is no end... To be, and to have.",
    "a b c d e f g a b c d e f g a b",
    "  - one\n* two\n+three\n•four\n\n\n- one\n\n- one\nlast line…\n。。。",
    "第一条　为了规范公司，制定本法。\n第二条 本法所称公司，是指 React 18！？"
    "\n\n第二条 本法所称公司，是指 React 18！？",
    "他说：“走吧。”她没有动。" * 9,
    "点击购买" * 30 + "\n" + "buy now " * 30,
    "日本語の文章です。カタカナも入ります。" * 3 + "한국어 문장은 띄어쓰기를 한다.",
    "def f(x):\n    return {x: 1}\n" * 7,
    "\ud800 lone \ufffd private \ue000 \U0010ffff tag \U000e0041",
    "x\x0by\x1cz\x85w\u2028v",
]  # fmt: skip


def assert_equal(text: str) -> None:
    for unspaced in (False, True):
        expected, found = reference.count(text, unspaced), compiled.count(text, unspaced)
        different = {
            name: (int(a), int(b))
            for name, a, b in zip(reference.FIELDS, expected, found, strict=True)
            if a != b
        }  # fmt: skip
        assert not different, (text, unspaced, different)
    np.testing.assert_array_equal(reference.count_characters(text), compiled.count_characters(text))


@pytest.mark.parametrize("text", TEXTS)
def test_compiled_counts_equal_the_reference(text):
    assert_equal(text)


@given(st.text(alphabet="ab \n\n.!?…。！”)』-*•{中文は\u3000\ud800The", max_size=120))
@settings(max_examples=400, deadline=None)
def test_compiled_counts_equal_the_reference_on_any_layout(text):
    assert_equal(text)


@given(st.text(max_size=200))
@settings(max_examples=100, deadline=None)
def test_compiled_counts_equal_the_reference_on_any_characters(text):
    assert_equal(text)


def test_counts_by_hand():
    found = dict(zip(reference.FIELDS, compiled.count("a b c d e f g a b c d e", unspaced=False), strict=True))
    assert found["words"] == 12
    assert found["top_2"] == 4  # "a b" twice, of one character a word
    assert found["duplicate_5"] == 5
    assert found["duplicate_6"] == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It rained all day long. We stayed at home (both). It was 3.5 degrees.", 3),
        ("It rained all day long. We stayed at home and read", 0),  # the line has no end
        ("Go. Stop. Go. Stop.", 0),  # four words: C4 throws such a line away
        ("雨下了一整天。我们都待在家里看书！“真的吗？”她问道。", 4),
        ("下雨。", 0),
    ],
)
def test_sentences_are_those_of_lines_that_c4_would_keep(text, expected):
    assert dict(zip(reference.FIELDS, compiled.count(text, unspaced=False), strict=True))["sentences"] == expected


def test_table_of_characters_is_that_of_unicodedata():
    table = classes()
    for code in range(0, 0x110000, 7):
        char = chr(code)
        assert bool(table[code] & LETTER) == (unicodedata.category(char)[0] in "LM"), hex(code)
        assert bool(table[code] & WHITE) == char.isspace(), hex(code)
    assert table[0xFFFD] & GARBAGE and table[0x10FFFF] & GARBAGE
    assert table[ord("・")] & CJK == 0 and table[ord("々")] & CJK
