"""What the characters of a text say about its language, before any model is asked.

Tables by code point give the share of each script. Simplified and Traditional Chinese are told apart by the
characters that only one of them uses, never by the raw CJK block: from OpenCC's dictionaries, a character is
Traditional-only if it converts to another one and is not a common GB 2312 character all the same (乾), and
Simplified-only if it converts to another one and is not a common Big5 character (后, 里, 面 belong to both).

in    code points of a text
out   shares by ISO 15924 script, counts of Simplified-only and Traditional-only characters, and of Japan's own
"""

from __future__ import annotations

import bisect
import functools
import unicodedata
from typing import NamedTuple

import numpy as np
import opencc
from numpy.typing import NDArray

RANGES = (  # first character, last character, script; sorted; letters only
    (0x0041, 0x024F, "Latn"),
    (0x0250, 0x02AF, "Latn"),
    (0x0370, 0x03FF, "Grek"),
    (0x0400, 0x052F, "Cyrl"),
    (0x0531, 0x058F, "Armn"),
    (0x0591, 0x05FF, "Hebr"),
    (0x0600, 0x06FF, "Arab"),
    (0x0700, 0x074F, "Syrc"),
    (0x0750, 0x077F, "Arab"),
    (0x0780, 0x07BF, "Thaa"),
    (0x07C0, 0x07FF, "Nkoo"),
    (0x08A0, 0x08FF, "Arab"),
    (0x0900, 0x097F, "Deva"),
    (0x0980, 0x09FF, "Beng"),
    (0x0A00, 0x0A7F, "Guru"),
    (0x0A80, 0x0AFF, "Gujr"),
    (0x0B00, 0x0B7F, "Orya"),
    (0x0B80, 0x0BFF, "Taml"),
    (0x0C00, 0x0C7F, "Telu"),
    (0x0C80, 0x0CFF, "Knda"),
    (0x0D00, 0x0D7F, "Mlym"),
    (0x0D80, 0x0DFF, "Sinh"),
    (0x0E00, 0x0E7F, "Thai"),
    (0x0E80, 0x0EFF, "Laoo"),
    (0x0F00, 0x0FFF, "Tibt"),
    (0x1000, 0x109F, "Mymr"),
    (0x10A0, 0x10FF, "Geor"),
    (0x1100, 0x11FF, "Hang"),
    (0x1200, 0x139F, "Ethi"),
    (0x1780, 0x17FF, "Khmr"),
    (0x1800, 0x18AF, "Mong"),
    (0x1C90, 0x1CBF, "Geor"),
    (0x1E00, 0x1EFF, "Latn"),
    (0x1F00, 0x1FFF, "Grek"),
    (0x2D30, 0x2D7F, "Tfng"),
    (0x3005, 0x3007, "Hani"),
    (0x3041, 0x30FF, "Kana"),
    (0x3100, 0x312F, "Bopo"),
    (0x3130, 0x318F, "Hang"),
    (0x31F0, 0x31FF, "Kana"),
    (0x3400, 0x4DBF, "Hani"),
    (0x4E00, 0x9FFF, "Hani"),
    (0xAC00, 0xD7AF, "Hang"),
    (0xF900, 0xFAFF, "Hani"),
    (0xFB50, 0xFDFF, "Arab"),
    (0xFE70, 0xFEFC, "Arab"),
    (0xFF21, 0xFF5A, "Latn"),
    (0xFF66, 0xFF9F, "Kana"),
    (0x20000, 0x323AF, "Hani"),
)
STARTS = [first for first, _, _ in RANGES]
LAST = 0x323B0  # stands for all code points after the last script
NOT_KANA = "・ー"  # also used by Chinese writers, as a dot and a dash
OWN_SCRIPTS = {"Hans": ("Hani",), "Hant": ("Hani",), "Jpan": ("Hani", "Kana"), "Kore": ("Hang", "Hani")}
SYLLABIC = {"Hani": 3.0, "Kana": 1.5, "Hang": 2.0}  # letters of an alphabet that one character stands for, about
BIG5_LEVEL_1_END = b"\xc9\x40"
GB2312_LEVEL_1_END = b"\xd8\xa1"
CANTONESE = "嘅咗喺哋唔冇嚟啲嗰佢嘢乜咁"  # standard written Chinese uses none of them
BITS = np.arange(64)[:, None] >> np.arange(6) & 1  # of the values of _han_table
JIS_LEVEL_1_END = b"\x98\x73"  # in Shift JIS


class HanCounts(NamedTuple):
    """Number of Han characters, and of those that only one writing uses."""

    han: int
    simplified: int
    traditional: int
    japanese: int  # of Japan alone
    foreign: int  # that Japan does not use
    cantonese: int


def own_scripts(script: str | None) -> tuple[str, ...]:
    """The scripts of RANGES that texts in an ISO 15924 script are written in: Han and kana for Jpan."""
    return OWN_SCRIPTS.get(script or "", (script,) if script else ())


