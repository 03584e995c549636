"""How long documents are, per language, and what each least length would drop.

Lengths are counted in buckets: exact up to 1,000 characters, above it to two significant digits, so that a part's
counts stay small and parts add up. A least length that is a bucket's edge (all of THRESHOLDS) has an exact answer;
quantiles above 1,000 are at most a tenth too small.

in    characters and language of each document that reaches the filter
out   per language: documents, quantiles, documents below each threshold
ref   field report 000: 95 % of useful samples have 78 characters or more
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

EXACT_BELOW = 1000
THRESHOLDS = (20, 40, 60, 80, 100, 150, 200, 300, 500, 1000, 2000, 5000)
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
ALL = "all"

Histograms = dict[str, Counter[int]]  # language -> characters (the lower edge of the bucket) -> documents


def bucket(num_chars: int) -> int:
    """The lower edge of the bucket that a length lies in."""
    if num_chars <= EXACT_BELOW:
        return num_chars
    step = 10 ** (len(str(num_chars)) - 2)
    return num_chars // step * step


def merge(parts: Iterable[Mapping[str, Mapping[Any, int]]]) -> Histograms:
    """The sum of the parts' histograms; their lengths may be text, as JSON has them."""
    total: Histograms = {}
    for part in parts:
        for language, counts in part.items():
            total.setdefault(language, Counter()).update({int(length): n for length, n in counts.items()})
    return total


def table(histograms: Mapping[str, Counter[int]]) -> dict[str, Any]:
    """Rows by language, most documents first, after one for all: what is stored and shown."""
    together = sum(histograms.values(), Counter())
    named = sorted(histograms.items(), key=lambda item: (-item[1].total(), item[0]))
    rows = [row(name, counts) for name, counts in [(ALL, together), *named] if counts]
    return {"thresholds": list(THRESHOLDS), "quantiles": list(QUANTILES), "rows": rows}


def row(language: str, counts: Counter[int]) -> dict[str, Any]:
    """One language: documents, the length at each of QUANTILES, and documents below each of THRESHOLDS."""
    ordered = sorted(counts.items())
    return {
        "language": language,
        "documents": counts.total(),
        "quantiles": [quantile(ordered, q) for q in QUANTILES],
        "below": [sum(n for length, n in ordered if length < threshold) for threshold in THRESHOLDS],
    }


def quantile(ordered: list[tuple[int, int]], q: float) -> int:
    """The length that a share `q` of the documents do not exceed (the lower of two)."""
    target, seen = q * sum(n for _, n in ordered), 0
    for length, n in ordered:
        seen += n
        if seen >= target:
            return length
    raise ValueError("no documents, so no quantile")
