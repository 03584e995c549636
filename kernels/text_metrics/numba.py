"""The counts of `reference.py` compiled by Numba: one pass over the code points, then one per n-gram size.

No Python object per line, word or n-gram: pieces are compared by 64-bit hashes (two different pieces of a text of 10^6
collide with p < 10^-7), n-grams by a rolling polynomial of token hashes in an open-addressing table that is allocated
once. A text costs 4 bytes a character, 16 a token and 32 a slot of the table (two to four slots a token).

in/out/ref   as `reference.py`, equal number by number
"""

from __future__ import annotations

import numpy as np

from kernels.compiling import compiled
from kernels.text_metrics import characters as flags
from kernels.text_metrics.characters import classes, code_points
from kernels.text_metrics.reference import (
    DUPLICATE_NGRAMS,
    DUPLICATE_SCALE,
    FIELDS,
    LETTERS_PER_CJK,
    MAX_RULE_CHARS,
    MIN_SENTENCE_LINE_WORDS,
    SHAPE_FIELDS,
    SHORT_LINE_CHARS,
    SKIP_LONGER_BELOW,
    STOP_WORDS,
    TOP_NGRAMS,
    TOP_SCALE,
)

U64 = np.uint64
OFFSET, PRIME, BASE = U64(0xCBF29CE484222325), U64(0x100000001B3), U64(0x9E3779B97F4A7C15)
M1, M2, S33 = U64(0xFF51AFD7ED558CCD), U64(0xC4CEB9FE1A85EC53), U64(33)
NUM_FIELDS, NUM_SHAPE_FIELDS = len(FIELDS), len(SHAPE_FIELDS)
LETTER, NUMBER, SPACE, GARBAGE = flags.LETTER, flags.NUMBER, flags.SPACE, flags.GARBAGE
WHITE, ALPHA, ALNUM, CJK = flags.WHITE, flags.ALPHA, flags.ALNUM, flags.CJK
STOP, FULL_STOP, QUOTE, BRACKET, BULLET = flags.STOP, flags.FULL_STOP, flags.QUOTE, flags.BRACKET, flags.BULLET
NEWLINE, BLANK, HASH, DOT, ELLIPSIS, CJK_DOT = ord("\n"), ord(" "), ord("#"), ord("."), ord("…"), ord("。")
OPEN, CLOSE, STAR, MINUS, PLUS = (ord(char) for char in "{}*-+")
SIZES = np.array([*TOP_NGRAMS, *DUPLICATE_NGRAMS], dtype=np.int64)
SCALES = np.array([TOP_SCALE] * len(TOP_NGRAMS) + [DUPLICATE_SCALE] * len(DUPLICATE_NGRAMS), dtype=np.int64)
NUM_TOP = len(TOP_NGRAMS)
MAX_STOP_WORD = max(map(len, STOP_WORDS))
STOP_KEYS = np.array(
    [sum(ord(char) << (8 * place) for place, char in enumerate(word)) for word in STOP_WORDS], dtype=np.uint64
)
(  # the place of each field
    F_CHARS, F_LETTERS, F_NUMBERS, F_SPACES, F_GARBAGE, F_HASHES, F_ELLIPSES, F_CURLY, F_LINES, F_LINE_CHARS,
    F_LONGEST, F_BULLETS, F_ELLIPSIS_LINES, F_TERMINAL, F_SHORT, F_CONTENT_CHARS, F_DUPLICATE_LINES,
    F_DUPLICATE_LINE_CHARS, F_PARAGRAPHS, F_PARAGRAPH_CHARS, F_DUPLICATE_PARAGRAPHS, F_DUPLICATE_PARAGRAPH_CHARS,
    F_WORDS, F_WORD_CHARS, F_ALPHA_WORDS, F_CJK, F_STOP_WORDS, F_SENTENCES, F_TOKENS, F_TOKEN_CHARS,
) = range(NUM_SHAPE_FIELDS)  # fmt: skip


@compiled
def _mixed(h):
    h = (h ^ (h >> S33)) * M1
    h = (h ^ (h >> S33)) * M2
    return h ^ (h >> S33)


@compiled
def _characters(codes, table):
    letters, numbers, spaces, garbage = 0, 0, 0, 0
    for code in codes:
        kind = table[code]
        letters += (kind & LETTER) != 0
        numbers += (kind & NUMBER) != 0
        spaces += (kind & SPACE) != 0
        garbage += (kind & GARBAGE) != 0
    return np.array([letters, numbers, spaces, garbage, len(codes)])


@compiled
def _is_terminal(codes, table, first, end):
    last = end - 1
    while last > first and table[codes[last]] & BRACKET:
        last -= 1
    return (table[codes[last]] & (STOP | FULL_STOP | QUOTE)) != 0


@compiled
def _is_ellipsis(codes, first, end):
    last = codes[end - 1]
    if last == ELLIPSIS:
        return True
    if end - first < 3 or (last != DOT and last != CJK_DOT):
        return False
    return codes[end - 2] == last and codes[end - 3] == last


@compiled
def _is_bullet(codes, table, first, end):
    code = codes[first]
    if table[code] & BULLET:
        return True
    return code in (STAR, MINUS, PLUS) and first + 1 < end and codes[first + 1] == BLANK


