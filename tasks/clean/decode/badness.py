"""ftfy's test for mojibake, at a tenth of its time, with the same answer.

ftfy tries some forty alternatives at every character. Each of them needs two neighbouring characters beyond ASCII, one
of a kind that mojibake leaves, or one that is telling alone; none is longer than seven characters. So one cheap search
finds where a match can lie at all, and ftfy looks at those places only. Good text has hardly any. A test takes
ftfy's pattern apart and proves the claim for the installed version.

in    str
out   bool, always that of `ftfy.badness.is_bad`
ref   ftfy (R. Speer), https://ftfy.readthedocs.io, module badness
"""

from __future__ import annotations

import re

from ftfy.badness import MOJIBAKE_CATEGORIES, is_bad

LONGEST_MATCH = 7
ALONE = "\x80-\x9fŒœÃÂЂ"
PAIRED = "‚Ù" + "".join(
    MOJIBAKE_CATEGORIES[name]
    for name in ("bad", "law", "currency", "numeric", "upper_accented", "lower_accented", "box")
)
WIDE = "\x80-\u2e7f\uf8ff\ufb01\ufb02\ufffd"  # all that ftfy's categories hold lies here
SUSPECT = re.compile(
    f"[{WIDE}](?:(?<=[{ALONE}])|(?<=[{PAIRED}])[{WIDE}]|[{PAIRED}]|(?<=[ВГРСΒΓΞΟ])[^\0-\x7f\u0386-\u04ff])"
)


def looks_bad(text: str) -> bool:
    """Whether `text` has a sequence of characters that mojibake leaves and that writers do not."""
    if text.isascii():
        return False
    start = end = 0  # of the stretch that is still to be looked at
    for found in SUSPECT.finditer(text):
        if found.start() - end >= LONGEST_MATCH:
            if end and is_bad(text[start:end]):
                return True
            start = max(0, found.start() - LONGEST_MATCH)
        end = found.end() + LONGEST_MATCH
    return end > 0 and is_bad(text[start:end])
