"""Which characters make up a shingle's units: a table from code point to class, built once from Unicode's own data.

A unit is a word in scripts that write spaces, and a single character in those that do not (Han, kana, Bopomofo, Thai,
Lao, Khmer, Myanmar, Tibetan). Five units are therefore a word 5-gram in English, a character 5-gram in Chinese and
the sensible mixture in a text that has both. Punctuation, symbols and white space separate words and are no units, so
layout and punctuation habits cost no similarity; a text of nothing but symbols has no shingles.

ref   unicodedata of the running Python (its version belongs to the environment that a dataset records)
"""

from __future__ import annotations

import functools
import sys
import unicodedata

import numpy as np

SEPARATOR, WORD, SINGLE = 0, 1, 2

# Half-open code point ranges whose text is written without spaces between words.
UNSPACED = (
    (0x0E00, 0x0E80),  # Thai
    (0x0E80, 0x0F00),  # Lao
    (0x0F00, 0x1000),  # Tibetan
    (0x1000, 0x10A0),  # Myanmar
    (0x1780, 0x1800),  # Khmer
    (0x2E80, 0x2FE0),  # CJK and Kangxi radicals
    (0x3005, 0x3008),  # iteration mark, closing mark, ideographic zero
    (0x3040, 0x3130),  # Hiragana, Katakana, Bopomofo
    (0x31A0, 0x31C0),  # Bopomofo extended
    (0x31F0, 0x3200),  # Katakana phonetic extensions
    (0x3400, 0x4DC0),  # Han extension A
    (0x4E00, 0xA000),  # Han
    (0xF900, 0xFB00),  # Han compatibility
    (0x1B000, 0x1B170),  # kana supplements
    (0x20000, 0x323B0),  # Han extensions B to H
)
SINGLE_CATEGORIES = frozenset(("Lo", "Lm", "Nl", "Mn", "Mc", "Nd"))


@functools.cache
def classes() -> np.ndarray:
    """uint8 [0x110000]: SEPARATOR, WORD or SINGLE of each code point."""
    table = np.zeros(sys.maxunicode + 1, dtype=np.uint8)
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code))[0] in "LNM":
            table[code] = WORD
    for start, stop in UNSPACED:
        for code in range(start, stop):
            if unicodedata.category(chr(code)) in SINGLE_CATEGORIES:
                table[code] = SINGLE
    table.setflags(write=False)
    return table


def code_points(text: str) -> np.ndarray:
    """`text` as uint32 code points; lone surrogates pass (they are separators)."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
