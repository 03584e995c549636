"""Evidence of characters: Cantonese, kanji alone, hanja; and danlu against lid.176 alone on the shared sets."""

import gzip
import json

import pytest

from tasks.clean.language.identify import identify, ranked
from tasks.clean.language.scripts import code_points, han_counts, japanese_characters


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("佢哋喺度食緊嘢，唔好嘈佢哋。", "yue"),
        ("他們在這裡吃東西，不要吵他們。", "zh-Hant"),
        ("東京大学総合図書館", "ja"),  # kanji alone: 総 and 図 are of Japan alone
        ("桜井駅前広場整備計画検討委員会", "ja"),
        ("另一方面，畑中等人也試圖做近衛師團的工作。", "zh-Hant"),  # a Japanese name in a Chinese sentence
        ("另一方面，畑中等人也试图做近卫师团的工作。", "zh-Hans"),
        ("朱顔不須老，留取待郎歸。", "zh-Hant"),  # a poet's variant that Japan made its standard
        ("大韓民國은 民主共和國이다. 主權은 國民에게 있다.", "ko"),
        ("韩国总统（한국 대통령）发表了讲话，强调两国关系的重要性。", "zh-Hans"),
    ],
)
def test_characters_tell_the_east_asian_languages_apart(text, language):
    assert identify(text).language == language


def test_an_address_in_an_unspaced_text_takes_no_text_with_it():
    assert identify("请访问https://example.com/a，以获得更多关于这个项目的说明。").language == "zh-Hans"


@pytest.mark.parametrize("text", ["The quick brown fox \ud800 jumps", "https://a.example/\ud800", "\ud800\x00"])
def test_lone_surrogates_are_no_error(text):
    assert 0 <= identify(text).confidence <= 1


def test_han_counts_name_each_evidence():
    counts = han_counts(code_points("这這図嘅一"))
    assert (counts.han, counts.simplified, counts.traditional, counts.japanese, counts.cantonese) == (5, 1, 1, 1, 1)


def test_japanese_characters_are_common_and_not_chinese():
    japanese, foreign = japanese_characters()
    assert {"込", "図", "気", "駅"} <= japanese and {"们", "这", "圖"} <= foreign and not japanese & foreign


def rows(folder, name: str) -> list[dict]:
    with gzip.open(folder / "langid" / f"{name}.jsonl.gz") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    ("name", "gain"),
    [("ntrex_lines", 0.02), ("ntrex_docs", 0.1), ("ud_gsd_hans_hant", 0.02), ("lingua_sentences", 0.1), ("udhr", 0.05)],
)
def test_the_base_language_is_right_more_often_than_by_lid_176_alone(shared_data, name, gain):
    from benchmarks.languages import base

    data = rows(shared_data, name)
    ours = sum(base(identify(row["text"]).language) == base(row["label"]) for row in data)
    alone = sum(base(ranked(row["text"], k=1)[0][0]) == base(row["label"]) for row in data)
    assert ours >= alone + gain * len(data)


def test_documents_and_sentences_are_simplified_or_traditional(shared_data):
    """Measured: all documents, all sentences with a character that only one script has."""
    for name, least in (("ntrex_docs", 0.99), ("ntrex_lines", 0.97), ("ud_gsd_hans_hant", 0.97)):
        data = [row for row in rows(shared_data, name) if row["label"] in ("zh-Hans", "zh-Hant")]
        telling = [row for row in data if sum(han_counts(code_points(row["text"]))[1:3])]
        assert sum(identify(row["text"]).language == row["label"] for row in telling) >= least * len(telling) > 0
