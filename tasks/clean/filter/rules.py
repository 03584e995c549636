"""The rules of the filter as one table: which metric of which documents must lie between which limits.

Languages that set words apart are held to Gopher's rules; Chinese, Japanese and Cantonese to the same rules where they
count lines and characters (mean word length and stop words are about English spelling and mean nothing for a text that
is written without spaces); program text only to the Codex rules. C4's and FineWeb's rules are about web pages and are
asked of the media types that their settings name: by default HTML, where each drops 0 to 3 % of hand-checked articles
and up to 25 % of listings; not plain text, where nobody cut the lines of prose. Every limit is inclusive: a document at
it is kept. A limit of None is a rule switched off.

in    metrics, language, media type, limits
out   the first rule that is broken, with what was measured and the limit
ref   Rae et al. 2021 (Gopher), arXiv:2112.11446, section A1.1 and table A1; Raffel et al. 2020 (C4), arXiv:1910.10683,
      section 2.2; Penedo et al. 2024 (FineWeb), arXiv:2406.17557, section 3.6; Chen et al. 2021 (Codex),
      arXiv:2107.03374, section 3.1; Li et al. 2023 (StarCoder), arXiv:2305.06161, section 3.1
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, kw_only=True, slots=True)
class C4Config:
    """C4, section 2.2. C4 cuts single lines out of a page; here a page goes when they are too many."""

    media_types: tuple[str, ...] = ("text/html",)  # the documents it is asked of; (): none
    min_sentences: int | None = 3  # in lines that end like a sentence and hold 5 words
    max_curly_brackets: int | None = None  # C4: 0, which drops 10 to 28 % of the manuals at hand, 38 % of documentation
    max_lorem_ipsum: int | None = 0
    max_javascript_line_ratio: float | None = 0.2  # C4 drops each such line; ours: the page when a fifth of it is so
    max_policy_line_ratio: float | None = 0.2  # as above


@dataclass(frozen=True, kw_only=True, slots=True)
class FineWebConfig:
    """FineWeb, section 3.6, and `new_line_ratio` of its published code."""

    media_types: tuple[str, ...] = ("text/html",)
    min_terminal_line_ratio: float | None = 0.12  # lines that end in punctuation
    max_short_line_ratio: float | None = 0.67  # lines of at most 30 characters, of CJK 10
    max_duplicate_line_char_ratio: float | None = 0.1  # the paper; 0.01 in its code
    max_line_word_ratio: float | None = 0.3  # lines per word


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeConfig:
    """Of program text."""

    max_mean_line_length: float | None = 100.0  # Codex
    max_line_length: float | None = 1000.0  # Codex
    min_alnum_ratio: float | None = 0.25  # StarCoder


@dataclass(frozen=True, kw_only=True, slots=True)
class GopherConfig:
    """Gopher, section A1.1 (quality) and table A1 (repetition)."""

    min_words: int | None = None  # Gopher: 50, for web pages; without it short texts are left to min_chars
    max_words: int | None = 100_000
    min_mean_word_length: float | None = 3.0  # Latin and Cyrillic script only
    max_mean_word_length: float | None = 10.0  # agglutinating languages need more
    max_mean_word_length_by_language: dict[str, float] = field(
        default_factory=lambda: (
            {"ta": 14.0, "ml": 16.0, "te": 12.0, "kn": 12.0, "fi": 12.0, "th": 200.0, "my": 200.0}
            | {"km": 200.0, "lo": 200.0, "bo": 200.0}
        )  # ours: Thai, Burmese, Khmer, Lao, Tibetan write no spaces either
    )
    max_symbol_word_ratio: float | None = 0.1  # of "#" and of "…" to words
    max_bullet_line_ratio: float | None = 0.9
    max_ellipsis_line_ratio: float | None = 0.3
    min_alpha_word_ratio: float | None = 0.8  # words with a letter in them
    min_alpha_ratio: float | None = 0.5  # ours, for unspaced text: letters among the visible characters
    min_stop_words: int | None = 2  # English only
    max_duplicate_line_ratio: float | None = 0.3
    max_duplicate_line_char_ratio: float | None = 0.2
    max_duplicate_paragraph_ratio: float | None = 0.3
    max_duplicate_paragraph_char_ratio: float | None = 0.2
    max_top_ngram_ratio: dict[str, float] = field(default_factory=lambda: {"2": 0.20, "3": 0.18, "4": 0.16})
    max_duplicate_ngram_ratio: dict[str, float] = field(
        default_factory=lambda: {"5": 0.15, "6": 0.14, "7": 0.13, "8": 0.12, "9": 0.11, "10": 0.10}
    )  # a size that is left out is not asked for

    def __post_init__(self) -> None:
        for low, high in (("min_words", "max_words"), ("min_mean_word_length", "max_mean_word_length")):
            least, most = getattr(self, low), getattr(self, high)
            if least is not None and most is not None and least > most:
                raise ValueError(f"{low} ({least}) is above {high} ({most}): every document would be dropped")
        for key, sizes in (("max_top_ngram_ratio", range(2, 5)), ("max_duplicate_ngram_ratio", range(5, 11))):
            unknown = set(getattr(self, key)) - {str(n) for n in sizes}
            if unknown:
                raise ValueError(f"{key}: measured for n of {sizes[0]} to {sizes[-1]}, found {sorted(unknown)}")


class Rule(NamedTuple):
    """Documents whose `metric` is below `least` or above `most` are dropped for `reason`."""

    reason: str
    metric: str
    least: float | None
    most: float | None


class Verdict(NamedTuple):
    """Why a document goes: the metric, what it measured, and the limit it broke."""

    reason: str
    metric: str
    found: float
    limit: float


def first_broken(rules: Iterable[Rule], metrics: Mapping[str, float]) -> Verdict | None:
    """The first of `rules` that `metrics` break. KeyError when a metric was never measured."""
    for rule in rules:
        if rule.least is None and rule.most is None:
            continue
        value = metrics[rule.metric]
        if rule.least is not None and value < rule.least:
            return Verdict(rule.reason, rule.metric, value, rule.least)
        if rule.most is not None and value > rule.most:
            return Verdict(rule.reason, rule.metric, value, rule.most)
    return None


def code_rules(limits: CodeConfig) -> Iterator[Rule]:
    yield Rule("long_code_lines", "mean_line_length", None, limits.max_mean_line_length)
    yield Rule("long_code_lines", "max_line_length", None, limits.max_line_length)
    yield Rule("too_few_alphanumeric", "alnum_ratio", limits.min_alnum_ratio, None)


def gopher_rules(limits: GopherConfig, language: str, unspaced: bool) -> Iterator[Rule]:
    """Quality, then repetition."""
    yield Rule("too_few_words", "num_words", limits.min_words, None)
    yield Rule("too_many_words", "num_words", None, limits.max_words)
    yield from _unspaced_rules(limits) if unspaced else _spaced_rules(limits, language)
    yield Rule("too_many_bullets", "bullet_line_ratio", None, limits.max_bullet_line_ratio)
    yield Rule("too_many_ellipses", "ellipsis_line_ratio", None, limits.max_ellipsis_line_ratio)
    yield Rule("duplicate_lines", "duplicate_line_ratio", None, limits.max_duplicate_line_ratio)
    yield Rule("duplicate_lines", "duplicate_line_char_ratio", None, limits.max_duplicate_line_char_ratio)
    yield Rule("duplicate_paragraphs", "duplicate_paragraph_ratio", None, limits.max_duplicate_paragraph_ratio)
    most = limits.max_duplicate_paragraph_char_ratio
    yield Rule("duplicate_paragraphs", "duplicate_paragraph_char_ratio", None, most)
    for n, most in limits.max_top_ngram_ratio.items():
        yield Rule("repeated_ngram", f"top_{n}gram_ratio", None, most)
    for n, most in limits.max_duplicate_ngram_ratio.items():
        yield Rule("duplicate_ngrams", f"duplicate_{n}gram_ratio", None, most)


def _unspaced_rules(limits: GopherConfig) -> Iterator[Rule]:
    yield Rule("too_many_symbols", "hash_word_ratio", None, limits.max_symbol_word_ratio)
    yield Rule("too_few_alphabetic", "alpha_ratio", limits.min_alpha_ratio, None)


def _spaced_rules(limits: GopherConfig, language: str) -> Iterator[Rule]:
    longest = by_language(limits.max_mean_word_length_by_language, language, limits.max_mean_word_length)
    # A Korean word of three letters' meaning is two syllables, two characters: Gopher's minimum is about alphabets.
    shortest = limits.min_mean_word_length
    yield Rule(
        "mean_word_length", "mean_word_length", shortest / 2 if shortest and language == "ko" else shortest, None
    )
    yield Rule("mean_word_length", "mean_word_length", None, longest)
    yield Rule("too_many_symbols", "hash_word_ratio", None, limits.max_symbol_word_ratio)
    yield Rule("too_many_symbols", "ellipsis_word_ratio", None, limits.max_symbol_word_ratio)
    yield Rule("too_few_alphabetic", "alpha_word_ratio", limits.min_alpha_word_ratio, None)
    if language == "en":
        yield Rule("too_few_stop_words", "stop_words", limits.min_stop_words, None)


def c4_rules(limits: C4Config) -> Iterator[Rule]:
    yield Rule("lorem_ipsum", "lorem_ipsum", None, limits.max_lorem_ipsum)
    yield Rule("curly_brackets", "num_curly_brackets", None, limits.max_curly_brackets)
    yield Rule("javascript_notice", "javascript_line_ratio", None, limits.max_javascript_line_ratio)
    yield Rule("policy_notice", "policy_line_ratio", None, limits.max_policy_line_ratio)
    yield Rule("too_few_sentences", "num_sentences", limits.min_sentences, None)


def fineweb_rules(limits: FineWebConfig) -> Iterator[Rule]:
    yield Rule("too_few_line_ends", "terminal_line_ratio", limits.min_terminal_line_ratio, None)
    yield Rule("too_many_short_lines", "short_line_ratio", None, limits.max_short_line_ratio)
    yield Rule("duplicate_line_chars", "duplicate_line_char_ratio", None, limits.max_duplicate_line_char_ratio)
    yield Rule("too_many_newlines", "line_word_ratio", None, limits.max_line_word_ratio)


def by_language(table: Mapping[str, float], language: str, default: float | None) -> float | None:
    """The entry of `table` for `language`, else for what it is a variety of, else `default`."""
    return table.get(language, table.get(language.split("-")[0], default))
