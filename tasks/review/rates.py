"""From labels to an error rate per reason, and to how many documents the stage got wrong.

The rate is wrong / (right + wrong); "unsure" is counted apart and decides nothing. Its interval is Wilson's at 95 %,
which stays inside 0..1 and is honest at n = 0 wrong; where every document of a reason is labelled the rate is known
and the interval is a point. Summed over reasons (strata of known size) the estimate is sum(count * rate), with MOVER
limits: the distances of the strata's Wilson limits from their rates, added in squares.

A rate stands for all documents of the reason as long as those labelled were sampled (`danlu review` does; a file made
otherwise may not be). Kept documents shown because they nearly broke a rule are no sample of what was kept: they are
counted apart, and only the "kept" sample gives the miss rate. Documents just below the limit of a duplicate are a
sample of all those (`near.py`): how many of them should have gone is told, what no search brought together is not.

ref   Wilson 1927, J. Am. Stat. Assoc. 22; Zou, Huang & Zhang 2009, Comput. Stat. Data Anal. 53 (MOVER for strata)
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.review import labels as labelling
from tasks.review import near as below
from tasks.review import sample
from tasks.review.labels import RIGHT, UNSURE, WRONG, Label
from tasks.review.sample import CHANGED, KEPT
from tasks.store.dataset import Dataset

Z = 1.959963984540054  # of the normal distribution, 95 % two-sided


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """An estimate and its 95 % limits."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """How often the decisions of one reason were wrong."""

    reason: str
    outcome: str  # dropped, quarantined, kept
    count: int | None  # documents of this reason; None where it was not counted
    labelled: int  # right or wrong
    wrong: int
    unsure: int
    rate: Interval | None  # None: not reviewed
    estimated: Interval | None  # documents decided wrongly, of `count`


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorRates:
    """What the labels of a dataset say."""

    stage: str
    lost: list[Rate]  # per reason, most frequent first, also those not reviewed
    kept: Rate  # the miss rate: kept, and should not have been
    near: list[Rate]  # kept documents that nearly broke a rule, by its reason
    changed: Rate  # kept, and what the stage made of the text
    wrongly_lost: Interval | None  # over all reviewed reasons
    num_not_reviewed: int  # documents lost for reasons without a label
    num_carried: int
    num_left: int

    @property
    def num_labelled(self) -> int:
        return sum(r.labelled + r.unsure for r in (*self.lost, self.kept, *self.near, self.changed))

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def wilson(wrong: int, labelled: int) -> Interval:
    """The rate of `wrong` among `labelled` (above 0) with Wilson's 95 % limits."""
    rate, square = wrong / labelled, Z * Z
    centre = (rate + square / (2 * labelled)) / (1 + square / labelled)
    half = Z * math.sqrt(rate * (1 - rate) / labelled + square / (4 * labelled**2)) / (1 + square / labelled)
    low = 0.0 if wrong == 0 else max(0.0, centre - half)
    return Interval(value=rate, low=low, high=1.0 if wrong == labelled else min(1.0, centre + half))


def total(parts: Iterable[Interval]) -> Interval | None:
    """The sum of independent estimates with MOVER limits; None of none."""
    found = list(parts)
    if not found:
        return None
    value = sum(part.value for part in found)
    below = math.sqrt(sum((part.value - part.low) ** 2 for part in found))
    above = math.sqrt(sum((part.high - part.value) ** 2 for part in found))
    return Interval(value=value, low=max(0.0, value - below), high=value + above)


def rate_of(reason: str, outcome: str, count: int | None, given: Sequence[Label]) -> Rate:
    """The rate that these labels of one reason measure."""
    verdicts = Counter(label.verdict for label in given)
    labelled, wrong = verdicts[RIGHT] + verdicts[WRONG], verdicts[WRONG]
    rate = wilson(wrong, labelled) if labelled else None
    if rate and count is not None and labelled >= count:
        rate = Interval(value=rate.value, low=rate.value, high=rate.value)
    estimated = None
    if rate and count is not None:  # what was seen is certain: at least `wrong` are, and at least those right are not
        low, high = max(rate.low * count, wrong), min(rate.high * count, count - verdicts[RIGHT])
        estimated = Interval(value=rate.value * count, low=low, high=high)
    return Rate(
        reason=reason,
        outcome=outcome,
        count=count,
        labelled=labelled,
        wrong=wrong,
        unsure=verdicts[UNSURE],
        rate=rate,
        estimated=estimated,
    )


def measure(dataset: Dataset) -> ErrorRates:
    """The error rates of a dataset by the labels that hold for it."""
    given = labelling.load(dataset)
    by_reason: defaultdict[str, list[Label]] = defaultdict(list)
    near: defaultdict[str, list[Label]] = defaultdict(list)
    for label in given.by_key.values():
        (near[label.near] if label.near else by_reason[label.reason]).append(label)
    lost = [
        rate_of(reason, outcome, sample.num_rows(files), by_reason[reason])
        for reason, (outcome, files) in sample.reasons_of(dataset).items()
    ]
    num_below = len(below.near_pairs(dataset)) if any(r in below.REASONS.values() for r in near) else None
    num_kept = sample.num_rows(sample.tables_of(dataset))
    return ErrorRates(
        stage=dataset.stage,
        lost=lost,
        kept=rate_of(KEPT, KEPT, num_kept, by_reason[KEPT]),
        near=[rate_of(reason, KEPT, num_below, found) for reason, found in sorted(near.items())],
        changed=rate_of(CHANGED, KEPT, None, by_reason[CHANGED]),
        wrongly_lost=total(rate.estimated for rate in lost if rate.estimated),
        num_not_reviewed=sum(rate.count or 0 for rate in lost if not rate.labelled),
        num_carried=given.num_carried,
        num_left=given.num_left,
    )


def store(dataset: Dataset) -> ErrorRates:
    """Measure, and leave the figures beside the labels as `<dataset key>.rates.json` for other programs."""
    rates = measure(dataset)
    dataset.store.write_json(labelling.file_of(dataset).replace(".jsonl", ".rates.json"), rates.to_json())
    return rates


def percent(rate: Interval | None) -> str:
    """`4.0 % (1.1–13.5)`."""
    return f"{100 * rate.value:.1f} % ({100 * rate.low:.1f}–{100 * rate.high:.1f})" if rate else "not reviewed"


def numbers(estimate: Interval | None) -> str:
    """`12 (3–41)`."""
    return f"{estimate.value:,.0f} ({estimate.low:,.0f}–{estimate.high:,.0f})" if estimate else "–"
