"""The rule that recommends a size, on rows by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.tokenizer.recommend import Rule, gain_per_doubling, recommend


def row(size: int, tokens: int, zh: float, sample: str = "0", status: str = "measured") -> dict[str, Any]:
    memory = {"fp32": size * 4096, "bf16": size * 2048}
    groups = {"zh": {"byte_fallback_rate": zh}, "en": {"byte_fallback_rate": 0.0}}
    return {
        "size": size, "num_tokens": tokens, "groups": groups, "sample": sample, "status": status,
        "embedding_bytes": memory,
    }  # fmt: skip


ROWS = [row(8000, 1000, 0.02), row(16_000, 900, 0.001), row(32_000, 850, 0.0003), row(64_000, 835, 0.0001)]


def test_the_smallest_size_whose_next_step_is_not_worth_it():
    found = recommend(ROWS, Rule())
    assert found["size"] == 32_000
    assert found["reason"].startswith("64,000 would save only 1.8 % of the tokens per doubling")
    assert "zh has 0.030 % in bytes (bound 0.05 %)" in found["reason"]


def test_too_many_characters_in_bytes_rule_a_size_out():
    assert recommend(ROWS, Rule(min_gain_per_doubling=0.2))["size"] == 32_000
    assert recommend(ROWS, Rule(min_gain_per_doubling=0.2, max_byte_fallback={"zh": 0.05}))["size"] == 8000


def test_an_embedding_that_is_too_large_rules_a_size_out():
    found = recommend(ROWS, Rule(max_embedding_bytes=17_000 * 2048))
    assert found["size"] == 16_000 and "misses the bound" in found["reason"]


def test_a_size_that_the_sample_cannot_fill_by_its_shares_is_ruled_out():
    shares = {"en": {"share": 0.21, "target": 0.35}, "zh": {"share": 0.79, "target": 0.65}}
    rows = [*ROWS[:3], ROWS[3] | {"vocabulary": shares}]
    found = recommend(rows, Rule(min_gain_per_doubling=0.01))
    assert found["size"] == 32_000
    assert found["reason"].startswith("the largest that has its shares of the languages (64,000 needs a larger sample)")
    assert recommend(rows, Rule(min_gain_per_doubling=0.01, max_share_error=0.2))["size"] == 64_000


def test_the_largest_is_taken_where_every_step_is_worth_it():
    assert recommend(ROWS, Rule(min_gain_per_doubling=0.01))["size"] == 64_000


def test_a_step_of_half_a_doubling_is_scaled_to_a_whole_one():
    assert gain_per_doubling(row(10_000, 1000, 0), row(40_000, 810, 0)) == pytest.approx(0.1)


def test_samples_are_judged_apart():
    other = [row(8000, 1010, 0.02, "1"), row(16_000, 909, 0.0001, "1"), row(32_000, 900, 0.0001, "1")]
    found = recommend([*ROWS[:3], *other], Rule())
    assert found["by_sample"] == {"0": 32_000, "1": 16_000} and found["samples_agree"] is False


def test_sizes_that_could_not_be_fitted_are_left_out():
    small = row(128_000, 1, 0.0, status="too_small")
    assert recommend([*ROWS, small], Rule())["size"] == 32_000
    assert recommend([small], Rule())["size"] is None


def test_a_threshold_that_means_nothing_is_refused():
    with pytest.raises(ValueError, match="min_gain_per_doubling"):
        Rule(min_gain_per_doubling=3)
