"""The forms of a text that deduplication compares."""

import pytest

from tasks.dedup.normalise import exact_form, fuzzy_form


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("\ufeffhello  world\r\n", "hello world"),
        ("第一条，\r\n  为了加强管理", "第一条，为了加强管理"),
        ("ＡＢＣ　１２３", "ABC 123"),
        ("cafe\u0301", "café"),
        ("soft\u00adhyphen", "softhyphen"),
    ],
)
def test_layout_and_unicode_form_leave_the_exact_form_alone(left, right):
    assert exact_form(left) == exact_form(right)


def test_words_and_case_are_part_of_the_exact_form():
    assert exact_form("hello world") != exact_form("helloworld")
    assert exact_form("Hello") != exact_form("hello")


def test_fuzzy_form_folds_script_and_case():
    assert fuzzy_form("Linux 與資料庫") == fuzzy_form("linux 与资料库")


def test_lone_surrogates_are_no_error():
    assert fuzzy_form("a \ud800 國") == "a ?国"
