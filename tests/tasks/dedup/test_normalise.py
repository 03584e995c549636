"""The forms of a text that deduplication compares."""

import io
import itertools
import json

import opencc
import pyarrow as pa
import pytest
import zstandard

from tasks.dedup.normalise import exact_form, fuzzy_codes, fuzzy_form


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


def test_a_text_and_what_opencc_makes_of_it_fold_alike():
    """Phrases too: OpenCC turns 畫 to 画 by itself but to 划 in 計畫, and leaves 乾 in 乾坤 but not in 乾燥."""
    converter = opencc.OpenCC("t2s")
    for text in (
        "計畫與畫家",
        "乾坤與乾燥",
        "深沈的沈先生",
        "憑藉與慰藉",
        "答覆與覆蓋",
        "瞭望與瞭解",
        "鐵鍊與鍛鍊",
        "昇華與溫昇",
    ):
        assert fuzzy_form(converter.convert(text)) == fuzzy_form(text)


def test_real_texts_and_what_opencc_makes_of_them_fold_alike(shared_data):
    converter, number = opencc.OpenCC("t2s"), 0
    with zstandard.open(shared_data / "corpus" / "zh_hant_mixed.jsonl.zst", "rb") as file:
        for line in io.TextIOWrapper(file, encoding="utf-8", newline="\n"):
            text = exact_form(json.loads(line)["text"])
            assert fuzzy_form(converter.convert(text)) == fuzzy_form(text)
            number += 1
    assert number > 1000


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_column_has_the_forms_of_its_texts(kind):
    texts = ["", "Linux 與資料庫", "The  Cat", "x"]
    column = pa.array(["before", *texts, "after"], kind).slice(1, len(texts))
    codes, offsets = fuzzy_codes(column)
    found = [codes[start:stop].tobytes().decode("utf-32-le") for start, stop in itertools.pairwise(offsets)]
    assert found == [fuzzy_form(text) for text in texts]


def test_an_empty_column_has_no_forms_and_nulls_are_refused():
    codes, offsets = fuzzy_codes(pa.array([], pa.large_string()))
    assert len(codes) == 0 and offsets.tolist() == [0]
    with pytest.raises(ValueError, match="1 nulls"):
        fuzzy_codes(pa.array(["a", None]))
