"""How much a decoded text looks like text that somebody wrote, for choosing between candidate charsets.

Two measures. `plausibility` is for CJK: bytes of one legacy CJK charset often decode without error in another, but to
characters that nobody uses, so the evidence is how many of the non-ASCII characters are frequent, merely standard,
rare, or impossible. The standard sets come from the codecs (first levels of GB 2312, Big5 and JIS X 0208, the syllables
of KS X 1001); only the short lists of frequent characters are written here. `disorder` is for alphabets: a wrong
single-byte charset puts symbols and capitals inside words and mixes scripts there. Neither knows any language.

in    str
out   plausibility: about 0.7 for real CJK text, below 0.3 for a wrong charset; disorder: 0 for good text, up to 1
"""

from __future__ import annotations

import functools
import re
import unicodedata

import numpy as np
import numpy.typing as npt

SAMPLE_CHARS = 20_000
FREQUENT_HANZI = (
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事"
    "成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此"
    "已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代"
    "条定法章规应市县省管权依款项施事职罚负责院关单位令"
)
FREQUENT_HANT = (
    "這個們來為國說時會對過發後經學沒動還進樣開從實軍無與長機關點業將兩間問戰應體見產種當現裡條規縣權項職罰責單處請記"
    "於並亦據證華臺灣廳務員資應辦"
)
FREQUENT_HANGUL = (
    "이다는의에가을를은한고하지도로서기사리자어그인시대수나라아해일있전정부과주만들보원게여장조국제상안성구공치적면"
)
PUNCTUATION = "、。，．：；！？「」『』《》〈〉（）“”‘’—…·～　【】〔〕"
BAD_CATEGORIES = frozenset({"Cc", "Cn", "Co", "Cs"})
PRIOR_CHARS = 2  # the mean starts from two characters of weight 0, so that a single lucky one proves nothing
LONE_IN_WORD = re.compile(
    "(?<=[A-Za-z])[\u1100-\uffee]{1,2}(?=[A-Za-z])"
    "|(?<=[A-Za-z]{2})[\u1100-\uffee](?![\u1100-\uffee])"
    "|(?<![\u1100-\uffee])[\u1100-\uffee](?=[a-z]{2})"
)


def _codec_rows(codec: str, leads: range, trails: range) -> str:
    """Every character that `codec` has at these lead and trail bytes."""
    cells = (bytes((lead, trail)) for lead in leads for trail in trails)
    return "".join(cell.decode(codec, "ignore") for cell in cells)


@functools.cache
def standard_characters() -> frozenset[str]:
    """First-level (common) ideographs of the three standards, kana and KS X 1001 hangul."""
    return frozenset(
        _codec_rows("gb2312", range(0xB0, 0xD8), range(0xA1, 0xFF))
        + _codec_rows("big5", range(0xA4, 0xC7), range(0x40, 0xFF))
        + _codec_rows("euc_jp", range(0xB0, 0xD0), range(0xA1, 0xFF))
        + _codec_rows("euc_kr", range(0xB0, 0xC9), range(0xA1, 0xFF))
        + "".join(map(chr, range(0x30A1, 0x30FF)))
    )


@functools.cache
def frequent_characters() -> frozenset[str]:
    hiragana = "".join(map(chr, range(0x3041, 0x3094)))
    return frozenset(FREQUENT_HANZI + FREQUENT_HANT + FREQUENT_HANGUL + PUNCTUATION + hiragana)


def tenths(char: str) -> int:
    """What one non-ASCII character says, in tenths: 10 frequent, 4 standard, -2 rare, -40 impossible in plain text."""
    if char in frequent_characters():
        return 10
    if char in standard_characters() or "\u2500" <= char <= "\u257f":  # rules of a table
        return 4
    if char == "\ufffd" or unicodedata.category(char) in BAD_CATEGORIES or "\uff61" <= char <= "\uff9f":
        return -40  # half-width katakana is what Shift_JIS makes of other charsets' bytes
    return -2


@functools.cache
def tenths_table() -> npt.NDArray[np.int8]:
    """`tenths` by code point of the basic plane; of ASCII, controls are impossible and the rest says nothing (0)."""
    table = np.array([0] * 0x80 + [tenths(chr(code)) for code in range(0x80, 0x10000)], dtype=np.int8)
    table[[code for code in range(0x20) if chr(code) not in "\t\n\r\f"]] = -40
    return table


def ascii_length(text: str) -> int:
    """Number of ASCII characters."""
    return len(text.encode("ascii", "ignore"))


def plausibility(text: str) -> float:
    """Mean weight of the non-ASCII characters (real Chinese about 0.7, a wrong charset below 0.3)."""
    text = text[:SAMPLE_CHARS]
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    weights = tenths_table()[np.minimum(codes, 0xFFFF)]
    for index in np.flatnonzero(codes > 0xFFFF):
        weights[index] = tenths(text[index])
    count = PRIOR_CHARS + int(np.count_nonzero(weights))
    total = int(weights.sum(dtype=np.int64)) / 10
    letters = np.count_nonzero((codes | 0x20) - 0x61 < 26)  # of ASCII; what lies below wraps around
    if count < letters:  # alphabetic text: what stands alone inside its words is an accented letter misread
        total -= 2.0 * len(LONE_IN_WORD.findall(text))
    return total / count if count > PRIOR_CHARS else 0.0


@functools.lru_cache(maxsize=65_536)
def kind(char: str) -> tuple[str, str]:
    """(script of a letter or first letter of another character's category, category)."""
    category = unicodedata.category(char)
    if category[0] == "L":
        return unicodedata.name(char, "?").split()[0].split("-")[0], category
    return category[0], category


NO_NEIGHBOUR = ("Z", "Zs")


def disorder(text: str) -> float:
    """Share of the non-ASCII characters that do not fit between their neighbours, up to 1 (0 for good text)."""
    wrong = count = 0.0
    text = text[:SAMPLE_CHARS]
    for position, char in enumerate(text):
        if char < "\x80":
            continue
        count += 1
        before = kind(text[position - 1]) if position else NO_NEIGHBOUR
        after = kind(text[position + 1]) if position + 1 < len(text) else NO_NEIGHBOUR
        wrong += _misfit(char, before, after)
    return min(1.0, wrong / count) if count else 0.0


def _misfit(char: str, before: tuple[str, str], after: tuple[str, str]) -> float:
    script, category = kind(char)
    if category in BAD_CATEGORIES or char == "\ufffd":
        return 2.0
    letter_before, letter_after = before[1][0] == "L", after[1][0] == "L"
    if category[0] == "L":
        if (letter_before and before[0] != script) or (letter_after and after[0] != script):
            return 1.0
        return 1.0 if category == "Lu" and before[1] == "Ll" else 0.5 if category == "Ll" and after[1] == "Lu" else 0.0
    inside = letter_before and letter_after
    return 1.0 if inside and char != "\u2019" and (category[0] == "S" or category in ("No", "Po", "Ps", "Pe")) else 0.0
