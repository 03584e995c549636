"""The two forms of a text that deduplication compares. Neither is ever written back: documents keep their text.

    exact_form    NFKC, white space collapsed (and removed beside characters of unspaced scripts), invisible marks gone:
                  what differs only in line breaks, indentation, full-width letters or a byte order mark is one text
    fuzzy_form    the exact form, Traditional characters folded to Simplified (OpenCC t2s), case folded

in    str
out   str
"""

from __future__ import annotations

import functools
import re
import unicodedata

import opencc

INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff\x00]")
HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af]")
# Han, kana, their punctuation (full-width too, but not full-width letters and digits): a space beside one is layout,
# not a word boundary.
WIDE_PUNCTUATION = "\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
UNSPACED = f"\u2e80-\u9fff\uf900-\ufaff{WIDE_PUNCTUATION}\U0001b000-\U0001b16f\U00020000-\U000323af"
BESIDE_UNSPACED = re.compile(f"(?<=[{UNSPACED}])\\s+|\\s+(?=[{UNSPACED}])")
SPACE = re.compile(r"\s+")


@functools.cache
def _simplifier() -> opencc.OpenCC:
    return opencc.OpenCC("t2s")


def to_simplified(text: str) -> str:
    """Traditional Chinese characters as Simplified ones; a text without Han characters comes back as it is."""
    return _simplifier().convert(text) if HAN.search(text) else text


def exact_form(text: str) -> str:
    """What two texts must share to count as one and the same."""
    text = INVISIBLE.sub("", BESIDE_UNSPACED.sub("", text))
    text = unicodedata.normalize("NFKC", text)
    return SPACE.sub(" ", BESIDE_UNSPACED.sub("", text)).strip()


def fuzzy_form(text: str) -> str:
    """What shingles and embeddings are made from."""
    # OpenCC reads UTF-8, which lone surrogates cannot enter.
    text = exact_form(text.encode("utf-8", "replace").decode("utf-8"))
    return to_simplified(text).casefold()
