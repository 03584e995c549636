"""What is counted in a text, in plain Python: what the compiled kernel must equal, number by number.

    lines        split at "\\n", stripped, the empty ones left out; paragraphs split at an empty line
    words        split at white space
    tokens       the words; of an unspaced text each CJK character and each run of ASCII letters and digits, no others
    n-grams      the characters in all occurrences of the most frequent n-gram (of several, of the first; 0 when none
                 occurs twice), and the characters covered by n-grams that occurred before, each counted once

in    text, str; whether its language sets words apart
out   int64 [len(FIELDS)]
ref   Rae et al. 2021 (Gopher), arXiv:2112.11446, section A1.1 and table A1
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from kernels.text_metrics import characters as flags

SHAPE_FIELDS = (
    *("chars", "letters", "numbers", "spaces", "garbage", "hashes", "ellipses", "curly_brackets"),
    *("lines", "line_chars", "longest_line", "bullet_lines", "ellipsis_lines", "terminal_lines", "short_lines"),
    *("content_line_chars", "duplicate_lines", "duplicate_line_chars"),
    *("paragraphs", "paragraph_chars", "duplicate_paragraphs", "duplicate_paragraph_chars"),
    *("words", "word_chars", "alpha_words", "cjk", "stop_words", "sentences", "tokens", "token_chars"),
)
TOP_NGRAMS = (2, 3, 4)
DUPLICATE_NGRAMS = (5, 6, 7, 8, 9, 10)
FIELDS = (*SHAPE_FIELDS, *(f"top_{n}" for n in TOP_NGRAMS), *(f"duplicate_{n}" for n in DUPLICATE_NGRAMS))
STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")  # Gopher, A1.1
TOP_SCALE, DUPLICATE_SCALE = 2, 4  # tokens of unspaced text per word of an n-gram
MAX_RULE_CHARS = 3  # a line of no more is a rule or a bracket ("---", "$$", "}"), and repeats by nature
SHORT_LINE_CHARS = 30  # FineWeb; a CJK character counts as LETTERS_PER_CJK
LETTERS_PER_CJK = 3
MIN_SENTENCE_LINE_WORDS = 5  # C4: a line of fewer holds no sentence; 9 CJK characters are five words
SKIP_LONGER_BELOW = (
    0.02  # repeated (n+1)-grams cover no more than repeated n-grams: below it, longer ones read the same
)
TOKEN = re.compile("[{}]|[0-9A-Za-z]+".format("".join(f"{chr(a)}-{chr(b - 1)}" for a, b in flags.CJK_RANGES)))


def is_(char: str, flag: int) -> bool:
    return bool(flags.classes()[ord(char)] & flag)


def count(text: str, unspaced: bool) -> np.ndarray:
    """Every field of FIELDS; n-grams of an unspaced text are TOP_SCALE and DUPLICATE_SCALE times as many tokens."""
    tokens = TOKEN.findall(text) if unspaced else text.split()
    found = {**_characters(text), **_lines(text), **_paragraphs(text), **_words(text), **_ngrams(tokens, unspaced)}
    return np.array([found[name] for name in FIELDS], dtype=np.int64)


def count_characters(text: str) -> np.ndarray:
    """int64 [5]: letters, numbers, spaces, garbage and all characters."""
    found = _characters(text)
    return np.array([found[name] for name in ("letters", "numbers", "spaces", "garbage", "chars")], dtype=np.int64)


def _characters(text: str) -> dict[str, int]:
    table, histogram = flags.classes(), Counter(text)
    kinds = {"letters": flags.LETTER, "numbers": flags.NUMBER, "spaces": flags.SPACE, "garbage": flags.GARBAGE}
    found = {
        name: sum(times for char, times in histogram.items() if table[ord(char)] & flag)
        for name, flag in (*kinds.items(), ("cjk", flags.CJK))
    }
    curly = histogram["{"] + histogram["}"]
    return {**found, "chars": len(text), "hashes": histogram["#"], "ellipses": histogram["…"], "curly_brackets": curly}


def _lines(text: str) -> dict[str, int]:
    lines = [stripped for line in text.split("\n") if (stripped := line.strip())]
    content = [line for line in lines if len(line) > MAX_RULE_CHARS]
    return {
        "lines": len(lines),
        "line_chars": sum(map(len, lines)),
        "longest_line": max(map(len, lines), default=0),
        "bullet_lines": sum(is_(line[0], flags.BULLET) or line[:2] in ("* ", "- ", "+ ") for line in lines),
        "ellipsis_lines": sum(line.endswith(("...", "…", "。。。")) for line in lines),
        "terminal_lines": sum(map(_is_terminal, lines)),
        "short_lines": sum(
            len(line) + (LETTERS_PER_CJK - 1) * _num_cjk(line) <= SHORT_LINE_CHARS for line in lines
        ),
        "content_line_chars": sum(map(len, content)),
        "duplicate_lines": len(content) - len(set(content)),
        "duplicate_line_chars": sum(map(len, content)) - sum(map(len, set(content))),
        "sentences": sum(_sentences(line) for line in lines if _is_terminal(line) and _is_long(line)),
    }  # fmt: skip


def _num_cjk(text: str) -> int:
    return sum(is_(char, flags.CJK) for char in text)


def _is_terminal(line: str) -> bool:
    """Whether a line ends like a sentence."""
    line = line[0] + line[1:].rstrip(flags.BRACKETS)
    return is_(line[-1], flags.STOP | flags.FULL_STOP | flags.QUOTE)


def _is_long(line: str) -> bool:
    """Whether a line has words for a sentence: those that begin with no CJK character, and CJK characters / 1.8."""
    spaced = sum(not is_(word[0], flags.CJK) for word in line.split())
    return 9 * spaced + 5 * _num_cjk(line) >= 9 * MIN_SENTENCE_LINE_WORDS


def _sentences(line: str) -> int:
    """Sentence ends: each run of full stops of CJK, and each other stop (with what closes it) before white space."""
    number, pending, before = 0, False, False  # before: the character before was a full stop of CJK
    for char in line + " ":
        if is_(char, flags.FULL_STOP):
            number += not before
            pending, before = False, True
            continue
        if is_(char, flags.STOP):
            pending = not before
            continue
        if is_(char, flags.WHITE):
            number += pending
        if not is_(char, flags.QUOTE | flags.BRACKET):
            pending = before = False
    return number


def _paragraphs(text: str) -> dict[str, int]:
    paragraphs = [stripped for part in text.split("\n\n") if (stripped := part.strip())]
    total = sum(map(len, paragraphs))
    return {
        "paragraphs": len(paragraphs),
        "paragraph_chars": total,
        "duplicate_paragraphs": len(paragraphs) - len(set(paragraphs)),
        "duplicate_paragraph_chars": total - sum(map(len, set(paragraphs))),
    }


def _words(text: str) -> dict[str, int]:
    words = text.split()
    return {
        "words": len(words),
        "word_chars": sum(map(len, words)),
        "alpha_words": sum(any(map(str.isalpha, word)) for word in words),
        "stop_words": sum(stop in {word.lower() for word in words if word.isascii()} for stop in STOP_WORDS),
    }


def _ngrams(tokens: list[str], unspaced: bool) -> dict[str, int]:
    lengths = np.array([len(token) for token in tokens], dtype=np.int64)
    total = int(lengths.sum())
    found = {"tokens": len(tokens), "token_chars": total}
    for n in TOP_NGRAMS:
        found[f"top_{n}"] = _top(ngrams(tokens, n * TOP_SCALE if unspaced else n))
    covered = total
    for n in DUPLICATE_NGRAMS:
        size = n * DUPLICATE_SCALE if unspaced else n
        if len(tokens) < size:
            found[f"duplicate_{n}"] = 0
            continue
        if covered / total >= SKIP_LONGER_BELOW:
            covered = _repeated(ngrams(tokens, size), lengths)
        found[f"duplicate_{n}"] = covered
    return found


def ngrams(tokens: list[str], n: int) -> list[tuple[str, ...]]:
    """Every run of `n` tokens, in order."""
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def _top(runs: list[tuple[str, ...]]) -> int:
    if not runs:
        return 0
    run, times = Counter(runs).most_common(1)[0]  # of several, the one met first
    return sum(map(len, run)) * times if times > 1 else 0


def _repeated(runs: list[tuple[str, ...]], lengths: np.ndarray) -> int:
    again: np.ndarray = np.zeros(len(lengths), dtype=bool)
    seen: set[tuple[str, ...]] = set()
    for i, run in enumerate(runs):
        if run in seen:
            again[i : i + len(run)] = True
        seen.add(run)
    return int(lengths[again].sum())
