"""Undo text that was decoded with the wrong charset once and saved again, where that can be undone exactly.

Two kinds are repaired: legacy CJK bytes read as Latin-1 (every character is below U+0100), and UTF-8 read as a
single-byte charset (ftfy knows these). A text without a character that such damage leaves behind is returned at once,
so good text costs one regex search. Damage that lost bytes is recognised, not repaired.

in    str
out   Repair: the text, what was done, or that the text is beyond repair
ref   ftfy (R. Speer), https://ftfy.readthedocs.io, for `fix_encoding` and its test for bad text (`badness`)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ftfy import TextFixerConfig, fix_encoding

from tasks.clean.decode.badness import looks_bad
from tasks.clean.decode.plausibility import plausibility

TRACE = re.compile("[\x80-\u052f]")  # UTF-8 read as any single-byte charset leaves one of these
HAN = re.compile("[\u4e00-\u9fff]")
CANDIDATES = ("gb18030", "cp950", "cp932", "euc_jp", "cp949")
MIN_PLAUSIBILITY = 0.45  # real CJK text of ../shared/data/encodings lies above .46 in all but two files
LOSSY_SAMPLE_CHARS = 2_000
FTFY = TextFixerConfig(unescape_html=False, explain=False, restore_byte_a0=True, replace_lossy_sequences=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Repair:
    text: str
    kind: str | None = None  # None: nothing to repair
    lost: bool = False  # bytes were lost before the text reached us


def repair(text: str, is_bad: Callable[[str], bool] = looks_bad) -> Repair:
    """Undo mojibake in `text`; good text comes back unchanged. `is_bad` tells whether a text or line may hold any."""
    if text.isascii():
        return Repair(text=text)
    if TRACE.search(text):
        bad = is_bad(text)
        inner = legacy_read_as_latin(text, is_bad) if bad or not HAN.search(text) else None
        if inner is not None and (bad or inner.kind != "ftfy"):
            return inner
        fixed = _fix_lines(text, is_bad) if bad else text
        if fixed != text:
            return Repair(text=fixed, kind="ftfy", lost=fixed.count("\ufffd") > len(fixed) // 100)
    return Repair(text=text, kind=None, lost=utf8_read_as_gbk(text))


def _fix_lines(text: str, is_bad: Callable[[str], bool]) -> str:
    return "\n".join(fix_encoding(line, FTFY) if is_bad(line) else line for line in text.split("\n"))


def legacy_read_as_latin(text: str, is_bad: Callable[[str], bool] = looks_bad) -> Repair | None:
    """The UTF-8 or CJK text whose bytes were read as Latin-1 or Windows-1252, if that is what `text` is."""
    high = len(re.findall("[\x80-\xff]", text[:LOSSY_SAMPLE_CHARS]))
    if high * 4 < min(len(text), LOSSY_SAMPLE_CHARS):  # Vietnamese, the densest real Latin text, stays below a quarter
        return None
    for middle in ("latin-1", "sloppy-windows-1252"):
        try:
            content = text.encode(middle)
        except UnicodeEncodeError:
            continue
        try:
            inner = content.decode("utf-8")
        except UnicodeDecodeError:
            pass
        else:
            return Repair(text=_fix_lines(inner, is_bad), kind="ftfy")  # again: some text was damaged twice
        options = []
        for codec in CANDIDATES:
            try:
                decoded = content.decode(codec)
            except UnicodeDecodeError:
                continue
            options.append((plausibility(decoded), codec, decoded))
        if options:
            score, codec, decoded = max(options, key=lambda option: option[0])
            if score >= MIN_PLAUSIBILITY:
                return Repair(text=decoded, kind=codec)
    return None


def utf8_read_as_gbk(text: str) -> bool:
    """Whether `text` is UTF-8 that was read as GBK: full of rare ideographs that turn back into plausible text.

    It cannot be repaired in full, as GBK has no character for some byte pairs.
    """
    sample = text[:LOSSY_SAMPLE_CHARS]
    if not HAN.search(sample):
        return False
    score = plausibility(sample)
    if score > 0.3:  # good Chinese; mojibake of this kind lies near 0.1
        return False
    back = sample.encode("gb18030", "ignore").decode("utf-8", "ignore")
    return len(back) * 3 > len(sample) and plausibility(back) > max(MIN_PLAUSIBILITY, score + 0.3)
