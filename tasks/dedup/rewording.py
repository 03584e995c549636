"""Is a pair of texts, alike to an encoder, one text in other words? Or two in one frame, or one form filled twice?

An encoder sees a few hundred characters. Two pages of one site share their head, two company profiles differ in name
and address alone; both are near 1 in cosine and are no duplicates. So a pair must also agree

    in every segment      head, middle and end, each above the encoder's threshold
    in length             within `min_length_ratio`
    in words              Jaccard of their words (characters in unspaced scripts) at least `min_overlap`
    and be no template    the same form with other numbers, or with one name put for another again and again
"""

from __future__ import annotations

import difflib
import re
from collections import Counter

from kernels import minhash

DIGITS = re.compile(r"\d+")
ALIGNED_UNITS = 600  # the diff is quadratic at worst: 600 units take about 30 ms
MIN_SHARED_NUMBERS = 0.9


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
    by_character = minhash.is_unspaced(left)
    a, b = (minhash.split_units(form, by_character)[:ALIGNED_UNITS] for form in (left, right))
    replaced = Counter(
        (tuple(a[i1:i2]), tuple(b[j1:j2]))
        for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
        if tag == "replace"
    )
    return any(count >= 2 for count in replaced.values())