@compiled
def _duplicates(hashes, lengths):
    """(pieces, characters of pieces) that stood before."""
    size = 4
    while size < 2 * len(hashes):
        size *= 2
    mask = U64(size - 1)
    keys, used = np.empty(size, np.uint64), np.zeros(size, np.uint8)
    pieces, chars = 0, 0
    for i in range(len(hashes)):
        slot = hashes[i] & mask
        while used[slot] and keys[slot] != hashes[i]:
            slot = (slot + U64(1)) & mask
        if used[slot]:
            pieces += 1
            chars += lengths[i]
        else:
            used[slot], keys[slot] = 1, hashes[i]
    return pieces, chars


@compiled
def _stop_word(codes, first, end):
    """The bit of the stop word that this word is, or 0."""
    if end - first > MAX_STOP_WORD:
        return 0
    key = U64(0)
    for i in range(first, end):
        code = U64(codes[i])
        if code >= U64(65) and code <= U64(90):
            code |= U64(32)
        if code > U64(127):
            return 0
        key |= code << U64(8 * (i - first))
    for k in range(len(STOP_KEYS)):
        if STOP_KEYS[k] == key:
            return 1 << k
    return 0


@compiled
def _scan(codes, table, unspaced, ids, ends, out):
    """Fill the fields of the text's shape, and the hashes `ids` and end positions `ends` of its tokens."""
    n = len(codes)
    num_newlines = 0
    for code in codes:
        num_newlines += code == NEWLINE
    line_hashes, line_lengths = np.empty(num_newlines + 1, np.uint64), np.empty(num_newlines + 1, np.int64)
    paragraph_hashes = np.empty(num_newlines // 2 + 1, np.uint64)
    paragraph_lengths = np.empty(num_newlines // 2 + 1, np.int64)
    num_content, num_paragraphs, num_tokens, token_chars = 0, 0, 0, 0
    # [first, end) of the line and the paragraph without white space at either end, hash so far and hash at `end`
    line_first, line_end, line_hash, line_end_hash = -1, -1, OFFSET, OFFSET
    par_first, par_end, par_hash, par_end_hash = -1, -1, OFFSET, OFFSET
    line_cjk, line_words, line_sentences = 0, 0, 0
    pending, before = False, False  # a stop waits for white space; a full stop of CJK stood before
    word_first, word_hash, word_alpha, stops = -1, OFFSET, False, 0
    run_hash, run_length = OFFSET, 0  # of ASCII letters and digits
    for i in range(n + 1):
        code = codes[i] if i < n else np.uint32(NEWLINE)
        kind = table[code]
        if i < n:
            out[F_LETTERS] += (kind & LETTER) != 0
            out[F_NUMBERS] += (kind & NUMBER) != 0
            out[F_SPACES] += (kind & SPACE) != 0
            out[F_GARBAGE] += (kind & GARBAGE) != 0
            out[F_HASHES] += code == HASH
            out[F_ELLIPSES] += code == ELLIPSIS
            out[F_CURLY] += code in (OPEN, CLOSE)
        if unspaced:
            latin = code < 128 and (kind & ALNUM) != 0
            if run_length and not latin:
                ids[num_tokens] = _mixed(run_hash)
                token_chars += run_length
                num_tokens += 1
                ends[num_tokens] = token_chars
                run_hash, run_length = OFFSET, 0
            if latin:
                run_hash = (run_hash ^ U64(code)) * PRIME
                run_length += 1
            elif kind & CJK:
                ids[num_tokens] = _mixed((OFFSET ^ U64(code)) * PRIME)
                token_chars += 1
                num_tokens += 1
                ends[num_tokens] = token_chars
        if line_first >= 0:
            line_hash = (line_hash ^ U64(code)) * PRIME
        if par_first >= 0:
            par_hash = (par_hash ^ U64(code)) * PRIME
        if not kind & WHITE:
            if line_first < 0:
                line_first, line_hash = i, (OFFSET ^ U64(code)) * PRIME
            if par_first < 0:
                par_first, par_hash = i, (OFFSET ^ U64(code)) * PRIME
            line_end, line_end_hash, par_end, par_end_hash = i + 1, line_hash, i + 1, par_hash
            if word_first < 0:
                word_first, word_hash, word_alpha = i, OFFSET, False
                line_words += not kind & CJK
            word_hash = (word_hash ^ U64(code)) * PRIME
            word_alpha |= (kind & ALPHA) != 0
            line_cjk += (kind & CJK) != 0
            if kind & FULL_STOP:
                line_sentences += not before
                pending, before = False, True
            elif kind & STOP:
                pending = not before
            elif not kind & (QUOTE | BRACKET):
                pending, before = False, False
            continue
        line_sentences += pending
        pending, before = False, False
        if word_first >= 0:
            length = i - word_first
            out[F_WORDS] += 1
            out[F_WORD_CHARS] += length
            out[F_ALPHA_WORDS] += word_alpha
            stops |= _stop_word(codes, word_first, i)
            if not unspaced:
                ids[num_tokens] = _mixed(word_hash)
                token_chars += length
                num_tokens += 1
                ends[num_tokens] = token_chars
            word_first = -1
        if code != NEWLINE:
            continue
        if line_first >= 0:
            length = line_end - line_first
            out[F_LINES] += 1
            out[F_LINE_CHARS] += length
            out[F_LONGEST] = max(out[F_LONGEST], length)
            out[F_BULLETS] += _is_bullet(codes, table, line_first, line_end)
            out[F_ELLIPSIS_LINES] += _is_ellipsis(codes, line_first, line_end)
            out[F_SHORT] += length + (LETTERS_PER_CJK - 1) * line_cjk <= SHORT_LINE_CHARS
            if _is_terminal(codes, table, line_first, line_end):
                out[F_TERMINAL] += 1
                if 9 * line_words + 5 * line_cjk >= 9 * MIN_SENTENCE_LINE_WORDS:
                    out[F_SENTENCES] += line_sentences
            if length > MAX_RULE_CHARS:
                line_hashes[num_content], line_lengths[num_content] = _mixed(line_end_hash), length
                num_content += 1
                out[F_CONTENT_CHARS] += length
            out[F_CJK] += line_cjk
            line_first = -1
        line_cjk, line_words, line_sentences = 0, 0, 0
        if par_first >= 0 and (i == n or (i > 0 and codes[i - 1] == NEWLINE)):
            length = par_end - par_first
            paragraph_hashes[num_paragraphs], paragraph_lengths[num_paragraphs] = _mixed(par_end_hash), length
            num_paragraphs += 1
            out[F_PARAGRAPH_CHARS] += length
            par_first = -1
    out[F_CHARS], out[F_PARAGRAPHS], out[F_TOKENS], out[F_TOKEN_CHARS] = n, num_paragraphs, num_tokens, token_chars
    for k in range(len(STOP_KEYS)):
        out[F_STOP_WORDS] += (stops >> k) & 1
    pieces, chars = _duplicates(line_hashes[:num_content], line_lengths[:num_content])
    out[F_DUPLICATE_LINES], out[F_DUPLICATE_LINE_CHARS] = pieces, chars
    pieces, chars = _duplicates(paragraph_hashes[:num_paragraphs], paragraph_lengths[:num_paragraphs])
    out[F_DUPLICATE_PARAGRAPHS], out[F_DUPLICATE_PARAGRAPH_CHARS] = pieces, chars
    return num_tokens


@compiled
def _ngrams(ids, ends, unspaced, out):
    """Fill the fields of n-grams; `ends[k]` are the characters of the first k tokens."""
    num_tokens = len(ids)
    total = ends[num_tokens]
    size = 4
    while size < 2 * num_tokens:
        size *= 2
    mask = U64(size - 1)
    keys, stamps = np.empty(size, np.uint64), np.zeros(size, np.int32)  # a slot holds what the n-gram size `stamp` put
    counts, firsts = np.empty(size, np.int32), np.empty(size, np.int32)
    covered = total
    for k in range(len(SIZES)):
        n = SIZES[k] * (SCALES[k] if unspaced else 1)
        top, field = k < NUM_TOP, NUM_SHAPE_FIELDS + k
        if num_tokens < n:
            continue
        if not top and covered / total < SKIP_LONGER_BELOW:
            out[field] = covered
            continue
        power = U64(1)
        for _ in range(n):
            power *= BASE
        rolling, most, first, repeated, until = U64(0), 1, 0, 0, 0
        for i in range(num_tokens):
            rolling = rolling * BASE + ids[i]
            if i >= n:
                rolling -= ids[i - n] * power
            start = i - n + 1
            if start < 0:
                continue
            key = _mixed(rolling)
            slot = key & mask
            while stamps[slot] == k + 1 and keys[slot] != key:
                slot = (slot + U64(1)) & mask
            if stamps[slot] != k + 1:
                stamps[slot], keys[slot], counts[slot], firsts[slot] = k + 1, key, 1, start
            elif top:
                counts[slot] += 1
                if counts[slot] > most or (counts[slot] == most and most > 1 and firsts[slot] < first):
                    most, first = counts[slot], firsts[slot]
            else:
                repeated += ends[i + 1] - ends[max(start, until)]
                until = i + 1
        if not top:
            out[field] = covered = repeated
        elif most > 1:
            out[field] = (ends[first + n] - ends[first]) * most


def count(text: str, unspaced: bool) -> np.ndarray:
    """Every field of FIELDS; n-grams of an unspaced text are TOP_SCALE and DUPLICATE_SCALE times as many tokens."""
    codes = code_points(text)
    out = np.zeros(NUM_FIELDS, dtype=np.int64)
    ids, ends = np.empty(len(codes) + 1, np.uint64), np.zeros(len(codes) + 2, np.int64)
    num_tokens = _scan(codes, classes(), unspaced, ids, ends, out)
    _ngrams(ids[:num_tokens], ends, unspaced, out)
    return out


def count_characters(text: str) -> np.ndarray:
    """int64 [5]: letters, numbers, spaces, garbage and all characters."""
    return _characters(code_points(text), classes())
