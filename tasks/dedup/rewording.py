"""Is a pair of texts, alike to an encoder, one text in other words? Or two in one frame, or one form filled twice?

An encoder sees a few hundred characters. Two pages of one site share their head, two company profiles differ in name
and address alone; both are near 1 in cosine and are no duplicates. So a pair must also agree

    in every segment      head, middle and end: above the encoder's threshold on the average, none below `screen`
    in length             within `min_length_ratio`
    in words              Jaccard of their words (characters in unspaced scripts) at least `min_overlap`
    and be no template    the same form with other numbers, or with one name put for another again and again

Of templates, a form filled twice (`is_one_form`) is told from two contents in one frame by how little differs at a
place: in company pages made from one form, an address of at most 14 units; in pages of one site's frame, however short
their contents, 21 or more.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter

from kernels import minhash

DIGITS = re.compile(r"\d+")
ALIGNED_UNITS = 600  # the diff is quadratic at worst: 600 units take about 30 ms
MIN_SHARED_NUMBERS = 0.9
MIN_SHARED_UNITS = 0.8  # of a form filled twice
MAX_BLANK_UNITS = 16  # of one blank: a street address fits in
SAME_WORD = 0.8  # letters in common, in order, of two spellings
MAX_GAP_UNITS = 2  # in common within a blank, by chance


def segments(form: str, size: int) -> list[str]:
    """Head, middle and end of a text, `size` characters each; fewer where they would overlap much."""
    if len(form) <= size:
        return [form]
    middle = (len(form) - size) // 2
    starts = [0, len(form) - size] if len(form) <= 2 * size else [0, middle, len(form) - size]
    return [form[start : start + size] for start in starts]


def overlap(left: str, right: str) -> float:
    """Jaccard of the two texts' units, each as often as it occurs."""
    by_character = minhash.is_unspaced(left)
    first, second = (Counter(minhash.split_units(form, by_character)) for form in (left, right))
    union = (first | second).total()
    return (first & second).total() / union if union else 0.0


def is_template(left: str, right: str) -> bool:
    """Whether the two look like one form filled in twice: other numbers, or a name replaced consistently."""
    first, second = set(DIGITS.findall(left)), set(DIGITS.findall(right))
    if first != second and len(first & second) < MIN_SHARED_NUMBERS * len(first | second):
        return True
    a, b, changes = _aligned(left, right, ALIGNED_UNITS)
    replaced = Counter((tuple(a[i1:i2]), tuple(b[j1:j2])) for tag, i1, i2, j1, j2 in changes if tag == "replace")
    return any(count >= 2 and not _is_respelled(*pair) for pair, count in replaced.items())


def _is_respelled(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Whether one word is put for itself, as "per cent" for "percent" or "defence" for "defense": no other name."""
    left, right = "".join(first), "".join(second)
    if min(len(left), len(right)) < 2 or DIGITS.search(left + right):
        return False
    return difflib.SequenceMatcher(None, left, right, autojunk=False).ratio() >= SAME_WORD


def is_one_form(left: str, right: str) -> bool:
    """Whether the two differ in short blanks alone, at the beginning and at the end."""
    for units in (ALIGNED_UNITS, -ALIGNED_UNITS):
        a, b, changes = _aligned(left, right, units)
        shared = len(a) - sum(i2 - i1 for _, i1, i2, _, _ in changes)
        if shared < MIN_SHARED_UNITS * max(len(a), len(b)) or _longest_blank(changes) > MAX_BLANK_UNITS:
            return False
        if max(len(a), len(b)) < ALIGNED_UNITS:  # both are seen whole
            break
    return True


Change = tuple[str, int, int, int, int]  # as difflib has them: tag, begin and end on the left, on the right


def _longest_blank(changes: list[Change]) -> int:
    """Units on the longer side, changes that are next to each other taken as one."""
    longest, begin, end = 0, (0, 0), (-MAX_GAP_UNITS - 1, 0)
    for _, i1, i2, j1, j2 in changes:
        if i1 - end[0] > MAX_GAP_UNITS:
            begin = (i1, j1)
        end = (i2, j2)
        longest = max(longest, end[0] - begin[0], end[1] - begin[1])
    return longest


def _aligned(left: str, right: str, number: int) -> tuple[list[str], list[str], list[Change]]:
    """The first `number` units of both (the last, where it is negative), and where they differ as difflib says it."""
    by_character = minhash.is_unspaced(left)
    part = slice(number) if number > 0 else slice(number, None)
    a, b = (minhash.split_units(form, by_character)[part] for form in (left, right))
    changes = difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    return a, b, [change for change in changes if change[0] != "equal"]
