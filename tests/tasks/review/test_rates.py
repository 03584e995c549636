"""Error rates against values worked out elsewhere, and what they add up to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.review import beside, labels, rates
from tasks.review.labels import Label
from tasks.review.rates import Interval, rate_of, total, wilson
from tasks.store.dataset import Dataset


@pytest.mark.parametrize(
    ("wrong", "labelled", "low", "high"),
    [  # Newcombe 1998, Statist. Med. 17, 857–872, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_limits_are_the_published_ones(wrong: int, labelled: int, low: float, high: float) -> None:
    found = wilson(wrong, labelled)
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_rate_lies_between_its_limits(pair: tuple[int, int]) -> None:
    found, mirrored = wilson(*pair), wilson(pair[1] - pair[0], pair[1])
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low == pytest.approx(1 - mirrored.high)


def given_labels(**verdicts: int) -> list[Label]:
    return [
        Label(id=f"{verdict}{n}", stage="filter", reason="r", verdict=verdict)
        for verdict, count in verdicts.items()
        for n in range(count)
    ]


def test_unsure_decides_nothing() -> None:
    rate = rate_of("r", "dropped", 1000, given_labels(right=15, wrong=5, unsure=30))
    assert (rate.labelled, rate.wrong, rate.unsure) == (20, 5, 30)
    assert rate.rate.value == 0.25 and rate.estimated.value == 250


def test_without_a_verdict_there_is_no_rate() -> None:
    rate = rate_of("r", "dropped", 1000, given_labels(unsure=3))
    assert rate.rate is None and rate.estimated is None


def test_a_reason_labelled_whole_is_known_exactly() -> None:
    rate = rate_of("r", "dropped", 8, given_labels(right=6, wrong=2))
    assert rate.rate == Interval(value=0.25, low=0.25, high=0.25)
    assert rate.estimated == Interval(value=2, low=2, high=2)


def test_an_estimate_never_denies_what_was_seen() -> None:
    rate = rate_of("r", "dropped", 12, given_labels(right=1, wrong=9))
    assert rate.estimated.low >= 9 and rate.estimated.high <= 11


def test_strata_add_up_with_errors_in_squares() -> None:
    found = total([Interval(value=10, low=7, high=14), Interval(value=20, low=16, high=23)])
    assert found == Interval(value=30, low=25, high=35)
    assert total([]) is None


def test_labels_become_rates_per_reason_and_near_misses_are_no_miss_rate(own_chain: dict[str, Dataset]) -> None:
    dataset = own_chain["filter"]
    groups = {group.reason: group.cases for group in beside.collect(dataset, number=5)}
    given = [
        Label(id=case.record.id, stage="filter", reason="too_short", verdict="wrong" if n < 2 else "right")
        for n, case in enumerate(groups["too_short"])
    ]
    given += [Label(id=case.record.id, stage="filter", reason="kept", verdict="right") for case in groups["kept"]]
    near = groups["repeated_ngram"][0].beside.id
    given.append(Label(id=near, stage="filter", reason="kept", near="repeated_ngram", verdict="wrong"))
    labels.add(dataset, given)
    found = rates.measure(dataset)
    by_reason = {rate.reason: rate for rate in found.lost}
    assert (by_reason["too_short"].labelled, by_reason["too_short"].wrong, by_reason["too_short"].count) == (5, 2, 10)
    assert found.wrongly_lost.value == pytest.approx(4)
    assert found.num_not_reviewed == dataset.manifest.account.total().dropped.total() - 10
    assert (found.kept.labelled, found.kept.wrong) == (5, 0)
    assert [(rate.reason, rate.wrong) for rate in found.near] == [("repeated_ngram", 1)]
