"""Measure a document once, so that filters can be changed without reading the text again.

What is counted comes from one compiled pass over the characters and one per n-gram size (kernels/text_metrics); here
the counts become ratios. Chinese and Japanese write no spaces: there a token is one CJK character or a run of Latin
letters and digits, so that the address of a link counts little; `num_words` is an estimate (words.py), the most
frequent n-gram has 2n tokens, and a repeated n-gram 4n: with 2n, half of all laws (formulas of 10 characters recur)
break Gopher's limits; with 4n, one in a hundred. Everything but the length and the garbage is measured outside fenced
code, where closing brackets and idioms repeat by nature.

All metrics depend on text and language alone, and all are measured whatever rules are on.

in    text, language
out   dict of floats; the keys are stable, they are the columns that filter thresholds refer to
ref   Rae et al. 2021 (Gopher), arXiv:2112.11446, section A1.1 and table A1; Raffel et al. 2020 (C4), arXiv:1910.10683,
      section 2.2; Penedo et al. 2024 (FineWeb), arXiv:2406.17557, section 3.6; Chen et al. 2021 (Codex), section 3.1
"""

from __future__ import annotations

import re

from kernels.text_metrics import DUPLICATE_NGRAMS, FIELDS, TOP_NGRAMS, count, count_characters
from tasks.clean.words import is_unspaced, num_words_of

FENCED = re.compile(r"^[ \t>]*(```+|~~~+).*?^[ \t>]*\1[`~]*[ \t]*$", re.DOTALL | re.MULTILINE)
MIN_PROSE_CHARS = 80  # outside fences; a text with less is measured as a whole
JAVASCRIPT = ("javascript",)
POLICY = (  # C4's list, and the same phrases in CJK
    *("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies"),
    *("隐私政策", "隐私权政策", "隱私政策", "隱私權政策", "使用条款", "使用條款", "服务条款", "服務條款"),
    *("使用 cookie", "使用cookie", "cookie 政策", "cookie政策"),
    *("プライバシーポリシー", "利用規約", "cookieを使用", "cookie を使用", "개인정보처리방침", "이용약관"),
)
ASCII_POLICY = tuple(phrase for phrase in POLICY if phrase.isascii())


def measure(text: str, language: str) -> dict[str, float]:
    """All metrics of `text`; every ratio lies in 0..1 but those to words."""
    prose = prose_of(text)
    unspaced = is_unspaced(language)
    found = dict(zip(FIELDS, count(prose, unspaced).tolist(), strict=True))
    metrics = _characters(found)
    if prose is not text:
        whole = dict(zip(("letters", "numbers", "spaces", "garbage", "chars"), count_characters(text), strict=True))
        metrics |= {name: _characters(whole)[name] for name in ("num_chars", "garbage_ratio")}
    metrics |= _lines(found)
    metrics |= _words(found, unspaced)
    metrics |= _boilerplate(prose.lower(), found["lines"])
    return metrics | _repetition(found)


def prose_of(text: str) -> str:
    """`text` without fenced code, if enough is left."""
    if "```" not in text and "~~~" not in text:
        return text
    prose = FENCED.sub("", text)
    return prose if len(prose) >= MIN_PROSE_CHARS else text


def _characters(found: dict[str, int]) -> dict[str, float]:
    visible = max(1, found["chars"] - found["spaces"])
    symbols = found["chars"] - sum(found[kind] for kind in ("letters", "numbers", "spaces", "garbage"))
    return {
        "num_chars": float(found["chars"]),
        "alpha_ratio": float(found["letters"] / visible),
        "alnum_ratio": float((found["letters"] + found["numbers"]) / visible),
        "symbol_ratio": float(symbols / visible),
        "garbage_ratio": float(found["garbage"] / visible),
    }


def _lines(found: dict[str, int]) -> dict[str, float]:
    count = max(1, found["lines"])
    return {
        "num_lines": float(found["lines"]),
        "mean_line_length": found["line_chars"] / count,
        "max_line_length": float(found["longest_line"]),
        "bullet_line_ratio": found["bullet_lines"] / count,
        "ellipsis_line_ratio": found["ellipsis_lines"] / count,
        "terminal_line_ratio": found["terminal_lines"] / count,
        "short_line_ratio": found["short_lines"] / count,
        "duplicate_line_ratio": found["duplicate_lines"] / count,
        "duplicate_line_char_ratio": found["duplicate_line_chars"] / max(1, found["content_line_chars"]),
        "duplicate_paragraph_ratio": found["duplicate_paragraphs"] / max(1, found["paragraphs"]),
        "duplicate_paragraph_char_ratio": found["duplicate_paragraph_chars"] / max(1, found["paragraph_chars"]),
    }


def _words(found: dict[str, int], unspaced: bool) -> dict[str, float]:
    num_words = num_words_of(found["cjk"], found["tokens"] - found["cjk"]) if unspaced else found["words"]
    count = max(1, num_words)
    metrics = {
        "num_words": float(num_words),
        "num_sentences": float(found["sentences"]),
        "line_word_ratio": found["lines"] / count,
        "hash_word_ratio": found["hashes"] / count,
        "ellipsis_word_ratio": found["ellipses"] / count,
        "stop_words": float(found["stop_words"]),
        "num_curly_brackets": float(found["curly_brackets"]),
    }
    if unspaced:  # a word of an unspaced text is no run of letters: its length and its letters say nothing
        return metrics
    metrics["mean_word_length"] = found["word_chars"] / count
    metrics["alpha_word_ratio"] = found["alpha_words"] / count
    return metrics


def _boilerplate(lower: str, num_lines: int) -> dict[str, float]:
    policy = ASCII_POLICY if lower.isascii() else POLICY
    return {
        "javascript_line_ratio": _line_ratio(lower, JAVASCRIPT, num_lines),
        "policy_line_ratio": _line_ratio(lower, policy, num_lines),
        "lorem_ipsum": float("lorem ipsum" in lower),
    }


def _line_ratio(lower: str, phrases: tuple[str, ...], num_lines: int) -> float:
    """Share of the lines that hold one of `phrases`. Most texts hold none, and no line is cut."""
    present = [phrase for phrase in phrases if phrase in lower]
    if not present:
        return 0.0
    return sum(any(phrase in line for phrase in present) for line in lower.split("\n")) / max(1, num_lines)


def _repetition(found: dict[str, int]) -> dict[str, float]:
    """Gopher's repetition figures: share of characters in the most frequent, and in repeated, n-grams."""
    total = max(1, found["token_chars"])
    tops = {f"top_{n}gram_ratio": min(1.0, found[f"top_{n}"] / total) for n in TOP_NGRAMS}  # "----" overlaps itself
    return tops | {f"duplicate_{n}gram_ratio": found[f"duplicate_{n}"] / total for n in DUPLICATE_NGRAMS}
