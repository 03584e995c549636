"""Measure a document once, so that filters can be changed without reading the text again.

Everything is counted from one histogram of characters, the lines, and an array of token ids; n-grams are hashed with
NumPy instead of joined as strings. Chinese and Japanese write no spaces: there a token is one CJK character or a run of
Latin letters and digits, so that the address of a link counts little; `num_words` is the CJK characters / 1.5, the most
frequent n-gram has 2n tokens, and a repeated n-gram 4n: with 2n, half of all laws (formulas of 10 characters recur)
break Gopher's limits; with 4n, one in a hundred. Lines, words and repetition are measured outside fenced code, where
closing brackets and idioms repeat by nature.

in    text, language
out   dict of floats; the keys are stable, they are the columns that filter thresholds refer to
ref   Rae et al. 2021 (Gopher), arXiv:2112.11446, appendix A, section A1.1 and table A1; Chen et al. 2021 (Codex), §3.1
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter

import numpy as np

UNSPACED = ("zh", "ja", "yue", "wuu", "lzh", "gan")
CHARS_PER_WORD = 1.5  # of unspaced text, for counting
TOP_SCALE, DUPLICATE_SCALE = 2, 4  # characters of unspaced text per word of an n-gram
FENCED = re.compile(r"^[ \t>]*(```+|~~~+).*?^[ \t>]*\1[`~]*[ \t]*$", re.DOTALL | re.MULTILINE)
MAX_RULE_CHARS = 3  # a line of no more is a rule or a bracket ("---", "$$", "}"), and repeats by nature
MIN_PROSE_CHARS = 80  # outside fences; a text with less is measured as a whole
CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]")
BULLETS = ("•", "‣", "▪", "●", "○", "■", "□", "◆", "◇", "·", "・", "* ", "- ", "+ ", "–", "※")
ELLIPSES = ("...", "…", "。。。")
STOP_WORDS = frozenset({"the", "be", "to", "of", "and", "that", "have", "with"})  # Gopher, A1.1
FIRST_DUPLICATE, LAST_DUPLICATE = 5, 10  # word n-grams, Gopher table A1
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
SKIP_LONGER_BELOW = 0.02  # repeated (n+1)-grams cover no more than repeated n-grams: below it, longer ones read 0.02


def is_unspaced(language: str) -> bool:
    """Whether words of `language` are not set apart by spaces (Korean and Vietnamese do set them apart)."""
    return language.split("-")[0] in UNSPACED


@functools.lru_cache(maxsize=65_536)
def kind_of(char: str) -> str:
    """A letter ("L"), digit ("N"), space ("Z"), garbage ("G") or anything else ("S")."""
    if char == "\ufffd":
        return "G"
    category = unicodedata.category(char)
    if category[0] in "LM":
        return "L"
    if category[0] == "N":
        return "N"
    if category[0] == "Z" or char in "\t\n":
        return "Z"
    return "G" if category in ("Cc", "Cn", "Co", "Cs") else "S"


def measure(text: str, language: str, histogram: Counter[str] | None = None) -> dict[str, float]:
    """All metrics of `text`; every ratio lies in 0..1."""
    histogram = Counter(text) if histogram is None else histogram
    garbage = _characters(histogram, len(text))
    prose = prose_of(text)
    metrics = (
        garbage
        if prose is text
        else {**_characters(Counter(prose), len(text)), "garbage_ratio": garbage["garbage_ratio"]}
    )
    text = prose
    metrics |= _lines(text)
    words = text.split()
    if is_unspaced(language):
        metrics["num_words"] = float(round(len(CJK.findall(text)) / CHARS_PER_WORD) + _spaced_words(words))
        return metrics | _repetition(*unspaced_tokens(text), unspaced=True)
    metrics |= _words(words, histogram)
    seen: dict[str, int] = {}
    ids: np.ndarray = np.fromiter(
        (seen.setdefault(word, len(seen)) for word in words), dtype=np.uint64, count=len(words)
    )
    lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    return metrics | _repetition(ids, lengths, unspaced=False)


def prose_of(text: str) -> str:
    """`text` without fenced code, if enough is left."""
    if "```" not in text and "~~~" not in text:
        return text
    prose = FENCED.sub("", text)
    return prose if len(prose) >= MIN_PROSE_CHARS else text


def _characters(histogram: Counter[str], num_chars: int) -> dict[str, float]:
    kinds = dict.fromkeys("LNZGS", 0)
    for char, times in histogram.items():
        kinds[kind_of(char)] += times
    visible = max(1, sum(kinds.values()) - kinds["Z"])
    return {
        "num_chars": float(num_chars),
        "alpha_ratio": kinds["L"] / visible,
        "alnum_ratio": (kinds["L"] + kinds["N"]) / visible,
        "symbol_ratio": kinds["S"] / visible,
        "garbage_ratio": kinds["G"] / visible,
    }


def _lines(text: str) -> dict[str, float]:
    lines = [stripped for line in text.split("\n") if (stripped := line.strip())]
    paragraphs = [stripped for part in text.split("\n\n") if (stripped := part.strip())]
    count = max(1, len(lines))
    content = [line for line in lines if len(line) > MAX_RULE_CHARS]
    return {
        "num_lines": float(len(lines)),
        "mean_line_length": sum(map(len, lines)) / count,
        "max_line_length": float(max(map(len, lines), default=0)),
        "bullet_line_ratio": sum(line.startswith(BULLETS) for line in lines) / count,
        "ellipsis_line_ratio": sum(line.endswith(ELLIPSES) for line in lines) / count,
        "duplicate_line_ratio": (len(content) - len(set(content))) / count,
        "duplicate_line_char_ratio": _duplicate_chars(content),
        "duplicate_paragraph_ratio": (len(paragraphs) - len(set(paragraphs))) / max(1, len(paragraphs)),
        "duplicate_paragraph_char_ratio": _duplicate_chars(paragraphs),
    }


def _duplicate_chars(pieces: list[str]) -> float:
    """Share of the characters that stand in a piece seen before."""
    total = sum(map(len, pieces))
    return (total - sum(map(len, set(pieces)))) / total if total else 0.0


def _spaced_words(words: list[str]) -> int:
    return sum(word[0].isalnum() and not CJK.match(word) for word in words)


def _words(words: list[str], histogram: Counter[str]) -> dict[str, float]:
    count = max(1, len(words))
    return {
        "num_words": float(len(words)),
        "mean_word_length": sum(map(len, words)) / count,
        "alpha_word_ratio": sum(any(map(str.isalpha, word)) for word in words) / count,
        "hash_word_ratio": histogram["#"] / count,
        "ellipsis_word_ratio": histogram["…"] / count,
        "stop_words": float(len(STOP_WORDS.intersection(map(str.lower, words)))),
    }


def unspaced_tokens(text: str) -> tuple[np.ndarray, np.ndarray]:
    """(ids, lengths) of the tokens: each CJK character, and each run of ASCII letters and digits; no others."""
    codes: np.ndarray = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    cjk = ((codes >= 0x3041) & (codes <= 0x9FFF)) | ((codes >= 0xF900) & (codes <= 0xFAFF)) | (codes >= 0x20000)
    lower = codes | np.uint64(0x20)
    latin = ((codes >= 0x30) & (codes <= 0x39)) | ((lower >= 0x61) & (lower <= 0x7A))
    is_first = cjk | (latin & ~np.concatenate(([False], latin[:-1])))
    wanted = cjk | latin
    codes, begins = codes[wanted], np.flatnonzero(is_first[wanted])
    if not len(begins):
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    lengths = np.diff(begins, append=len(codes))
    place = (np.arange(len(codes)) - np.repeat(begins, lengths)).astype(np.uint64)
    return np.add.reduceat(codes * (place * MULTIPLIER + np.uint64(1)), begins), lengths


def _repetition(ids: np.ndarray, lengths: np.ndarray, unspaced: bool) -> dict[str, float]:
    """Gopher's repetition figures: share of characters in the most frequent, and in repeated, n-grams."""
    total = int(lengths.sum())
    metrics: dict[str, float] = {}
    ends = np.concatenate(([0], np.cumsum(lengths)))
    previous = 1.0
    for n in (2, 3, 4, *range(FIRST_DUPLICATE, LAST_DUPLICATE + 1)):
        top = n < FIRST_DUPLICATE
        size = n * (TOP_SCALE if top else DUPLICATE_SCALE) if unspaced else n
        name = f"top_{n}gram_ratio" if top else f"duplicate_{n}gram_ratio"
        if len(ids) < size or (not top and previous < SKIP_LONGER_BELOW):
            metrics[name] = 0.0 if len(ids) < size else previous
            continue
        hashes = ngram_hashes(ids, size)
        if top:
            metrics[name] = min(1.0, _top(hashes, ends, size) / total)  # occurrences overlap in "----"
        else:
            metrics[name] = previous = _repeated(hashes, lengths, size) / total
    return metrics


