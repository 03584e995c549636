"""UTF-16 without a byte-order mark.

In the right byte order neighbouring characters belong to one script and unassigned ones do not occur; in the wrong
order, or when other bytes are read this way, they scatter over the whole plane. Ideographs and hangul fill so much of
it that scatter alone proves little there, so they must also be characters that people use.

in    bytes without a byte-order mark
out   Decoded, or None
"""

from __future__ import annotations

import itertools
import unicodedata

from tasks.clean.decode.decoded import Decoded, beginning, strictly
from tasks.clean.decode.plausibility import BAD_CATEGORIES, plausibility

SAMPLE_BYTES = 2_048
MIN_COHERENCE = (
    0.85  # of neighbouring pairs in one script: true order of ../shared/data/langid .93 and above, wrong below .5
)
MIN_IDEOGRAPHIC = 0.4  # plausibility; English read as UTF-16 lies near .2
MIN_CHARS = 8
BLOCKS = (
    (0x2E7F, 0x31FF, "cjk"),
    (0x3200, 0x9FFF, "cjk"),
    (0xAC00, 0xD7A3, "hangul"),
    (0xF900, 0xFAFF, "cjk"),
    (0xFF00, 0xFFEF, "cjk"),
)
MERGED = {
    0x1: 0x0,
    0x2: 0x0,
    0x1E: 0x0,
    0x5: 0x4,
    0x1F: 0x3,
    0xFB: 0x6,
    0xFE: 0x6,
    0x7: 0x6,
    0x8: 0x6,
}  # rows of one script


def wide_reading(content: bytes) -> Decoded | None:
    """`content` as UTF-16 in the one byte order that makes sense of it, if it does."""
    if len(content) < 2 * MIN_CHARS:
        return None
    even = content[: len(content) & ~1]
    quality = {codec: _quality(even[:SAMPLE_BYTES], codec) for codec in ("utf-16-le", "utf-16-be")}
    codec = max(quality, key=lambda name: quality[name])
    if quality[codec] < MIN_COHERENCE or min(quality.values()) > quality[codec] - 0.2:
        return None
    text, cut = strictly(even, codec), len(content) % 2
    if text is None:
        return None
    return Decoded(text=text, encoding=codec, method="wide", confidence=quality[codec], replacements=cut)


def _quality(sample: bytes, codec: str) -> float:
    """Coherence of `sample`, or 0 where it cannot be text in `codec`."""
    text = beginning(sample, codec)
    if text is None or len(text) < MIN_CHARS:
        return 0.0
    bad = sum(unicodedata.category(char) in BAD_CATEGORIES for char in text if char not in "\t\n\r\f\ufeff")
    if bad * 100 > len(text):
        return 0.0
    blocks = [_block(char) for char in text]
    dense = sum(block in ("cjk", "hangul") for block in blocks)
    if dense * 5 > len(text) and plausibility(text) < MIN_IDEOGRAPHIC:
        return 0.0
    named = [block for block in blocks if block is not None]
    same = sum(one == other for one, other in itertools.pairwise(named))
    return same / (len(named) - 1) if len(named) >= MIN_CHARS // 2 else 0.0


def _block(char: str) -> str | int | None:
    """The script block, roughly; None for what stands in every script (ASCII marks and digits, general punctuation)."""
    code = ord(char)
    if code < 0x41 or 0x2000 <= code <= 0x206F or code == 0xFEFF:
        return None
    for first, last, name in BLOCKS:
        if first <= code <= last:
            return name
    return MERGED.get(code >> 8, code >> 8)
