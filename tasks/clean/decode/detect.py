"""Guess the charset of bytes that are not UTF-8 and that nothing declares.

`certain_cjk` reads a sample in each CJK charset; where exactly one makes frequent characters of it, that is the answer,
at a fraction of chardet's time. Else chardet ranks the charsets by its language models, on the parts of the content
that have non-ASCII bytes at all, and where it is unsure the ranking is weighed with what it does not look at: whether
the text hangs together (`disorder`), and that a file found today is more often Windows' or the web's than DOS'.

in    bytes
out   Guess: Python codec, confidence from 0 to 1, text where the codec reads all bytes
ref   chardet 7 (`detect_all`); charsets of web pages: W3Techs, of which none of MS-DOS, Macintosh reaches 0.01 %
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import chardet

from tasks.clean.decode.charsets import big5_reading, charsets_of_page, family_of
from tasks.clean.decode.decoded import MULTIBYTE, DecodeConfig, beginning, strictly
from tasks.clean.decode.plausibility import ascii_length, disorder, plausibility

FAMILIES = ("gb2312", "big5", "shift_jis", "euc_jp", "euc_kr", "johab")  # labels; `family_of` names their readings
WIDEST = {"gb2312": "gb18030", "big5": "big5hkscs", "shift_jis": "cp932", "euc_kr": "cp949"}
CERTAIN_SAMPLE_BYTES = 4_096
MIN_CERTAIN = 0.55  # plausibility of the best reading, and how far ahead of the second it must be
MIN_CERTAIN_LEAD = 0.15  # by what the readings do not share; true charsets lead by .16 (EUC-JP) and more
MIN_CERTAIN_CHARS = 200
SHARED = re.compile("[\u3000-\u30ff\uff01-\uff60]")  # kana and marks: the same bytes in GB 2312, EUC-JP and EUC-KR
OLD_CHARSETS = re.compile(r"mac|cp(4|7|8|10)|ibm|hp|kz|ptcp|koi8[-_]t|johab", re.IGNORECASE)
ISO_8859 = re.compile(r"iso-?8859", re.IGNORECASE)
OLD_PRIOR, ISO_PRIOR = 0.9, 0.95  # a tenth less of chardet's score: .85 and .8 gave the same on 1,350 samples
RERANK_BYTES = 512  # above it the ranking is chardet's own: at 200 characters it was wrong in 2 of 270 samples
RANKED = 8  # of chardet's candidates; the true one was never below
WHOLE_BYTES = 262_144  # so that a 50 MB file costs no more than a page
MAX_DISORDER = 0.1  # of a text in the charset of the language that its page states
FOREIGN_WORD = re.compile(rb"[A-Za-z\x80-\x9f\xa1-\xff]*[\x80-\x9f\xa1-\xff][A-Za-z\x80-\x9f\xa1-\xff]*")
FOREIGN_SHARE, TINY_SHARE, DOUBTFUL = 0.2, 0.02, 0.25  # the first where chardet's confidence is below the third
FIRST_ANSWER = 1.3  # how much better another charset must explain those words: Dutch has as few accents
MIN_FOREIGN_BYTES = 12  # a lone café proves nothing
HIGH_PART = re.compile(rb"[^\n<]*[\x80-\xff][^\n<]*\n?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Guess:
    """The likeliest codec, or None where chardet takes the bytes for no text."""

    codec: str | None
    confidence: float
    text: str | None = None  # all of the content, where the codec reads it without error
    method: str = "chardet"


def guess_charset(content: bytes, config: DecodeConfig) -> Guess:
    """The likeliest charset of `content`, which is not UTF-8."""
    if config.fast_paths and (certain := certain_cjk(content)):
        return certain
    sample = _telling_sample(content, config.detect_bytes)
    found = chardet.detect(sample)
    label, confidence = found["encoding"], float(found["confidence"] or 0.0)
    best = _read(content, label, confidence)
    if confidence < config.min_confidence and (stated := _by_language(content, sample, best)):
        return stated
    if label is None or confidence >= config.min_confidence or best.codec in MULTIBYTE:
        return best
    words = b" ".join(FOREIGN_WORD.findall(sample))
    few = FOREIGN_SHARE if confidence < DOUBTFUL else TINY_SHARE
    if (
        MIN_FOREIGN_BYTES <= len(words) < few * len(sample)
    ):  # the rest is ASCII and speaks for English: what are these words?
        return _reranked(content, words, sample, best)
    return _reranked(content, sample, sample, best) if len(sample) <= RERANK_BYTES else best


def certain_cjk(content: bytes) -> Guess | None:
    """The one CJK charset that makes good text of `content`, where no other comes near; None in any doubt."""
    first = re.search(rb"[\x80-\xff]", content)
    if first is None:
        return None
    sample = content[first.start() : first.start() + CERTAIN_SAMPLE_BYTES]
    scores = []
    for label in FAMILIES:
        text = beginning(sample, WIDEST.get(label, label))
        if text is not None and len(text) - ascii_length(text) >= MIN_CERTAIN_CHARS:
            scores.append((plausibility(SHARED.sub("", text)), plausibility(text), label))
    scores.sort(reverse=True)
    if not scores or scores[0][1] < MIN_CERTAIN:
        return None
    if len(scores) > 1 and scores[1][0] > scores[0][0] - MIN_CERTAIN_LEAD:
        return None
    guess = _read(content, scores[0][2], min(1.0, scores[0][1]), "candidate")
    return guess if guess.text is not None else None


def _telling_sample(content: bytes, size: int) -> bytes:
    """The lines and tags of `content` that hold non-ASCII bytes, up to `size` bytes; the rest tells nothing."""
    if len(content) <= size or b"\0" in content or content.isascii():  # wide or escaped: every byte tells
        return content[:WHOLE_BYTES]
    parts, total = [], 0
    for part in HIGH_PART.finditer(content):
        parts.append(part.group())
        total += len(parts[-1])
        if total >= size:
            break
    return b"".join(parts)[:size]


def _read(content: bytes, label: str | None, confidence: float, method: str = "chardet") -> Guess:
    """What `label` means for `content`: the first of its family's readings that reads every byte."""
    options = family_of(label)
    for codec in options:
        text = strictly(content, codec)
        if text is not None:
            if codec == "big5" and big5_reading(text) == "cp950" and (other := strictly(content, "cp950")) is not None:
                codec, text = "cp950", other
            return Guess(codec=codec, confidence=confidence, text=text, method=method)
    return Guess(codec=options[0] if options else None, confidence=confidence, method=method)


