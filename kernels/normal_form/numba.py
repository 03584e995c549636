"""Normal forms compiled by Numba: UTF-8 in, code points out, one pass, no Python object per document.

A text is worked off in segments: a character and what joins it (combining marks, Hangul vowels and finals). Most
segments are one character, and cost a look into one table. Others are decomposed, ordered and composed as Unicode
says. What comes out of either passes the layout rules once more, for NFKC makes and unmakes unspaced characters.

in/out/ref   as `reference.py`, equal code point by code point
"""

from __future__ import annotations

import numpy as np

from kernels.compiling import compiled
from kernels.normal_form.characters import INVISIBLE, JOINS, MANY, UNSPACED, UNSPACED_AFTER, WHITE, tables

REPLACEMENT, SPACE = 0xFFFD, 0x20
MAX_CODES_PER_BYTE = 18  # 3 bytes of U+FDFA decompose to 18 characters, each of which folds to 3 at most
MAX_SORTED_BY_INSERTION = 32
FOLDS_TO = 3  # code points that one folds to at most
LONGEST = 3 * 18 + 2  # of a single character: decomposed, folded, the space before


@compiled
def _decode(data, i, stop):
    """(code point, bytes) of UTF-8 at `i`; what cannot be decoded is U+FFFD, lone surrogates pass."""
    byte = np.uint32(data[i])
    if byte < 0x80:
        return byte, 1
    length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
    if byte < 0xC0 or i + length > stop:
        return np.uint32(REPLACEMENT), 1
    code = byte & np.uint32(0x7F >> length)
    for k in range(1, length):
        code = np.uint32(code << np.uint32(6)) | np.uint32(data[i + k] & 0x3F)
    return (code, length) if code <= 0x10FFFF else (np.uint32(REPLACEMENT), length)


@compiled
def _composite(first, second, pairs, composites):
    """The code point that the two compose to, or 0."""
    if 0x1100 <= first < 0x1113 and 0x1161 <= second < 0x1176:
        return np.uint32(0xAC00 + ((first - 0x1100) * 21 + (second - 0x1161)) * 28)
    if 0xAC00 <= first < 0xD7A4 and 0x11A8 <= second < 0x11C3 and (first - 0xAC00) % 28 == 0:
        return np.uint32(first + (second - 0x11A7))
    key = (np.uint64(first) << np.uint64(32)) | np.uint64(second)
    place = np.searchsorted(pairs, key)
    return composites[place] if place < len(pairs) and pairs[place] == key else np.uint32(0)


@compiled
def _order(segment, num, classes):
    """Sort each run of marks by combining class, equal ones in order."""
    start = 0
    while start < num:
        if classes[segment[start]] == 0:
            start += 1
            continue
        stop = start
        while stop < num and classes[segment[stop]] > 0:
            stop += 1
        if stop - start > MAX_SORTED_BY_INSERTION:  # a megabyte of marks must not take its square
            run = segment[start:stop].copy()
            segment[start:stop] = run[np.argsort(classes[run], kind="mergesort")]
        else:
            for i in range(start + 1, stop):
                code, j = segment[i], i
                while j > start and classes[segment[j - 1]] > classes[code]:
                    segment[j] = segment[j - 1]
                    j -= 1
                segment[j] = code
        start = stop


@compiled
def _compose(segment, num, classes, pairs, composites):
    """Order and compose the decomposed segment in place; returns its new length."""
    _order(segment, num, classes)
    starter, last, kept = -1, -1, 0  # last: class of the last character kept behind the starter, -1 when none is
    for i in range(num):
        code = segment[i]
        own = int(classes[code])
        if starter >= 0 and last < own:
            composite = _composite(segment[starter], code, pairs, composites)
            if composite:
                segment[starter] = composite
                continue
        if own == 0:
            starter, last = kept, -1
        else:
            last = own
        segment[kept] = code
        kept += 1
    return kept


@compiled
def _put(code, kind, folded, out, first, num, gap, beside):
    """Write one NFKC character, folded, behind the space that is due; returns (num, gap, beside).

    `gap`: white space since the last character; `beside`: that character is unspaced.
    """
    if kind & WHITE:
        return num, True, beside
    if gap and num > first and not beside and not kind & UNSPACED:
        out[num] = SPACE
        num += 1
    single = folded[0][code]
    if single >= 0:
        out[num] = single
        num += 1
    else:
        start, length = folded[1][-1 - single]
        for k in range(length):
            out[num] = folded[2][start + k]
            num += 1
    return num, False, (kind & UNSPACED) > 0