def ngram_hashes(ids: np.ndarray, n: int) -> np.ndarray:
    """A 64-bit hash of each run of `n` tokens (polynomial, modulo 2**64)."""
    hashes: np.ndarray = np.zeros(len(ids) - n + 1, dtype=np.uint64)
    for offset in range(n):
        hashes = hashes * MULTIPLIER + (ids[offset : offset + len(hashes)] + np.uint64(1))
    return hashes ^ (hashes >> np.uint64(29))


def _top(hashes: np.ndarray, ends: np.ndarray, n: int) -> int:
    """Characters in all occurrences of the most frequent n-gram (of several, the first); 0 when none occurs twice."""
    ordered = np.sort(hashes)
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    counts = np.diff(starts, append=len(ordered))
    count = int(counts.max())
    if count == 1:
        return 0
    values = ordered[starts[counts == count]]
    first = int(np.flatnonzero(hashes == values[0] if len(values) == 1 else np.isin(hashes, values))[0])
    return int(ends[first + n] - ends[first]) * count


def _repeated(hashes: np.ndarray, lengths: np.ndarray, n: int) -> int:
    """Characters covered by n-grams that occurred before, each counted once."""
    again: np.ndarray = np.ones(len(hashes), dtype=bool)
    again[np.unique(hashes, return_index=True)[1]] = False
    edges: np.ndarray = np.zeros(len(lengths) + 1, dtype=np.int64)
    edges[: len(hashes)] += again
    edges[n : n + len(hashes)] -= again
    return int(lengths[np.cumsum(edges[:-1]) > 0].sum())
