"""Lengths: buckets keep every threshold exact, parts add up, quantiles by hand."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tasks.clean.filter.lengths import EXACT_BELOW, THRESHOLDS, bucket, merge, table


@given(st.lists(st.integers(0, 200_000), min_size=1))
def test_documents_below_each_threshold_are_counted_exactly(lengths):
    found = table({"en": Counter(map(bucket, lengths))})["rows"][1]
    assert found["below"] == [sum(length < limit for length in lengths) for limit in THRESHOLDS]
    assert found["documents"] == len(lengths)


@given(st.integers(0, 10**9))
def test_bucket_is_exact_for_short_texts_and_a_tenth_too_small_at_most_for_long_ones(length):
    assert bucket(length) == length if length <= EXACT_BELOW else 0.9 * length < bucket(length) <= length


def test_parts_add_up_also_after_json():
    parts = [{"en": {20: 1, 90: 2}}, {"en": {90: 1}, "zh-Hans": {7: 4}}]
    total = merge(json.loads(json.dumps(parts)))
    assert total == {"en": {20: 1, 90: 3}, "zh-Hans": {7: 4}}
    assert [row["language"] for row in table(total)["rows"]] == ["all", "en", "zh-Hans"]


def test_quantiles_by_hand():
    found = table({"en": Counter(range(1, 101))})["rows"][1]
    assert found["quantiles"] == [5, 25, 50, 75, 95]


def test_no_documents_make_no_rows():
    assert table({})["rows"] == []
