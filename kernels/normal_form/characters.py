"""What each code point becomes, as tables over all of Unicode.

The tables are made from `unicodedata` of the running Python and from OpenCC: all code points go through the library at
once, a line feed between them, which keeps them apart (about 1 s a process; the tables are 40 MB).

    flags       uint8 [0x110000], see below
    mapped      Expansions: a code point's own NFKC, folded too if wanted
    folded      Expansions: a code point of an NFKC text, folded
    decomposed  Expansions: its full compatibility decomposition (NFKD)
    classes     uint8 [0x110000]: canonical combining classes
    pairs       uint64 [K], sorted: first << 32 | second of the pairs that NFKC composes; Hangul is left to arithmetic
    composites  uint32 [K]
"""

from __future__ import annotations

import functools
import sys
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

NUM_CODES = sys.maxunicode + 1
INVISIBLE_MARKS = "\u00ad\u200b\u2060\ufeff\x00"
SURROGATES = range(0xD800, 0xE000)
LAST_MARK = 0x30000  # no mark or space is encoded beyond, save variation selectors, whose class is 0

# Half-open ranges of Han, kana and their punctuation, full-width too (but not full-width letters and digits): a space
# beside one is layout, not a word boundary.
UNSPACED_RANGES = (
    (0x2E80, 0x3000),
    (0x3001, 0xA000),  # U+3000 is a space itself
    (0xF900, 0xFB00),
    *((0xFF01, 0xFF10), (0xFF1A, 0xFF21), (0xFF3B, 0xFF41), (0xFF5B, 0xFF66)),
    (0x1B000, 0x1B170),
    (0x20000, 0x323B0),
)

INVISIBLE, WHITE, UNSPACED = 1, 2, 4  # as written
JOINS = 8  # may compose with, or be ordered before, what precedes it
MANY = 16  # its NFKC is no single visible character, or folds to several
UNSPACED_AFTER = 32  # its NFKC is one character, an unspaced one


# Where one of OpenCC's 477 phrases turns a character otherwise than its own entry does (計畫 to 计划, 畫 to 画), both
# results fold to the first of the two: all such pairs of TSPhrases, read off version 1.4.2.
COMPARED_ALIKE = (
    "沉沈 干乾 借藉 复覆 于於 链炼 升昇 升陞 坯坏 征徵 钟锺 径迳 了瞭 搜蒐 修脩 秘祕 麽么 麽幺 泛氾 巨钜 厘釐 克剋 "
    "咤吒 只衹 苏甦 里哩 划画 苔薹 溪谿 恶𫫇 捍扞 夹袷 蒙濛 具俱 仿彷 札劄"
)


class Expansions(NamedTuple):
    """Code point -> code points: `single[c]`, or `codes[start : start + length]` where `single[c]` is -1 - row."""

    single: np.ndarray  # int32 [0x110000]
    rows: np.ndarray  # int32 [R, 2]: start, length
    codes: np.ndarray  # uint32


class Tables(NamedTuple):
    flags: np.ndarray
    mapped: Expansions
    folded: Expansions
    decomposed: Expansions
    classes: np.ndarray
    pairs: np.ndarray
    composites: np.ndarray


@functools.cache
def simplified() -> dict[int, str]:
    """What folds to another character: Traditional to Simplified by OpenCC's t2s, and COMPARED_ALIKE."""
    import opencc

    alike = {pair[1]: pair[0] for pair in COMPARED_ALIKE.split()}

    characters = [chr(code) for code in range(0x2E80, 0x32400) if code not in SURROGATES]
    converted = opencc.OpenCC("t2s").convert("\n".join(characters)).split("\n")
    folded = ((old, alike.get(new, new)) for old, new in zip(characters, converted, strict=True))
    return {ord(old): new for old, new in folded if old != new}


def _fold(text: str) -> str:
    return text.translate(simplified()).casefold()


