"""Every reason of the filter, in English and in Chinese: one text passes, one nearly fails, one is dropped.

A builder makes a text that is ordinary at 0 and gets worse with each step. The test walks the steps: 0 passes, the
first text that is dropped is dropped for the reason expected, and the one a step before it still passes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tasks.clean.filter.rules import C4Config, FineWebConfig, GopherConfig
from tasks.clean.filter.stage import FilterConfig, drop_reason
from tasks.clean.metrics import measure

NOUNS = [
    "furnace",
    "river",
    "teacher",
    "garden",
    "letter",
    "engine",
    "harbour",
    "window",
    "market",
    "sailor",
    "valley",
    "orchard",
    "painter",
    "bridge",
    "lantern",
    "village",
    "kettle",
    "doctor",
    "meadow",
    "captain",
    "library",
    "station",
    "farmer",
    "island",
]
VERBS = [
    "carried",
    "painted",
    "measured",
    "followed",
    "repaired",
    "counted",
    "answered",
    "watched",
    "gathered",
    "forgot",
    "borrowed",
    "polished",
]
TIMES = [
    "before dawn",
    "after supper",
    "in early March",
    "during the storm",
    "on market days",
    "without a word",
    "at low tide",
]
HAN_NOUNS = [
    "炉火",
    "河流",
    "教师",
    "花园",
    "书信",
    "机器",
    "港口",
    "窗户",
    "集市",
    "水手",
    "山谷",
    "果园",
    "画家",
    "石桥",
    "灯笼",
    "村庄",
    "茶壶",
    "医生",
    "草地",
    "船长",
    "车站",
    "农夫",
]
HAN_VERBS = ["搬运", "描绘", "测量", "跟随", "修理", "清点", "回答", "观看", "收集", "忘记", "借走", "擦亮", "埋藏"]
HAN_TIMES = ["天亮以前", "晚饭之后", "三月初旬", "暴雨当中", "赶集那天", "一声不响", "退潮时分", "去年冬季", "月圆之夜"]


def sentence(language: str, number: int) -> str:
    """A sentence of its own for each number: the lists have lengths without a common divisor or a different stride."""
    if language == "en":
        a, b, c, d = (NOUNS[(number * n + number // 24 * m) % 24] for n, m in ((5, 1), (7, 4), (11, 9), (13, 3)))
        verb, time = VERBS[number * 5 % 12], TIMES[number % 7]
        return f"{number + 3} {a}s and the {b} {verb} {c}s that {d}s have {time}."
    a, b, c = (HAN_NOUNS[(number * stride + shift) % 22] for stride, shift in ((3, 0), (7, 5), (13, 9)))
    verb, other, time = HAN_VERBS[number % 13], HAN_VERBS[(number * 5 + 4) % 13], HAN_TIMES[number % 9]
    return f"{time}，{a}旁边的{b}{verb}了第{number + 3}件东西，又把{c}{other}了一遍。"


def sentences(language: str, count: int = 20, start: int = 0) -> list[str]:
    return [sentence(language, number) for number in range(start, start + count)]


def by(language: str, english: str, chinese: str) -> str:
    return english if language == "en" else chinese


def joined(language: str, pieces: list[str]) -> str:
    return by(language, " ", "").join(pieces)


def marked(mark: Callable[[str], str]) -> Callable[[str, int], str]:
    """The first `step` of 20 lines are changed."""

    def build(language: str, step: int) -> str:
        lines = sentences(language)
        return "\n".join([mark(line) if number < step else line for number, line in enumerate(lines)])

    return build


def short(language: str, step: int) -> str:
    return joined(language, sentences(language))[: 90 - step]


def garbage(language: str, step: int) -> str:
    return joined(language, sentences(language)) + "\ufffd" * step


def few_words(language: str, step: int) -> str:
    words = joined(language, sentences(language)).split()
    return " ".join(words[: 60 - step]) if language == "en" else words[0][: 130 - step]


def many_words(language: str, step: int) -> str:
    words = joined(language, sentences(language)).split()
    return " ".join(words[: 80 + step]) if language == "en" else words[0][: 180 + step]


def long_words(language: str, step: int) -> str:
    return joined(language, sentences(language)).replace(" ", "-", 2 * step)


def hashes(language: str, step: int) -> str:
    if language == "en":
        words = joined(language, sentences(language)).split()
        return " ".join(["#" + word for word in words[:step]] + words[step:])
    text = joined(language, sentences(language))
    return "".join("#" + char if number < step * 4 and number % 4 == 0 else char for number, char in enumerate(text))


def figures(language: str, step: int) -> str:
    extra = [str(7919 * (n + 1)) for n in range(step)] if language == "en" else ["＋＝→％￥≈±×÷∑" for _ in range(step)]
    return joined(language, [*sentences(language), *extra])


def no_stop_words(language: str, step: int) -> str:
    plain = " ".join(f"{a} {b} {c}," for a, b, c in zip(NOUNS, VERBS, reversed(NOUNS), strict=False))
    return " ".join(["the", "of"][step:]) + " " + plain


def dotted(language: str, step: int) -> str:
    return marked(lambda line: line[:-1] + by(language, "...", "……"))(language, step)


def repeated_lines(language: str, step: int) -> str:
    return "\n".join([*sentences(language), *[by(language, "Read more", "阅读全文")] * step])


def repeated_paragraphs(language: str, step: int) -> str:
    return "\n\n".join([*sentences(language), *[by(language, "Yes\nno", "见\n上")] * step])


def spam(language: str, step: int) -> str:
    """A phrase of two words before every third word, so that it alone repeats."""
    text = joined(language, sentences(language))
    if language == "en":
        words = text.split()
        pieces = [" ".join(words[n : n + 3]) for n in range(0, len(words), 3)]
    else:
        pieces = [text[n : n + 9] for n in range(0, len(text), 9)]
    phrase = by(language, "click here", "点击购买")
    return joined(
        language, [by(language, f"{phrase} {p}", phrase + p) if n < step else p for n, p in enumerate(pieces)]
    )


def copied(language: str, step: int) -> str:
    text = joined(language, sentences(language))
    return text + (" " + " ".join(text.split()[:step]) if language == "en" else text[: step * 2])


def lorem(language: str, step: int) -> str:
    return joined(language, [*sentences(language), ["Lorem, then ipsum.", "Lorem ipsum dolor sit amet."][step]])


def curly(language: str, step: int) -> str:
    return joined(language, ["{" * step, *sentences(language)])


def javascript(language: str, step: int) -> str:
    notice = by(language, "Turn JavaScript on to see the {} of the {}.", "请启用 JavaScript 以便查看{}与{}的页面。")
    return with_notices(language, step, notice)


def policy(language: str, step: int) -> str:
    notice = by(language, "Our privacy policy tells the {} about a {}.", "本站的隐私政策对{}和{}作了说明。")
    return with_notices(language, step, notice)


def with_notices(language: str, step: int, notice: str) -> str:
    nouns = NOUNS if language == "en" else HAN_NOUNS
    return "\n".join([*sentences(language), *(notice.format(nouns[n], nouns[n + 9]) for n in range(step))])


def unfinished(language: str, step: int) -> str:
    """Three sentences, each a line; the first `step` have no end."""
    lines = sentences(language, 3)
    return "\n".join([line[:-1] if number < step else line for number, line in enumerate(lines)])


def without_ends(language: str, step: int) -> str:
    """20 lines of two sentences; the first `step` lines have no end."""
    lines = [joined(language, sentences(language, 2, 2 * n)) for n in range(20)]
    return "\n".join([line[:-1] if number < step else line for number, line in enumerate(lines)])


def short_lines(language: str, step: int) -> str:
    lines = [joined(language, sentences(language, 2, 2 * n)) for n in range(10)]
    pairs = itertools.product(*((NOUNS, VERBS) if language == "en" else (HAN_NOUNS, HAN_VERBS)))
    captions = [by(language, f"A {noun} that they {verb}.", f"{noun}被{verb}。") for noun, verb in pairs]
    return "\n".join([*lines, *captions[:: len(captions) // 40][:step]])


def interleaved(language: str, step: int) -> str:
    """A heading of fewer words than an n-gram has, before each of the first `step` lines."""
    lines = [joined(language, sentences(language, 2, 2 * n)) for n in range(20)]
    heading = by(
        language, "Recommended international documentation: bibliographies", "推荐阅读本站其他栏目的精彩文章与图片"
    )
    return "\n".join([f"{heading}\n{line}" if number < step else line for number, line in enumerate(lines)])


def broken_lines(language: str, step: int) -> str:
    """The first `step` sentences are broken after every second word."""
    size = 2 if language == "en" else 4
    pieces = []
    for number, line in enumerate(sentences(language)):
        units = line.split() if language == "en" else list(line)
        cut = size if number < step else len(units)
        pieces += [joined(language, units[n : n + cut]) for n in range(0, len(units), cut)]
    return "\n".join(pieces)


def long_code(language: str, step: int) -> str:
    comment = by(language, "# the furnace", "# 炉子")
    body = f"{comment}\ndef burn(coal):\n    return coal - 1\n\n" * 12
    return body + "x = [" + "1, " * (320 + step) + "]\n"


def bracket_code(language: str, step: int) -> str:
    comment = by(language, "// the furnace", "// 炉子")
    return f"{comment}\nlet x = burn(coal);\n" * 5 + "{}();\n" * step


PLAIN, PAGE = "text/plain", "text/html"
NO_SENTENCES = C4Config(min_sentences=None)
CASES = [  # reason, builder, languages, media type, config
    ("too_short", short, "en zh", PLAIN, FilterConfig()),
    ("garbage_characters", garbage, "en zh", PLAIN, FilterConfig()),
    ("too_few_words", few_words, "en zh", PLAIN, FilterConfig(gopher=GopherConfig(min_words=50))),
    ("too_many_words", many_words, "en zh", PLAIN, FilterConfig(gopher=GopherConfig(max_words=100))),
    ("mean_word_length", long_words, "en", PLAIN, FilterConfig()),  # has no sense for Chinese
    ("too_many_symbols", hashes, "en zh", PLAIN, FilterConfig()),
    ("too_few_alphabetic", figures, "en zh", PLAIN, FilterConfig()),
    ("too_few_stop_words", no_stop_words, "en", PLAIN, FilterConfig()),  # is about English
    ("too_many_bullets", marked("- {}".format), "en", PLAIN, FilterConfig()),
    ("too_many_bullets", marked("•{}".format), "zh", PLAIN, FilterConfig()),
    ("too_many_ellipses", dotted, "en zh", PLAIN, FilterConfig()),
    ("duplicate_lines", repeated_lines, "en zh", PLAIN, FilterConfig()),
    ("duplicate_paragraphs", repeated_paragraphs, "en zh", PLAIN, FilterConfig()),
    ("repeated_ngram", spam, "en zh", PLAIN, FilterConfig()),
    ("duplicate_ngrams", copied, "en zh", PLAIN, FilterConfig()),
    ("lorem_ipsum", lorem, "en zh", PAGE, FilterConfig()),
    ("curly_brackets", curly, "en zh", PAGE, FilterConfig(c4=C4Config(max_curly_brackets=2))),
    ("javascript_notice", javascript, "en zh", PAGE, FilterConfig()),
    ("policy_notice", policy, "en zh", PAGE, FilterConfig()),
    ("too_few_sentences", unfinished, "en zh", PAGE, FilterConfig()),
    ("too_few_line_ends", without_ends, "en zh", PAGE, FilterConfig()),
    ("too_many_short_lines", short_lines, "en zh", PAGE, FilterConfig()),
    ("duplicate_line_chars", interleaved, "en zh", PAGE, FilterConfig()),
    (
        "too_many_newlines", broken_lines, "en zh", PAGE,
        FilterConfig(c4=NO_SENTENCES, fineweb=FineWebConfig(max_short_line_ratio=None, min_terminal_line_ratio=None)),
    ),
    ("long_code_lines", long_code, "en zh", "text/x-source", FilterConfig()),
    ("too_few_alphanumeric", bracket_code, "en zh", "text/x-source", FilterConfig()),
]  # fmt: skip
EACH = [
    pytest.param(reason, build, language, media_type, config, id=f"{reason}-{language}")
    for reason, build, languages, media_type, config in CASES
    for language in languages.split()
]
MAX_STEPS = 200


def reason_of(text: str, language: str, media_type: str, config: FilterConfig) -> str | None:
    named = "code" if media_type == "text/x-source" else {"zh": "zh-Hans"}.get(language, language)
    return drop_reason(measure(text, named), named, config, media_type)


@pytest.mark.parametrize(("reason", "build", "language", "media_type", "config"), EACH)
def test_first_text_that_goes_goes_for_its_reason_and_what_nearly_fails_stays(
    reason, build, language, media_type, config
):
    assert reason_of(build(language, 0), language, media_type, config) is None
    for step in range(1, MAX_STEPS):
        found = reason_of(build(language, step), language, media_type, config)
        if found is not None:
            break
    assert found == reason, step
    assert reason_of(build(language, step - 1), language, media_type, config) is None


@pytest.mark.parametrize("language", ["en", "zh"])
def test_rules_about_web_pages_are_not_asked_of_other_texts(language):
    for build in (unfinished, without_ends, lorem):
        steps = {unfinished: 3, without_ends: 20, lorem: 1}
        text = build(language, steps[build])
        assert reason_of(text, language, PAGE, FilterConfig()) is not None
        assert reason_of(text, language, PLAIN, FilterConfig()) is None


def test_every_reason_that_a_rule_can_give_is_tested():
    from tasks.clean.filter.stage import rules_for

    every = {rule.reason for name in ("en", "zh-Hans", "code") for rule in rules_for(name, PAGE, FilterConfig())}
    assert every == {reason for reason, *_ in CASES}


def test_limit_of_none_switches_a_rule_off():
    config = FilterConfig(min_chars=None, gopher=GopherConfig(min_stop_words=None))
    assert reason_of("Short.", "en", PLAIN, config) is None
    assert reason_of("Short.", "en", PLAIN, FilterConfig()) == "too_short"
