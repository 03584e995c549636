"""What the units of a text are: words in scripts that write spaces, characters in those that do not.

A text is *unspaced* when at least `UNSPACED_SHARE` of its visible characters belong to a script written without spaces
(Han, kana, Bopomofo, Thai, Lao, Khmer, Myanmar, Tibetan). Its units are its visible characters, punctuation included;
those of any other text are its words: runs of letters, marks, digits and "_". Five units are thus a character 5-gram
or a word 5-gram. The choice is made for the whole text, as a rule that mixes both would weigh a Chinese frame around
an English page by its characters and the page by its words; the price is that near-duplicates on either side of the
share do not meet.

ref   unicodedata of the running Python (its version belongs to the environment that a dataset records)
"""

from __future__ import annotations

import functools
import sys
import unicodedata

import numpy as np

WORD, VISIBLE, UNSPACED = 1, 2, 4  # flags
UNSPACED_SHARE = 0.25

# Half-open code point ranges whose text is written without spaces between words.
UNSPACED_RANGES = (
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


@functools.cache
def classes() -> np.ndarray:
    """uint8 [0x110000]: the flags of each code point."""
    table = np.zeros(sys.maxunicode + 1, dtype=np.uint8)
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))[0]
        if category not in "ZC":
            table[code] = VISIBLE
        if category in "LNM" or code == ord("_"):
            table[code] |= WORD
    for start, stop in UNSPACED_RANGES:
        inside = table[start:stop]
        inside[inside & WORD > 0] |= UNSPACED
    table.setflags(write=False)
    return table


def code_points(text: str) -> np.ndarray:
    """`text` as uint32 code points; lone surrogates pass (they are not visible)."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
