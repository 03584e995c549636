"""Mark what a reviewer should look at: where two texts differ, and where a quoted span is.

Texts are compared word by word (character by character in unspaced scripts). Common beginning and end are taken off
first, so that long near-duplicates cost little; what lies between is compared up to MAX_TOKENS a side. Long stretches
that agree are cut in the middle: the reviewer sees each difference in its surroundings.

out   a text as Passage pieces, marked or not
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

TOKEN = re.compile(r"(?:[^\W\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+|.)\s*", re.DOTALL)  # with the space after it
MAX_TOKENS = 2000  # difflib is quadratic
CONTEXT_CHARS = 60  # of text in common, before and after a difference
GAP = " […] "


class Passage(NamedTuple):
    """A piece of a text."""

    text: str
    marked: bool


def differences(left: str, right: str, max_chars: int) -> tuple[list[Passage], list[Passage]]:
    """Both texts with what the other lacks marked, each about `max_chars` long at most."""
    head = _num_common(left, right)
    while head and (_inside_word(left, head) or _inside_word(right, head)):
        head -= 1
    tail = _num_common(left[head:][::-1], right[head:][::-1])
    while tail and (_inside_word(left, len(left) - tail) or _inside_word(right, len(right) - tail)):
        tail -= 1
    ours, theirs = TOKEN.findall(left[head : len(left) - tail]), TOKEN.findall(right[head : len(right) - tail])
    pieces: tuple[list[Passage], list[Passage]] = ([Passage(left[:head], False)], [Passage(left[:head], False)])
    if len(ours) + len(theirs) <= 2 * MAX_TOKENS:
        matcher = difflib.SequenceMatcher(None, ours, theirs)  # its autojunk bounds the cost of frequent tokens
        for tag, a, b, c, d in matcher.get_opcodes():
            pieces[0].append(Passage("".join(ours[a:b]), tag != "equal"))
            pieces[1].append(Passage("".join(theirs[c:d]), tag != "equal"))
    else:
        pieces[0].append(Passage("".join(ours), True))
        pieces[1].append(Passage("".join(theirs), True))
    for side in pieces:
        side.append(Passage(left[len(left) - tail :], False))
    return shorten(pieces[0], max_chars), shorten(pieces[1], max_chars)


def with_span(text: str, span: str, max_chars: int) -> list[Passage]:
    """The text with the first occurrence of `span` marked, whatever stands between its words or characters.

    A span is of a normalised text; where the original is spelt otherwise, as in the other Chinese script, nothing is
    marked and the beginning is shown.
    """
    tokens = [re.escape(token.strip()) for token in TOKEN.findall(span) if not token.isspace()]
    found = re.search(r"[\W_]*?".join(tokens), text, re.IGNORECASE) if tokens else None
    if not found:
        return shorten([Passage(text, False)], max_chars)
    start, stop = found.span()
    return shorten(
        [Passage(text[:start], False), Passage(text[start:stop], True), Passage(text[stop:], False)], max_chars
    )


def shorten(pieces: Sequence[Passage], max_chars: int) -> list[Passage]:
    """At most about `max_chars`: common stretches are cut to what surrounds a marked one, then the end is."""
    pieces = [piece for piece in pieces if piece.text]
    if sum(len(piece.text) for piece in pieces) > max_chars and any(piece.marked for piece in pieces):
        last = len(pieces) - 1
        pieces = [
            piece if piece.marked else Passage(_surroundings(piece.text, at > 0, at < last), False)
            for at, piece in enumerate(pieces)
        ]
    return list(_within(pieces, max_chars))


def _surroundings(text: str, after: bool, before: bool) -> str:
    """What of an unmarked text stands next to a marked one: its beginning (`after` one), its end (`before` one)."""
    sides = CONTEXT_CHARS * (after + before)
    if len(text) <= sides + len(GAP):
        return text
    return (text[:CONTEXT_CHARS] if after else "") + GAP + (text[-CONTEXT_CHARS:] if before else "")


def _within(pieces: Iterable[Passage], max_chars: int) -> Iterable[Passage]:
    left = max_chars
    cut = 0
    for piece in pieces:
        if left > 0:
            yield Passage(piece.text[:left], piece.marked)
        cut += max(0, len(piece.text) - max(left, 0))
        left -= len(piece.text)
    if cut:
        yield Passage(f" … ({cut:,} more characters)", False)


def _num_common(left: str, right: str) -> int:
    """Characters that both begin with."""
    shorter = min(len(left), len(right))
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), shorter)


def _inside_word(text: str, at: int) -> bool:
    """Whether the letters before and after position `at` belong to one token."""
    return 0 < at < len(text) and bool(TOKEN.fullmatch(text[at - 1 : at + 1]))