@functools.cache
def tables(fold: bool) -> Tables:
    """The tables of the exact form, or of the folded one."""
    composed, decomposed = (_expansions(functools.partial(unicodedata.normalize, form)) for form in ("NFKC", "NFKD"))
    folded = _expansions(_fold if fold else str)
    mapped = _expansions(lambda text: _fold(unicodedata.normalize("NFKC", text))) if fold else composed
    if fold:
        for table in (mapped, folded):
            table.single[SURROGATES.start : SURROGATES.stop] = ord("?")
    classes = np.zeros(NUM_CODES, dtype=np.uint8)
    classes[:LAST_MARK] = [unicodedata.combining(chr(code)) for code in range(LAST_MARK)]
    pairs, composites = _pairs(decomposed)
    flags = _flags(composed, mapped, decomposed, classes, pairs)
    return Tables(flags, mapped, folded, decomposed, classes, pairs, composites)


def _expansions(function: Callable[[str], str]) -> Expansions:
    """What `function` makes of each code point by itself."""
    spread = np.full((NUM_CODES, 2), ord("\n"), dtype=np.uint32)
    spread[:, 0] = np.arange(NUM_CODES)
    spread[ord("\n"), 0] = ord(" ")  # so that every line feed ends an expansion
    text = function(spread.tobytes().decode("utf-32-le", "surrogatepass"))
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    ends = np.flatnonzero(codes == ord("\n"))
    starts = np.concatenate(([0], ends[:-1] + 1))
    single = codes[starts].astype(np.int32)
    single[ord("\n")] = ord("\n")
    several = np.flatnonzero(ends - starts != 1)
    single[several] = -1 - np.arange(len(several))
    rows = np.stack([starts[several], (ends - starts)[several]], axis=1)
    kept = np.concatenate([codes[start : start + length] for start, length in rows] or [codes[:0]])
    rows[:, 0] = np.cumsum(rows[:, 1]) - rows[:, 1]
    return Expansions(single, rows.astype(np.int32), kept)


def _pairs(decomposed: Expansions) -> tuple[np.ndarray, np.ndarray]:
    """The primary composites of Unicode but for Hangul: sorted keys of two code points, and what they compose to."""
    found = {}
    for code in np.flatnonzero(decomposed.single != np.arange(NUM_CODES)):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            first, second = (int(part, 16) for part in parts)
            if unicodedata.normalize("NFC", chr(first) + chr(second)) == chr(code):
                found[first << 32 | second] = int(code)
    keys = sorted(found)
    return np.array(keys, dtype=np.uint64), np.array([found[key] for key in keys], dtype=np.uint32)


def _flags(
    composed: Expansions, mapped: Expansions, decomposed: Expansions, classes: np.ndarray, pairs: np.ndarray
) -> np.ndarray:
    flags = np.zeros(NUM_CODES, dtype=np.uint8)
    flags[[ord(mark) for mark in INVISIBLE_MARKS]] |= INVISIBLE
    white = np.zeros(NUM_CODES, dtype=bool)
    white[:LAST_MARK] = [chr(code).isspace() for code in range(LAST_MARK)]
    flags[white] |= WHITE
    unspaced = np.zeros(NUM_CODES, dtype=bool)
    for start, stop in UNSPACED_RANGES:
        unspaced[start:stop] = True
    flags[unspaced] |= UNSPACED
    joins = classes > 0
    joins[(pairs & np.uint64(0xFFFFFFFF)).astype(np.int64)] = True
    joins[0x1161:0x1176] = joins[0x11A8:0x11C3] = True  # Hangul vowels and final consonants
    flags[joins[_first(decomposed)]] |= JOINS
    alone = composed.single >= 0
    flags[~alone | (mapped.single < 0)] |= MANY
    flags[white[np.where(alone, composed.single, 0)]] |= MANY
    flags[alone & unspaced[np.where(alone, composed.single, 0)]] |= UNSPACED_AFTER
    return flags


def _first(expansions: Expansions) -> np.ndarray:
    """The first code point of each expansion."""
    first = expansions.single.astype(np.int64)
    several = first < 0
    first[several] = expansions.codes[expansions.rows[-1 - first[several], 0]]
    return first
