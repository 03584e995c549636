"""The split of a text: stable, of the wanted size, and mostly the same for texts that resemble it."""

from __future__ import annotations

import random
import string

import numpy as np
import pyarrow as pa
import pytest

from tasks.shards.files import VALIDATION
from tasks.shards.splits import ShardsConfig, draws, signatures, split_of

WORDS = ["".join(random.Random(i).choices(string.ascii_lowercase, k=7)) for i in range(5000)]


def text_of(generator: random.Random, number: int = 120) -> list[str]:
    return generator.choices(WORDS, k=number)


def draws_of(texts: list[str], seed: int = 0) -> np.ndarray:
    column = pa.array(texts, pa.large_string())
    return draws(column, *signatures(column), seed)


def test_a_higher_fraction_moves_texts_to_validation_and_never_back():
    few, more = ShardsConfig(validation_fraction=0.1), ShardsConfig(validation_fraction=0.3)
    texts = [f"document {i}" for i in range(100)] + [" ".join(text_of(random.Random(i), 20)) for i in range(100)]
    first, second = ({t for t in texts if split_of(t, c) == VALIDATION} for c in (few, more))
    assert first and first < second


@pytest.mark.parametrize("number", [2, 120])  # too short for a shingle, and long
def test_draws_are_uniform(number):
    drawn = draws_of([" ".join(text_of(random.Random(i), number)) for i in range(4000)])
    assert np.histogram(drawn, 10, (0, 1))[0] == pytest.approx([400] * 10, abs=90)


def test_another_seed_is_another_split():
    texts = [" ".join(text_of(random.Random(i))) for i in range(1000)]
    assert abs(np.corrcoef(draws_of(texts), draws_of(texts, seed=1))[0, 1]) < 0.1


def test_layout_and_script_do_not_change_the_draw():
    assert (
        len(
            set(
                draws_of(
                    ["四書五經，是為經典之學問也。", "四书五经，是为经典之学问也。", "四书五经，\n是为经典之 学问也。"]
                )
            )
        )
        == 1
    )


def test_texts_of_jaccard_j_share_their_draw_with_probability_j():
    generator, same = random.Random(3), 0
    for _ in range(400):
        words = text_of(generator, 124)
        other = words[:90] + text_of(generator, 34)  # 86 of 154 distinct shingles: Jaccard 0.56
        first, second = draws_of([" ".join(words), " ".join(other)])
        same += first == second
    assert same / 400 == pytest.approx(0.56, abs=0.08)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"validation_fraction": 1.0}, "validation_fraction: expected 0 to below 1"),
        ({"validation_max_jaccard": 0.1}, "validation_max_jaccard: expected 0.3 to 1"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ShardsConfig(**settings)
