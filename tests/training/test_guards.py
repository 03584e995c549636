"""Guards over batches: real code passes, each planted fault is found at its place."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.guards import Finding, GuardConfig, Vocabulary, check, entropy_bits, vocabulary

SIZE, LENGTH = 2000, 257
FALLBACK = range(4, 260)


@pytest.fixture(scope="module")
def text() -> np.ndarray:
    """Python's own library by words, the frequent ones first: ids from 260 on."""
    words = "".join(Path(json.__file__).with_name(n).read_text("utf-8") for n in ("decoder.py", "encoder.py")).split()
    names, inverse, counts = np.unique(words, return_inverse=True, return_counts=True)
    rank = np.empty(len(names), np.int32)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(names))
    return 260 + rank[inverse].astype(np.int32)


@pytest.fixture(scope="module")
def known(text) -> Vocabulary:
    return vocabulary(SIZE, [0, *FALLBACK], lambda start, stop: text[start:stop], len(text))


@pytest.fixture
def batch(text) -> np.ndarray:
    return text[: 4 * LENGTH].reshape(4, LENGTH).copy()


def reasons(findings: list[Finding]) -> list[tuple[int, str]]:
    return [(finding.sample, finding.reason) for finding in findings]


def test_ordinary_text_passes(batch, known):
    assert check(batch, GuardConfig(), known) == []


def test_ids_outside_the_vocabulary_are_found_at_their_place(batch, known):
    batch[1, 7], batch[2, 0], batch[2, 9] = SIZE, -1, 2**31 - 1
    found = check(batch, GuardConfig(), known)
    assert reasons(found) == [(1, "out_of_range"), (2, "out_of_range")]
    assert [(f.start, f.stop, f.value) for f in found] == [(7, 8, 1), (0, 10, 2)]


@pytest.mark.parametrize("period", [1, 2, 7, 16])
def test_a_long_repetition_is_found_with_its_period_and_place(batch, known, period):
    batch[3, 50:230] = np.resize(np.unique(batch)[-period:], 180)
    [found] = [f for f in check(batch, GuardConfig(), known) if f.reason == "repetition"]
    assert (found.sample, found.period, found.start, found.stop) == (3, period, 50, 230)
    assert found.value == 180 - period


def test_a_sample_of_few_tokens_in_random_order_has_low_entropy(batch, known):
    batch[0] = np.random.default_rng(0).choice(np.unique(batch)[:4], LENGTH)
    [found] = check(batch, GuardConfig(), known)
    assert (found.sample, found.reason) == (0, "low_entropy") and 1.8 < found.value < 2


def test_byte_pieces_alone_are_found(batch, known):
    batch[2] = np.random.default_rng(0).choice(FALLBACK, LENGTH)
    assert (2, "fallback") in reasons(check(batch, GuardConfig(), known))


def test_ids_drawn_at_random_surprise(batch, known):
    batch[1] = np.random.default_rng(0).integers(260, SIZE, LENGTH)
    assert reasons(check(batch, GuardConfig(), known)) == [(1, "surprise")]


def test_without_a_corpus_surprise_is_not_judged(batch):
    batch[1] = np.random.default_rng(0).integers(260, SIZE, LENGTH)
    assert check(batch, GuardConfig(), vocabulary(SIZE)) == []


def test_padding_is_not_judged(batch, text):
    padded = vocabulary(SIZE, FALLBACK, lambda start, stop: text[start:stop], len(text), pad_id=3)
    batch[0, 100:], batch[1, 10:], batch[2, :] = 3, 3, 3
    assert check(batch, GuardConfig(), padded) == []
    batch[0, :100] = batch[0, 0]
    assert reasons(check(batch, GuardConfig(max_repeated_tokens=64), padded)) == [(0, "repetition"), (0, "low_entropy")]


def test_each_guard_can_be_switched_off(known):
    off = GuardConfig(
        max_repeated_tokens=None, max_repeated_share=None, min_entropy_bits=None, max_fallback_share=None,
        max_surprise=None,
    )  # fmt: skip
    assert check(np.full((1, LENGTH), 5, np.int32), off, known) == []


def test_micro_batches_are_counted_in_one_row(batch, known):
    batch[3, 5] = -7
    assert check(batch.reshape(2, 2, LENGTH), GuardConfig(), known)[0].sample == 3


def test_a_finding_can_be_written_as_json(batch, known):
    batch[0] = 5
    rows = [json.loads(json.dumps(asdict(finding))) for finding in check(batch, GuardConfig(), known)]
    assert {row["reason"] for row in rows} >= {"repetition", "low_entropy", "fallback"}


@given(st.lists(st.lists(st.integers(0, 9), min_size=20, max_size=20), min_size=1, max_size=4))
def test_entropy_is_that_of_the_counts(rows):
    batch = np.array(rows, dtype=np.int32)
    shares = [np.unique(row, return_counts=True)[1] / 20 for row in rows]
    expected = [-(share * np.log2(share)).sum() for share in shares]
    assert entropy_bits(batch, np.ones(batch.shape, bool), np.full(len(rows), 20)) == pytest.approx(expected)


@given(st.lists(st.integers(0, 1), min_size=30, max_size=60), st.integers(2, 12), st.integers(1, 5), st.integers(1, 4))
def test_the_longest_repetition_is_what_looking_at_every_token_finds(ids, limit, max_period, step):
    row = np.repeat(np.array(ids, np.int32), step)
    config = GuardConfig(max_period=max_period, max_repeated_tokens=limit, max_repeated_share=None, min_entropy_bits=0)
    longest = 0
    for period in range(1, max_period + 1):
        run = 0
        for i in range(period, len(row)):
            run = run + 1 if row[i] == row[i - period] else 0
            longest = max(longest, run)
    found = [f.value for f in check(row[None], config, vocabulary(2)) if f.reason == "repetition"]
    assert found == ([longest] if longest > limit else [])


@given(st.integers(1, 6), st.randoms(use_true_random=False))
def test_a_sample_is_judged_alone(position, random):
    rng = np.random.default_rng(random.randrange(2**32))
    rows = rng.integers(-1, 40, (8, 129)).astype(np.int32)
    rows[position] = np.resize(rows[position, :3], 129)
    known, config = vocabulary(38, [0]), GuardConfig(min_entropy_bits=5.0)
    together = check(rows, config, known)
    alone = [(i, f.reason, f.value, f.start) for i, row in enumerate(rows) for f in check(row[None], config, known)]
    assert [(f.sample, f.reason, f.value, f.start) for f in together] == alone


@pytest.mark.parametrize(
    "values", [{"max_period": 0}, {"max_repeated_tokens": 1}, {"max_surprise": 1.5}, {"min_entropy_bits": -1}]
)
def test_a_threshold_that_makes_no_sense_is_refused(values):
    with pytest.raises(ValueError, match=f"{next(iter(values))}: expected"):
        GuardConfig(**values)