def script_of(char: str) -> str | None:
    """ISO 15924 code of a letter's script (kana as "Kana"); None for what is no letter or of no listed script."""
    code = ord(char)
    index = bisect.bisect_right(STARTS, code) - 1
    if index < 0 or code > RANGES[index][1] or char in NOT_KANA:
        return None
    return RANGES[index][2] if unicodedata.category(char)[0] in "LM" or char in "々〇" else None


@functools.cache
def _script_table() -> tuple[NDArray[np.uint8], tuple[str, ...], NDArray[np.float64]]:
    """(script number by code point, 0 for no letter; scripts by number; weight by number)."""
    scripts = ("", *sorted({script for _, _, script in RANGES}))
    numbers = {script: number for number, script in enumerate(scripts)}
    table = np.zeros(LAST + 1, np.uint8)
    for first, last, script in RANGES:
        if script == "Hani" and last - first > 3:  # letters all
            table[first : last + 1] = numbers[script]
            continue
        for code in range(first, last + 1):
            table[code] = numbers[script_of(chr(code)) or ""]
    return table, scripts, np.array([0.0, *(SYLLABIC.get(script, 1.0) for script in scripts[1:])])


def code_points(text: str) -> NDArray[np.uint32]:
    """The characters of `text` as numbers, those beyond the last script as LAST."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return np.minimum(codes, LAST)


def script_counts(codes: NDArray[np.uint32]) -> dict[str, float]:
    """Letters of each script, a CJK character counting as the letters it stands for; most frequent first."""
    table, scripts, weights = _script_table()
    counts = (np.bincount(table[codes], minlength=len(scripts)) * weights).tolist()
    found = [(scripts[number], count) for number, count in enumerate(counts) if count]
    return dict(sorted(found, key=lambda item: (-item[1], item[0])))


def script_shares(codes: NDArray[np.uint32]) -> dict[str, float]:
    """Share of each script in the letters, most frequent first; empty where there are none."""
    counts = script_counts(codes)
    total = sum(counts.values())
    return {script: count / total for script, count in counts.items()}


def _encodable(char: str, codec: str) -> bytes:
    try:
        return char.encode(codec)
    except UnicodeEncodeError:
        return b""


@functools.cache
def one_script_characters() -> tuple[frozenset[str], frozenset[str]]:
    """(Simplified-only, Traditional-only) characters."""
    han = [chr(code) for code in (*range(0x3400, 0x4DC0), *range(0x4E00, 0xA000))]
    lines = "\n".join(han)  # a character a line, so that no phrase of the dictionaries matches
    to_simplified = opencc.OpenCC("t2s").convert(lines).split("\n")
    to_traditional = opencc.OpenCC("s2t").convert(lines).split("\n")
    simplified = {char for char, other in zip(han, to_traditional, strict=True) if other != char}
    traditional = {char for char, other in zip(han, to_simplified, strict=True) if other != char}
    common_big5 = {char for char in simplified if b"" < _encodable(char, "big5") < BIG5_LEVEL_1_END}
    common_gb2312 = {char for char in traditional if b"" < _encodable(char, "gb2312") < GB2312_LEVEL_1_END}
    return frozenset(simplified - traditional - common_big5), frozenset(traditional - simplified - common_gb2312)


@functools.cache
def japanese_characters() -> tuple[frozenset[str], frozenset[str]]:
    """(characters of Japan alone, characters that Japan does not use).

    The first are the common ones of JIS X 0208 that neither GB 2312 nor Big5 has: shinjitai such as 図, kokuji such as
    込. The second are outside JIS X 0208, or have another form in Japan (OpenCC).
    """
    han = [chr(code) for code in range(0x4E00, 0xA000)]
    forms = opencc.OpenCC("t2jp").convert("\n".join(han)).split("\n")
    japanese, foreign = set(), set()
    for char, form in zip(han, forms, strict=True):
        code = _encodable(char, "shift_jis")
        if not code or form != char:
            foreign.add(char)
        elif code < JIS_LEVEL_1_END and not (_encodable(char, "gb2312") or _encodable(char, "big5")):
            japanese.add(char)
    return frozenset(japanese), frozenset(foreign)


@functools.cache
def _han_table() -> NDArray[np.uint8]:
    """By code point: bits of the sets that `HanCounts` names after `han`, and the lowest bit for any Han character."""
    table = np.zeros(LAST + 1, np.uint8)
    table[0x4E00:0xA000] = 1
    for bit, chars in enumerate((*one_script_characters(), *japanese_characters(), CANTONESE), start=1):
        table[[ord(char) for char in chars]] |= 1 << bit
    return table


def han_counts(codes: NDArray[np.uint32]) -> HanCounts:
    """What the Han characters say, counted with repetition."""
    return HanCounts(*(np.bincount(_han_table()[codes], minlength=len(BITS)) @ BITS).tolist())
