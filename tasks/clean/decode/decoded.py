"""What the steps of decoding share: their settings, their result, their error, and a strict decode.

in    nothing: records only
out   DecodeConfig, Decoded, UndecodableError
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

CJK_CANDIDATES = ("gb18030", "big5hkscs", "cp950", "cp932", "euc_jp", "cp949", "johab")  # ties go to the earlier
MULTIBYTE = frozenset({*CJK_CANDIDATES, "shift_jisx0213", "euc_jis_2004", "euc_kr", "shift_jis", "gbk", "big5"})
CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufeff\ufffe\uffff]")


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeConfig:
    min_confidence: float = 0.8  # of chardet; below it the CJK candidates are scored (field report 000)
    min_plausibility: float = (
        0.35  # a CJK candidate below it is no text; true files lie above .4, wrong charsets below .3
    )
    max_replacement_ratio: float = 0.01  # of characters that were unreadable; above it the record is quarantined
    detect_bytes: int = 16_384  # of the parts with non-ASCII bytes: chardet's own statistics stop here too
    fast_paths: bool = True  # skip chardet and ftfy where there is no doubt; the text is the same either way (tested)

    def __post_init__(self) -> None:
        for key in ("min_confidence", "min_plausibility", "max_replacement_ratio"):
            if not 0 <= getattr(self, key) <= 1:
                raise ValueError(f"{key} must lie in 0..1, found {getattr(self, key)}: it is a share")
        if self.detect_bytes < 1024:
            raise ValueError(f"detect_bytes ({self.detect_bytes}) is below 1,024: too little to detect a charset")


@dataclass(frozen=True, kw_only=True, slots=True)
class Decoded:
    """Text, and how it was found."""

    text: str
    encoding: str
    method: str  # bom, utf-8, http, meta, chardet, language, candidate, wide, segments
    confidence: float
    replacements: int = 0  # U+FFFD put in, or an unfinished last character cut off


class UndecodableError(ValueError):
    """The bytes are no text that this module can read; `reason` is the quarantine folder."""

    def __init__(self, reason: str, detail: str):
        super().__init__(detail)
        self.reason = reason


def strictly(content: bytes, codec: str) -> str | None:
    """`content` decoded without any error, or None."""
    try:
        return content.decode(codec)
    except UnicodeError:
        return None


def beginning(content: bytes, codec: str) -> str | None:
    """`content`, which may end inside a character, decoded without any error, or None."""
    try:
        return codecs.getincrementaldecoder(codec)("strict").decode(content, False)
    except UnicodeError:
        return None
