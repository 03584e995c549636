"""Mojibake: the quick test for bad text has ftfy's answer, by a walk through its pattern; damage is mended."""

from __future__ import annotations

import itertools
from re import _constants as op
from re import _parser as parser  # the pattern's own tree: nothing public gives it

from ftfy.badness import BADNESS_RE, is_bad
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.clean.decode.badness import LONGEST_MATCH, PAIRED, SUSPECT, looks_bad
from tasks.clean.decode.mojibake import repair

CLASSES = {  # one character of each kind that SUSPECT tells apart, for the classes too large to list
    op.CATEGORY_WORD: "aé中в_",
    op.CATEGORY_SPACE: " \n\xa0\u3000",
}


def alternatives() -> list[list[str]]:
    """Each alternative of ftfy's pattern as the characters that its positions accept."""
    tree = parser.parse(BADNESS_RE.pattern, BADNESS_RE.flags)
    code, (_, branches) = tree[0]
    assert code is op.BRANCH and len(tree) == 1
    return [positions for branch in branches for positions in expanded(list(branch))]


def expanded(items: list) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for code, value in items:
        if code is op.AT:
            continue
        if code is op.MAX_REPEAT:
            low, high, inner = value
            assert (low, high) == (0, 1)
            found = found + [one + two for one in found for two in expanded(list(inner))]
        elif code is op.BRANCH:
            found = [one + two for one in found for branch in value[1] for two in expanded(list(branch))]
        else:
            found = [[*one, members(code, value)] for one in found]
    return found


def members(code, value) -> str:
    if code is op.LITERAL:
        return chr(value)
    if code in (op.ANY, op.NOT_LITERAL):
        return "a é中"
    assert code is op.IN
    if value[0][0] is op.NEGATE:
        return " 1é中\n"
    chars = ""
    for kind, content in value:
        if kind is op.LITERAL:
            chars += chr(content)
        elif kind is op.RANGE:
            chars += "".join(map(chr, range(content[0], content[1] + 1)))
        else:
            chars += CLASSES[content]
    return "".join(
        char for char in dict.fromkeys(chars) if char not in "bcdefghijklmnopqrstuvwxyzBCDEFGHIJKLMNOPQRSTUVWXYZ"
    )


def test_every_match_of_ftfys_pattern_is_short_and_holds_a_suspect():
    """All strings of each alternative are walked through; of the classes `\\w`, `\\s`, `.` and `[^…]` one of a kind."""
    num = 0
    for positions in alternatives():
        assert len(positions) <= LONGEST_MATCH
        for chars in itertools.product(*positions):
            num += 1
            assert SUSPECT.search("".join(chars)), (positions, chars)
    assert num > 50_000


def test_the_pattern_was_not_simply_matched_by_everything():
    assert not SUSPECT.search("Le café à la plage… “quoted” — naïve façade. 中文，混排。Русский текст «Вот», déjà")


SNIPPETS = st.sampled_from([*PAIRED, *"ÃÂœŒЂВГ\n a.€“”’é中1°\x85", "abcdef", "abcdefghijklmn", "中文中文中文中文"])


@given(st.lists(SNIPPETS, max_size=14).map("".join))
@settings(max_examples=1_000, deadline=None)
def test_any_mixture_of_suspects_has_ftfys_answer(text):
    assert looks_bad(text) == is_bad(text)


def test_two_kinds_of_mojibake_in_one_text_are_both_mended():
    text = "Plain line.\nLe cafÃ© est trÃ¨s bon\n中文 — “ok”\ndâ€™accord"
    assert repair(text).text == "Plain line.\nLe café est très bon\n中文 — “ok”\nd’accord"
