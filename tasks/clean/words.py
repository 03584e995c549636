"""Which languages set no words apart, and how many words a stretch of their characters is.

Chinese, Japanese, Cantonese and classical Chinese are counted, not segmented: a word is 1.5 CJK characters.
"""

from __future__ import annotations

UNSPACED = ("zh", "ja", "yue", "wuu", "lzh", "gan")
CHARS_PER_WORD = 1.5


def is_unspaced(language: str) -> bool:
    """Whether words of `language` are not set apart by spaces (Korean and Vietnamese do set them apart)."""
    return language.split("-")[0] in UNSPACED


def num_words_of(num_cjk: int, num_spaced: int) -> int:
    """Words of an unspaced text: CJK characters / 1.5, and the words of letters and digits that stand between them."""
    return round(num_cjk / CHARS_PER_WORD) + num_spaced
