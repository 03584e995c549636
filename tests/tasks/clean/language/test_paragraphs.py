"""Languages of paragraphs, and their shares in mixed documents."""

import gzip
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.clean.language.identify import IdentifyConfig, identify
from tasks.clean.language.paragraphs import language_shares, paragraph_languages
from tasks.clean.language.stage import LanguageConfig, label
from tasks.document import Document, Origin

CHINESE = "数据清洗决定了模型的上限，这不是一句空话。先看数据，再谈训练，最后评估结果。"
ENGLISH = "The quick brown fox jumps over the lazy dog, and the dog does not mind it at all."
GERMAN = "Die Verfassung der Republik wurde im Jahr 1920 beschlossen und seitdem mehrfach geändert. " * 3
CODE = "def f(x):\n    y = x + 1\n    return g(y)\n"


def languages_of(text: str) -> list[str]:
    return [span.language for span in paragraph_languages(text)]


@pytest.mark.parametrize(
    ("paragraphs", "expected"),
    [
        ((CHINESE, ENGLISH), ["zh-Hans", "en"]),
        ((CHINESE, f"```\n{CODE}```", CHINESE), ["zh-Hans", "code", "zh-Hans"]),
        ((CHINESE, CODE, CHINESE), ["zh-Hans", "code", "zh-Hans"]),  # no fence
        ((ENGLISH * 3, GERMAN, ENGLISH * 3), ["en", "de", "en"]),
        ((ENGLISH, "天皇陛下は国会を開会されました。"), ["en", "ja"]),
        ((CHINESE, "資料清洗決定了模型的上限，這不是一句空話。" * 3), ["zh-Hans", "zh-Hant"]),
    ],
)
def test_each_paragraph_has_its_language(paragraphs, expected):
    assert languages_of("\n\n".join(paragraphs)) == expected


def test_a_short_paragraph_follows_its_neighbour_unless_its_script_says_otherwise():
    assert languages_of(f"{CHINESE}\n\nAPI\n\n{CHINESE}") == ["zh-Hans"]
    assert languages_of(f"{ENGLISH}\n\n简介\n\n{ENGLISH}") == ["en", "zh-Hans", "en"]


def test_lines_are_the_paragraphs_of_a_text_without_empty_lines():
    assert languages_of(f"{CHINESE}\n{ENGLISH}\n{CHINESE}") == ["zh-Hans", "en", "zh-Hans"]


@given(
    st.lists(
        st.sampled_from([CHINESE, ENGLISH, CODE, "```", "", "API", "\n", "\ud800", "한국어 문장입니다."]), max_size=8
    )
)
def test_spans_cover_the_text_and_neighbours_differ(parts):
    text = "\n".join(parts)
    spans = paragraph_languages(text)
    edges = [0, *(span.end for span in spans)]
    assert [span.start for span in spans] == edges[:-1] and edges[-1] == len(text)
    assert all(a.language != b.language for a, b in itertools.pairwise(spans))


def document(text: str) -> Document:
    return Document(id="0" * 32, text=text, source="test", origin=Origin(file="a", record=0, offset=0))


def test_a_mixed_document_carries_shares_and_another_does_not():
    found = label(document(f"{CHINESE * 3}\n\n{ENGLISH * 2}"), LanguageConfig()).document
    assert found.language == "zh-Hans" and set(found.languages) == {"zh-Hans", "en"}
    assert sum(found.languages.values()) == pytest.approx(1, abs=0.001)
    assert label(document(f"{CHINESE}\n\n{CHINESE}"), LanguageConfig()).document.languages == {}


def test_a_second_language_below_the_least_share_leaves_no_mixture():
    text = f"{CHINESE}\n\n" * 20 + ENGLISH
    assert label(document(text), LanguageConfig()).document.languages == {}
    assert set(label(document(text), LanguageConfig(min_second_share=0.05)).document.languages) == {"zh-Hans", "en"}


def test_long_documents_are_judged_by_some_of_their_paragraphs():
    text = f"{CHINESE}\n\n{ENGLISH}\n\n{ENGLISH}\n\n" * 100
    found = language_shares(text, identify(text), IdentifyConfig(), 0.1)
    exact = 2 * len(ENGLISH) / (2 * len(ENGLISH) + len(CHINESE))
    assert found["en"] == pytest.approx(exact, abs=0.1)


def test_mixed_documents_are_known_and_news_are_not_mixed(shared_data):
    """Measured: 50 of 55 mixed ones have a second language, 4 of 1,063 news documents (rare languages) too."""
    folder, config = shared_data / "langid", IdentifyConfig()

    def mixed(text: str) -> bool:
        return bool(language_shares(text, identify(text), config, 0.1))

    with gzip.open(folder / "code_and_mixed.jsonl.gz") as lines:
        rows = [row["text"] for row in map(json.loads, lines) if row["label"] == "mixed"]
    with gzip.open(folder / "ntrex_docs.jsonl.gz") as lines:
        news = [json.loads(line)["text"] for line in lines]
    assert sum(map(mixed, rows)) >= 0.85 * len(rows)
    assert sum(map(mixed, news)) <= 0.01 * len(news)
