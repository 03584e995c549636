"""What a code point is to the metrics: one table of flags, looked up once per character.

ref   unicodedata of the running Python (its version belongs to the environment that a dataset records); sentence ends
      are the characters of Unicode's Sentence_Terminal that stand in the corpora at hand
"""

from __future__ import annotations

import functools
import sys
import unicodedata

import numpy as np

# One of these five, by general category: letters and marks, numbers, spaces, what no text holds, all else (no flag).
LETTER, NUMBER, SPACE, GARBAGE = 1, 2, 4, 8
WHITE, ALPHA, ALNUM = 16, 32, 64  # str.isspace, str.isalpha, str.isalnum
CJK = 128  # a character that stands for itself where words are not set apart
STOP = 256  # ends a sentence before white space: "3.14" holds none
FULL_STOP = 512  # ends a sentence wherever it stands
QUOTE = 1024  # may close a sentence, and a line that ends in one ends a sentence (C4: "an end quotation mark")
BRACKET = 2048  # may close a sentence; a line's end is looked for before it
BULLET = 4096  # begins a list item by itself; "*", "-" and "+" do before a space

CJK_RANGES = (
    (0x3005, 0x3008),  # iteration mark, closing mark, ideographic zero
    (0x3041, 0x3097),
    (0x3099, 0x30FB),  # kana without the middle dot
    (0x30FC, 0x3100),
    (0x3400, 0x4DC0),
    (0x4E00, 0xA000),
    (0xF900, 0xFB00),
    (0x20000, 0x323B0),
)
STOPS = ".!?…؟۔։।॥།༎።፧។៕๏၊။⸮‽"
FULL_STOPS = "。！？｡．"
QUOTES = "\"'”’»›」』"
BRACKETS = ")]}）】》〉〕］｝"
BULLETS = "•‣▪●○■□◆◇·・–※"
ASSIGNED_END = 0x40000  # beyond it: tags and variation selectors, private use, nothing


@functools.cache
def classes() -> np.ndarray:
    """uint16 [0x110000]: the flags of each code point."""
    table = np.full(sys.maxunicode + 1, GARBAGE, dtype=np.uint16)
    for code in (*range(ASSIGNED_END), *range(0xE0000, 0xE0200)):
        table[code] = _flags(chr(code))
    for start, stop in CJK_RANGES:
        table[start:stop] |= CJK
    for characters, flag in ((STOPS, STOP), (FULL_STOPS, FULL_STOP), (QUOTES, QUOTE), (BRACKETS, BRACKET)):
        table[[ord(char) for char in characters]] |= flag
    table[[ord(char) for char in BULLETS]] |= BULLET
    table.setflags(write=False)
    return table


def _flags(char: str) -> int:
    category = unicodedata.category(char)
    flags = ALPHA * char.isalpha() | ALNUM * char.isalnum() | WHITE * char.isspace()
    if category[0] in "LM":
        return flags | LETTER
    if category[0] == "N":
        return flags | NUMBER
    if category[0] == "Z" or char in "\t\n":
        return flags | SPACE
    return flags | (GARBAGE if category in ("Cc", "Cn", "Co", "Cs") or char == "\ufffd" else 0)


def code_points(text: str) -> np.ndarray:
    """`text` as uint32 code points; lone surrogates pass (they are garbage)."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
