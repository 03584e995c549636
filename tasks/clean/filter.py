"""Drop documents that are too short, repetitive, garbled or unwanted, from the metrics measured before.

No text is read here: a document's fate follows from its metrics, language and licence, so a changed threshold costs
seconds. Languages that set words apart are held to Gopher's rules; Chinese, Japanese and Cantonese to the same rules
where they count lines and characters (the word-length and stop-word rules are about English spelling); program text
only to the Codex rules. Every threshold is inclusive: a document at the limit is kept.

in    Document    metrics of `metrics.measure` are in `document.metrics`
out   Document    a subset, order kept; each drop names its reason, the figure and the limit
ref   Rae et al. 2021 (Gopher), arXiv:2112.11446, appendix A; Chen et al. 2021 (Codex), arXiv:2107.03374, §3.1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tasks.clean.language import CODE, wanted
from tasks.clean.metrics import is_unspaced
from tasks.document import UNKNOWN_LANGUAGE, Document, Dropped, Kept, Outcome
from tasks.stage import map_stage


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterConfig:
    min_chars: int = 80  # 95 % of useful samples have 78 or more (field report 000)
    min_chars_by_language: dict[str, int] = field(default_factory=dict)  # "zh-Hant": 40; "zh" covers both scripts
    min_words: int = 0  # Gopher: 50, for web pages; 0 leaves short texts to min_chars
    max_words: int = 100_000  # Gopher
    min_mean_word_length: float = 3.0  # Gopher; Latin and Cyrillic script only
    max_mean_word_length: float = 10.0  # Gopher; agglutinating languages need more
    max_mean_word_length_by_language: dict[str, float] = field(
        default_factory=lambda: (
            {"ta": 14.0, "ml": 16.0, "te": 12.0, "kn": 12.0, "fi": 12.0, "th": 200.0, "my": 200.0}
            | {"km": 200.0, "lo": 200.0, "bo": 200.0}
        )  # ours: Thai, Burmese, Khmer, Lao, Tibetan write no spaces either
    )
    max_symbol_word_ratio: float = 0.1  # Gopher: of "#" and of "…" to words
    max_bullet_line_ratio: float = 0.9  # Gopher
    max_ellipsis_line_ratio: float = 0.3  # Gopher
    min_alpha_word_ratio: float = 0.8  # Gopher: words with a letter in them
    min_alpha_ratio: float = 0.5  # ours, for unspaced text: letters among the visible characters
    min_stop_words: int = 2  # Gopher; English only
    max_duplicate_line_ratio: float = 0.3  # Gopher table A1, as all below
    max_duplicate_line_char_ratio: float = 0.2
    max_duplicate_paragraph_ratio: float = 0.3
    max_duplicate_paragraph_char_ratio: float = 0.2
    max_top_ngram_ratio: dict[str, float] = field(default_factory=lambda: {"2": 0.20, "3": 0.18, "4": 0.16})
    max_duplicate_ngram_ratio: dict[str, float] = field(
        default_factory=lambda: {"5": 0.15, "6": 0.14, "7": 0.13, "8": 0.12, "9": 0.11, "10": 0.10}
    )
    max_garbage_ratio: float = 0.01  # ours: U+FFFD, private use, unassigned; decode keeps at most as many
    max_mean_line_length_of_code: float = 100.0  # Codex
    max_line_length_of_code: float = 1000.0  # Codex
    min_alnum_ratio_of_code: float = 0.25  # Li et al. 2023 (StarCoder), arXiv:2305.06161, section 3.1
    drop_unknown_language: bool = False
    languages_of_source: dict[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # source -> the languages it may be in
    licences: tuple[str, ...] | None = None  # allowed, exactly as recorded; None: any, also an unknown one

    def __post_init__(self) -> None:
        if self.min_words > self.max_words:
            raise ValueError(
                f"min_words ({self.min_words}) is above max_words ({self.max_words}): every document would be dropped"
            )
        if self.min_mean_word_length > self.max_mean_word_length:
            raise ValueError(
                f"min_mean_word_length ({self.min_mean_word_length}) is above max_mean_word_length "
                f"({self.max_mean_word_length}): every document would be dropped"
            )
        for key, sizes in (("max_top_ngram_ratio", range(2, 5)), ("max_duplicate_ngram_ratio", range(5, 11))):
            unknown = set(getattr(self, key)) - {str(n) for n in sizes}
            if unknown:
                raise ValueError(f"{key}: measured for n of {sizes[0]} to {sizes[-1]}, found {sorted(unknown)}")


class Verdict(NamedTuple):
    """Why a document goes: the metric, what it measured, and the limit it broke."""

    reason: str
    metric: str
    found: float
    limit: float


def drop_reason(metrics: Mapping[str, float], language: str, config: FilterConfig) -> str | None:
    """Why a document with these metrics should go (`"too_short"`, …), or None to keep it."""
    found = verdict(metrics, language, config)
    return found.reason if found else None


def verdict(metrics: Mapping[str, float], language: str, config: FilterConfig) -> Verdict | None:
    """The first rule that a document with these metrics breaks. KeyError when a metric was never measured."""
    minimum = by_language(config.min_chars_by_language, language, config.min_chars)
    for reason, metric, low, high in (
        ("too_short", "num_chars", minimum, None),
        ("garbage_characters", "garbage_ratio", None, config.max_garbage_ratio),
        *_rules(language, config),
    ):
        value = metrics[metric]
        if low is not None and value < low:
            return Verdict(reason, metric, value, low)
        if high is not None and value > high:
            return Verdict(reason, metric, value, high)
    return None


Rule = tuple[str, str, float | None, float | None]  # reason, metric, least, most


def _rules(language: str, config: FilterConfig) -> list[Rule]:
    if language == CODE:
        return _code_rules(config)
    rules = _unspaced_rules(config) if is_unspaced(language) else _spaced_rules(language, config)
    return [
        ("too_few_words", "num_words", config.min_words, None),
        ("too_many_words", "num_words", None, config.max_words),
        *rules,
        ("too_many_bullets", "bullet_line_ratio", None, config.max_bullet_line_ratio),
        ("too_many_ellipses", "ellipsis_line_ratio", None, config.max_ellipsis_line_ratio),
        ("duplicate_lines", "duplicate_line_ratio", None, config.max_duplicate_line_ratio),
        ("duplicate_lines", "duplicate_line_char_ratio", None, config.max_duplicate_line_char_ratio),
        ("duplicate_paragraphs", "duplicate_paragraph_ratio", None, config.max_duplicate_paragraph_ratio),
        ("duplicate_paragraphs", "duplicate_paragraph_char_ratio", None, config.max_duplicate_paragraph_char_ratio),
        *(("repeated_ngram", f"top_{n}gram_ratio", None, most) for n, most in config.max_top_ngram_ratio.items()),
        *(
            ("duplicate_ngrams", f"duplicate_{n}gram_ratio", None, most)
            for n, most in config.max_duplicate_ngram_ratio.items()
        ),
    ]


def _code_rules(config: FilterConfig) -> list[Rule]:
    return [
        ("long_code_lines", "mean_line_length", None, config.max_mean_line_length_of_code),
        ("long_code_lines", "max_line_length", None, config.max_line_length_of_code),
        ("too_few_alphanumeric", "alnum_ratio", config.min_alnum_ratio_of_code, None),
    ]


def _unspaced_rules(config: FilterConfig) -> list[Rule]:
    return [("too_few_alphabetic", "alpha_ratio", config.min_alpha_ratio, None)]


def _spaced_rules(language: str, config: FilterConfig) -> list[Rule]:
    longest = by_language(config.max_mean_word_length_by_language, language, config.max_mean_word_length)
    # A Korean word of three letters' meaning is two syllables, two characters: Gopher's minimum is about alphabets.
    shortest = 1.5 if language == "ko" else config.min_mean_word_length
    return [
        ("mean_word_length", "mean_word_length", shortest, longest),
        ("too_many_symbols", "hash_word_ratio", None, config.max_symbol_word_ratio),
        ("too_many_symbols", "ellipsis_word_ratio", None, config.max_symbol_word_ratio),
        ("too_few_alphabetic", "alpha_word_ratio", config.min_alpha_word_ratio, None),
        *([("too_few_stop_words", "stop_words", config.min_stop_words, None)] if language == "en" else []),
    ]


def by_language(table: Mapping[str, float], language: str, default: float) -> float:
    """The entry of `table` for `language`, else for what it is a variety of, else `default`."""
    return table.get(language, table.get(language.split("-")[0], default))


def judge(document: Document, config: FilterConfig) -> Outcome:
    """The one outcome of `document`."""
    if config.licences is not None and document.licence not in config.licences:
        return Dropped(document=document, reason="licence", evidence={"licence": document.licence or "none recorded"})
    allowed = config.languages_of_source.get(document.source)
    if allowed and not wanted(document.language, allowed):
        return Dropped(document=document, reason="unwanted_language", evidence={"language": document.language})
    if config.drop_unknown_language and document.language == UNKNOWN_LANGUAGE:
        confidence = document.metrics.get("language_confidence", 0.0)
        return Dropped(document=document, reason="unknown_language", evidence={"language_confidence": confidence})
    found = verdict(document.metrics, document.language, config)
    if found is None:
        return Kept(document=document)
    evidence: dict[str, str | float | int] = {"metric": found.metric, "found": found.found, "limit": found.limit}
    return Dropped(document=document, reason=found.reason, evidence=evidence)


def process(documents: Iterator[Document], config: FilterConfig) -> Iterator[Outcome]:
    for document in documents:
        yield judge(document, config)


STAGE = map_stage(
    name="filter",
    module=__name__,
    config=FilterConfig,
    input="language",
    process=process,
    summary="drop by length, shape, repetition, garbage, language and licence, from metrics alone",
)