def _by_language(content: bytes, sample: bytes, best: Guess) -> Guess | None:
    """The charset of the page's stated language in which its words hang together best, and no worse than as guessed."""
    options = []
    for order, codec in enumerate(charsets_of_page(content)):
        text = strictly(content, codec)
        if text is not None:
            options.append((disorder(sample.decode(codec, "replace")), order, codec, text))
    if not options:
        return None
    score, _, codec, text = min(options)
    if score > (
        MAX_DISORDER if best.codec is None else min(MAX_DISORDER, disorder(sample.decode(best.codec, "replace")))
    ):
        return None
    confidence = max(best.confidence, 0.5)  # half of the evidence is the page's own word
    return Guess(codec=codec, confidence=confidence, text=text, method="language")


def _reranked(content: bytes, asked: bytes, sample: bytes, first: Guess) -> Guess:
    """The best of chardet's candidates for `asked` by score, order in `sample`, and how usual the charset is."""
    best, best_score = first, 0.0
    for entry in chardet.detect_all(asked, ignore_threshold=True)[:RANKED]:
        option = _read(content, entry["encoding"], float(entry["confidence"] or 0.0))
        if option.text is None or option.codec is None or not entry["encoding"]:
            continue
        score = (
            option.confidence * _prior(entry["encoding"]) * (1.0 - disorder(sample.decode(option.codec, "replace")) / 2)
        )
        if option.codec == first.codec:
            score *= FIRST_ANSWER if asked is not sample else 1.0
        if score > best_score:
            best, best_score = option, score
    return best


def _prior(label: str) -> float:
    return OLD_PRIOR if OLD_CHARSETS.match(label) else ISO_PRIOR if ISO_8859.match(label) else 1.0