@compiled
def _append(code, decomposed, segment, num):
    """Append the decomposition of `code`; returns the segment, which may have grown, and its length."""
    if num + LONGEST > len(segment):
        grown = np.empty(2 * len(segment), np.uint32)
        grown[:num] = segment[:num]
        segment = grown
    single = decomposed[0][code]
    if single >= 0:
        segment[num] = single
        return segment, num + 1
    start, length = decomposed[1][-1 - single]
    for k in range(length):
        segment[num + k] = decomposed[2][start + k]
    return segment, num + length


@compiled
def _flush(base, segment, joined, table, out, first, num, gap, beside):
    """Write the open segment: `base`, or the `joined` decomposed characters; returns (num, gap, beside)."""
    flags, _, folded, decomposed, classes, pairs, composites = table
    if joined == 0:
        segment, joined = _append(base, decomposed, segment, joined)
    joined = _compose(segment, joined, classes, pairs, composites)
    for k in range(joined):
        num, gap, beside = _put(segment[k], flags[segment[k]], folded, out, first, num, gap, beside)
    return num, gap, beside


@compiled
def _normalise(data, offsets, table, out, bounds):
    """Forms of all texts into `out`, their ends into `bounds`; returns False when `out` is too short."""
    flags, single, decomposed = table[0], table[1][0], table[3]
    segment = np.empty(2 * LONGEST, np.uint32)
    num = 0
    bounds[0] = 0
    for d in range(len(offsets) - 1):
        i, stop, first = offsets[d], offsets[d + 1], num
        gap, beside = False, False  # of what is written: white space since, and whether the last one is unspaced
        white, before = False, np.uint8(0)  # of what is read: the same, of the characters as they stand
        base, kind, joined = np.int64(-1), np.uint8(0), 0  # the open segment: a character, or `joined` decomposed ones
        while i < stop:
            code, length = _decode(data, i, stop)
            i += length
            flag = flags[code]
            if flag & (INVISIBLE | WHITE):
                if flag & WHITE:
                    white = True
                continue
            spaced = bool(white and not (before | flag) & UNSPACED)
            white, before = False, flag
            if flag & JOINS and base >= 0 and not spaced:
                if joined == 0:
                    segment, joined = _append(base, decomposed, segment, joined)
                segment, joined = _append(code, decomposed, segment, joined)
                continue
            if num + FOLDS_TO * joined + LONGEST > len(out):
                return False
            if base >= 0 and joined == 0 and not kind & MANY:  # nearly always
                after = bool(kind & UNSPACED_AFTER)
                if gap and num > first and not (beside or after):
                    out[num] = SPACE
                    num += 1
                out[num] = single[base]
                num, gap, beside = num + 1, False, after
            elif base >= 0:
                num, gap, beside = _flush(base, segment, joined, table, out, first, num, gap, beside)
            if spaced:
                gap = True
            base, kind, joined = np.int64(code), flag, 0
        if num + FOLDS_TO * joined + LONGEST > len(out):
            return False
        if base >= 0:
            num, gap, beside = _flush(base, segment, joined, table, out, first, num, gap, beside)
        bounds[d + 1] = num
    return True


def normalise_utf8(data: np.ndarray, offsets: np.ndarray, fold: bool) -> tuple[np.ndarray, np.ndarray]:
    """Code points uint32 [C] and offsets int64 [D + 1] of the forms of D texts.

    `data` is uint8 UTF-8, `offsets` [D + 1] bound the texts in it: the buffers of an Arrow string array.
    """
    bounds = np.empty(len(offsets), dtype=np.int64)
    num_bytes = int(offsets[-1] - offsets[0]) if len(offsets) else 0
    for capacity in (num_bytes + LONGEST, MAX_CODES_PER_BYTE * num_bytes + 4 * LONGEST):
        out = np.empty(capacity, dtype=np.uint32)  # pages that nothing is written to cost no memory
        if _normalise(data, offsets, tables(fold), out, bounds):
            return out[: bounds[-1]], bounds
    raise AssertionError("a form is longer than MAX_CODES_PER_BYTE allows")


def normalise(text: str, fold: bool) -> str:
    """The exact form of `text`, or the folded one."""
    raw = text.encode("utf-8", "surrogatepass")
    codes, _ = normalise_utf8(np.frombuffer(raw, np.uint8), np.array([0, len(raw)], np.int64), fold)
    return codes.tobytes().decode("utf-32-le", "surrogatepass")
