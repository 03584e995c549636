"""The language-balanced sample."""

from __future__ import annotations

import pytest

from tasks import sampling
from tasks.tokenizer.config import TokenizerConfig
from tasks.tokenizer.sample import Rate, group_of, rates, target_chars

SHARES = TokenizerConfig().language_shares


def flat(chars: int) -> list[int]:
    return [chars // sampling.NUM_SLICES] * sampling.NUM_SLICES


@pytest.mark.parametrize(
    ("language", "group"),
    [("zh-Hans", "zh"), ("zh-Hant", "zh"), ("en", "en"), ("code", "code"), ("ja", "other"), ("und", "other")],
)
def test_languages_fall_into_groups(language, group):
    assert group_of(language, SHARES) == group


def test_a_group_without_text_leaves_its_share_to_the_others():
    targets = target_chars({"zh": 1000, "en": 1000}, TokenizerConfig(sample_chars=800))
    assert targets == pytest.approx({"zh": 450, "en": 350})


def test_scarce_groups_are_repeated_up_to_the_limit():
    chosen = rates({"zh": flat(256_000), "en": flat(51_200), "code": flat(2560)}, TokenizerConfig(max_repeats=3))
    assert chosen["code"] == Rate(times=3, bound=0.0)
    assert chosen["en"].times == 2
    assert chosen["zh"].times == 0 and 0.5 < chosen["zh"].bound < 0.6
    assert chosen["zh"].of(0.1) == 1 and chosen["zh"].of(0.9) == 0


def test_no_text_at_all_is_an_error():
    with pytest.raises(ValueError, match="none of code, en, other, zh has text"):
        target_chars({}, TokenizerConfig())
