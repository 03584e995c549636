"""Filter: every reason drops one text and passes one, in English and in Chinese; metrics by hand."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.clean.filter.rules import GopherConfig
from tasks.clean.filter.stage import FilterConfig, drop_reason, judge
from tasks.clean.metrics import measure
from tasks.document import Document, Dropped, Kept, Origin

EN = (
    "The furnace takes raw text and gives back a model. It reads every page that the crawler found, decides what to "
    "keep with rules that anyone can check, and writes down why the rest was left out. Nothing of value is lost."
)
ZH = (
    "这座炉子把原始文本炼成模型。它读取爬虫找到的每一个网页，按照任何人都能查验的规则决定去留，并且记录其余内容被舍弃的原因。"
    "有价值的东西一样也不会丢失，因为每条记录都有自己的编号，可以一路追查到训练的批次。"
)
CONFIG = FilterConfig()


def reason(text: str, language: str, config: FilterConfig = CONFIG) -> str | None:
    return drop_reason(measure(text, language), language, config)


def varied(language: str, count: int) -> list[str]:
    """`count` different lines of ordinary words."""
    if language == "en":
        names = [chr(97 + n % 26) * 3 for n in range(count)]
        return [f"The {x} met {y}es with {x}ers but {y}ed {x}ing" for x, y in zip(names, names[::-1], strict=True)]
    start = 0x4E00
    return ["".join(chr(start + (n * 97 + k * 31) % 9000) for k in range(30)) for n in range(count)]


@pytest.mark.parametrize(("text", "language"), [(EN, "en"), (ZH, "zh-Hans")])
def test_ordinary_prose_passes(text, language):
    assert reason(text, language) is None


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        (EN[:79], "en", "too_short"),
        (ZH[:79], "zh-Hans", "too_short"),
        (EN + "\ufffd" * 6, "en", "garbage_characters"),
        (ZH + "\ue000" * 6, "zh-Hans", "garbage_characters"),
        (EN.replace(" ", ""), "en", "mean_word_length"),
        (" ".join(EN.replace(" ", "")), "en", "mean_word_length"),
        (EN + " hashtag#" * 12, "en", "too_many_symbols"),
        (EN + " 1234" * 12, "en", "too_few_alphabetic"),
        (ZH + "+-=/*|" * 30, "zh-Hans", "too_few_alphabetic"),
        (" ".join(f"{word}s" for word in EN.split()), "en", "too_few_stop_words"),
        ("\n".join("- " + line for line in varied("en", 20)), "en", "too_many_bullets"),
        ("\n".join("• " + line for line in varied("zh", 20)), "zh-Hans", "too_many_bullets"),
        ("\n".join(line + "..." for line in varied("en", 20)), "en", "too_many_ellipses"),
        ("\n".join(line + "……" for line in varied("zh", 20)), "zh-Hans", "too_many_ellipses"),
        ("\n".join([*varied("en", 10), *["The same short line"] * 6]), "en", "duplicate_lines"),
        ("\n".join([*varied("zh", 10), *["同样的一行字"] * 6]), "zh-Hans", "duplicate_lines"),
        ("\n\n".join([*varied("en", 5), *["Yes\nno\nso"] * 5]), "en", "duplicate_paragraphs"),
        ("\n\n".join([*varied("zh", 5), *["开头\n结尾"] * 5]), "zh-Hans", "duplicate_paragraphs"),
        (EN + " buy now" * 12, "en", "repeated_ngram"),
        (ZH + "点击购买" * 12, "zh-Hans", "repeated_ngram"),
        (EN + " " + EN, "en", "duplicate_ngrams"),
        (ZH + ZH, "zh-Hans", "duplicate_ngrams"),
    ],
)
def test_each_rule_gives_its_reason(text, language, expected):
    assert reason(text, language) == expected


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_nearly_fails_passes(language):
    lines = varied(language, 20)
    marked = [("- " if n < 18 else "") + line for n, line in enumerate(lines)]  # 90 % bullets: the limit itself
    assert reason("\n".join(marked), language) is None
    assert reason("x" + (EN if language == "en" else ZH)[:79], language) is None


def test_length_limit_is_set_by_language():
    config = FilterConfig(min_chars_by_language={"zh": 20, "zh-Hant": 200})
    assert reason(ZH[:40], "zh-Hans", config) is None
    assert reason(ZH, "zh-Hant", config) == "too_short"
    assert reason(EN[:40], "en", config) == "too_short"


def test_code_is_held_to_the_code_rules_only():
    code = "def f(x):\n    return x\n\n" * 20
    assert reason(code, "code") is None
    assert reason("x" * 1001 + "\n" + code * 9, "code") == "long_code_lines"
    assert reason("{}();\n" * 40, "code") == "too_few_alphanumeric"


def test_repetition_inside_fenced_code_is_not_held_against_prose():
    text = ZH + "\n\n```cpp\n" + "x = x + 1;\n" * 100 + "```\n"
    assert reason(text, "zh-Hans") is None


def test_drop_carries_the_figure_and_the_limit():
    document = Document(
        id="0" * 32, text=EN[:50], source="s", language="en", origin=Origin(file="a", record=0, offset=0)
    )
    document.metrics = measure(document.text, "en")
    outcome = judge(document, CONFIG)
    assert isinstance(outcome, Dropped)
    assert outcome.evidence == {"metric": "num_chars", "found": 50.0, "limit": 80}


def test_licence_source_language_and_doubt_are_policies():
    document = Document(id="0" * 32, text=EN, source="s", language="en", origin=Origin(file="a", record=0, offset=0))
    document.metrics = measure(EN, "en")
    assert isinstance(judge(document, CONFIG), Kept)
    for config, reason_given in (
        (FilterConfig(licences=("CC0-1.0",)), "licence"),
        (FilterConfig(languages_of_source={"s": ("zh",)}), "unwanted_language"),
    ):
        outcome = judge(document, config)
        assert isinstance(outcome, Dropped) and outcome.reason == reason_given
    licensed = dataclasses.replace(document, licence="CC0-1.0")
    assert isinstance(judge(licensed, FilterConfig(licences=("CC0-1.0",))), Kept)
    doubtful = dataclasses.replace(document, language="und")
    assert isinstance(judge(doubtful, CONFIG), Kept)
    assert isinstance(judge(doubtful, FilterConfig(drop_unknown_language=True)), Dropped)


def test_repetition_by_hand():
    metrics = measure("a b c d e f g a b c d e", "en")
    assert metrics["top_2gram_ratio"] == pytest.approx(4 / 12)
    assert metrics["duplicate_5gram_ratio"] == pytest.approx(5 / 12)
    assert metrics["duplicate_6gram_ratio"] == 0.0


@given(st.text(max_size=300), st.sampled_from(["en", "zh-Hans", "ja", "ko", "th", "code", "und"]))
@settings(max_examples=150, deadline=None)
def test_every_text_can_be_measured_and_judged(text, language):
    metrics = measure(text, language)
    for name, value in metrics.items():
        assert value >= 0
        if name.endswith("_ratio") and "word" not in name:
            assert value <= 1, name
    drop_reason(metrics, language, CONFIG)


@pytest.mark.parametrize(
    "settings_given",
    [{"min_words": 9, "max_words": 1}, {"min_mean_word_length": 11.0}, {"max_top_ngram_ratio": {"9": 0.1}}],
)
def test_config_that_cannot_be_meant_is_refused(settings_given):
    with pytest.raises(ValueError, match=next(iter(settings_given))):
        GopherConfig(**settings_given)
