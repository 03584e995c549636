"""Language: scripts, Simplified and Traditional, code, doubt."""

import gzip
import json

import pytest

from tasks.clean.language.identify import canonical, identify, wanted
from tasks.clean.language.scripts import one_script_characters
from tasks.clean.language.stage import LanguageConfig, label, looks_like_code
from tasks.document import Document, Dropped, Kept, Origin


def document(text: str, media_type: str = "text/plain") -> Document:
    return Document(
        id="0" * 32, text=text, source="test", media_type=media_type, origin=Origin(file="a", record=0, offset=0)
    )


@pytest.mark.parametrize(
    ("text", "language", "script"),
    [
        ("The quick brown fox jumps over the lazy dog.", "en", "Latn"),
        ("数据清洗决定了模型的上限，这不是一句空话。", "zh-Hans", "Hans"),
        ("資料清洗決定了模型的上限，這不是一句空話。", "zh-Hant", "Hant"),
        ("後悔", "zh-Hant", "Hant"),  # langdetect says Japanese (field report 000)
        ("皇后在里面", "zh-Hans", "Hans"),  # every character also exists in Traditional text: no evidence, the default
        ("天皇陛下は国会を開会されました。", "ja", "Jpan"),
        ("한국어와 漢字를 섞어 쓴 문장입니다.", "ko", "Kore"),
        ("Это предложение написано по-русски.", "ru", "Cyrl"),
        ("ภาษาไทยไม่มีการเว้นวรรคระหว่างคำ", "th", "Thai"),
        ("მოგესალმებით ჩვენს საიტზე", "ka", "Geor"),
    ],
)
def test_language_and_script(text, language, script):
    found = identify(text)
    assert (found.language, found.script) == (language, script)


def test_script_sets_hold_characters_of_one_script_only():
    simplified, traditional = one_script_characters()
    assert {"这", "们", "国", "东"} <= simplified and {"這", "們", "國", "東", "後", "於"} <= traditional
    assert not simplified & traditional
    assert not (simplified | traditional) & set("后里面干云的是一乾")


def test_mostly_traditional_with_a_simplified_quotation_is_traditional():
    text = "這個國家的經濟與貿易發展迅速，學者認為還會繼續。" * 4 + "原文：这个国家。"
    assert identify(text).language == "zh-Hant"
    assert identify(text, LanguageConfig(traditional_share=0.99)).language == "zh-Hans"


def test_text_without_letters_is_undetermined_and_kept():
    outcome = label(document("12345 --- 67890"), LanguageConfig())
    assert isinstance(outcome, Kept)
    assert (outcome.document.language, outcome.document.script) == ("und", None)


def test_source_is_code_by_type_and_by_shape():
    code = "import os\n\ndef f(x):\n    y = x + 1\n    return os.path.join(str(y))\n"
    assert label(document("x", "text/x-source"), LanguageConfig()).document.language == "code"
    assert looks_like_code(code, LanguageConfig())
    assert not looks_like_code("Import duties rose.\nThe class was full.\nReturn the book.\n", LanguageConfig())


def test_metrics_come_with_the_language():
    outcome = label(document("The quick brown fox jumps over the lazy dog. " * 3), LanguageConfig())
    assert 0.3 < outcome.document.metrics["language_confidence"] <= 1.0
    assert outcome.document.metrics["num_words"] == 27


def test_only_the_wanted_languages_stay_where_the_config_says_so():
    config = LanguageConfig(languages=("zh",))
    assert isinstance(label(document("数据清洗决定了模型的上限。"), config), Kept)
    outcome = label(document("The quick brown fox jumps over the lazy dog."), config)
    assert isinstance(outcome, Dropped) and outcome.reason == "unwanted_language"
    assert wanted("zh-Hant", ("zh-Hant",)) and not wanted("zh-Hans", ("zh-Hant",))


def test_simplified_and_traditional_sentences_are_told_apart(shared_data):
    """All 1,330 sentences of UD GSD, in both scripts; measured 100 %."""
    with gzip.open(shared_data / "langid" / "ud_gsd_hans_hant.jsonl.gz") as lines:
        rows = [json.loads(line) for line in lines]
    right = sum(identify(row["text"]).language == row["label"] for row in rows)
    assert right / len(rows) >= 0.99


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("zh-tw", "zh-Hant"),
        ("zh_HK", "zh-Hant"),
        ("zh-CN", "zh-Hans"),
        ("iw", "he"),
        ("ja", "ja"),
        ("zh-Hant", "zh-Hant"),
    ],
)
def test_aliases_of_a_language_reach_one_name(alias, name):
    assert canonical(alias) == name


def test_norwegian_has_the_name_that_its_alias_reaches():
    assert identify("Regjeringen la i dag frem sitt forslag til statsbudsjett for neste år.").language == canonical(
        "no"
    )


def test_an_alias_in_the_config_keeps_what_it_names():
    assert wanted("zh-Hant", ("zh-TW",)) and not wanted("zh-Hans", ("zh-TW",))
