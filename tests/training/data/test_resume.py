"""The stream of documents is one, whoever reads it in however many pieces; and it is the schedule's."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.data.config import (
    ChangeConfig,
    ComponentConfig,
    CurriculumConfig,
    DataConfig,
    PhaseConfig,
    SkipConfig,
)

COMPONENTS = {
    "general": ComponentConfig(languages=("en",)),
    "domain": ComponentConfig(sources=("law*",)),
    "code": ComponentConfig(),
}


def mixture(**changes) -> DataConfig:
    """Shares of 70, 20 and 10 % for 100 steps, a ramp over 200, then half general and half domain; and `changes`."""
    first = {"general": 0.7, "domain": 0.2, "code": 0.1}
    last = {"general": 0.5, "domain": 0.5}
    phases = (PhaseConfig(steps=100, shares=first), PhaseConfig(steps=200, shares=first, end_shares=last))
    return DataConfig(**({"components": COMPONENTS, "phases": (*phases, PhaseConfig(shares=last))} | changes))


SEQ_LEN = 8
LENGTH = 2400  # samples: 200 steps of 12, several epochs of the smaller components
OTHER = (PhaseConfig(steps=50, shares={"code": 1.0}), PhaseConfig(shares={"general": 0.4, "domain": 0.6}))
CONFIGS = {
    "no mixture": DataConfig(),
    "a mixture": mixture(),
    "a changed mixture": mixture(changes=(ChangeConfig(from_step=61, phases=OTHER),)),
    "skips": mixture(
        skip=(
            SkipConfig(documents=("a3", "a4", "b100", "b17"), from_step=33),
            SkipConfig(steps=(40, 55)),
            SkipConfig(documents=("b7",)),
        )
    ),
    "a curriculum": mixture(curriculum=CurriculumConfig(fraction=0.3)),
    "all of it": mixture(
        changes=(ChangeConfig(from_step=61, phases=OTHER),),
        skip=(
            SkipConfig(documents=("a3", "b100"), from_step=70),
            SkipConfig(steps=(40, 55)),
            SkipConfig(steps=(40, 43)),
        ),
        curriculum=CurriculumConfig(fraction=0.5),
    ),
}


@st.composite
def readings(draw):
    """(global batch, world size, micro batch) of stretches that add up to LENGTH samples, a restart at each."""
    ends = sorted(draw(st.sets(st.integers(1, LENGTH // 12 - 1), max_size=5)))
    stretches = []
    for begin, end in itertools.pairwise([0, *ends, LENGTH // 12]):
        world_size = draw(st.sampled_from([1, 2, 3, 4, 6, 12]))
        share = 12 * (end - begin) // world_size
        micro_batch_size = draw(st.sampled_from([1, 12 // world_size, share]))
        stretches.append((12 * (end - begin), world_size, micro_batch_size))
    return stretches


@pytest.mark.parametrize("name", CONFIGS)
def test_any_world_size_micro_batch_and_restarts_give_the_uninterrupted_stream(open_mixed, name):
    whole = open_mixed(CONFIGS[name], num_steps=200)
    straight = np.stack([whole.sample(i) for i in range(LENGTH)])

    @settings(max_examples=20, deadline=None, derandomize=True)
    @given(readings())
    def check(stretches):
        consumed, pieces = 0, []
        for global_batch_size, world_size, micro_batch_size in stretches:
            data = open_mixed(CONFIGS[name], num_steps=200)  # a restart
            for rank in range(world_size):
                share = data.batch_at(consumed, global_batch_size, rank, world_size, micro_batch_size)
                pieces.append(share.reshape(-1, SEQ_LEN + 1))
            consumed += global_batch_size
        assert np.array_equal(np.concatenate(pieces), straight)

    check()


@pytest.mark.parametrize("name", ["no mixture", "a mixture", "a changed mixture", "a curriculum"])
def test_no_sample_of_a_component_is_repeated_or_lost_within_an_epoch(open_mixed, name):
    data = open_mixed(CONFIGS[name], num_steps=200)
    components, sequences = data.sequences_at(np.arange(6000))
    for c, stream in enumerate(data.streams):
        drawn = sequences[components == c]
        assert len(drawn) > stream.num_samples
        for epoch in range(len(drawn) // stream.num_samples):
            one = drawn[epoch * stream.num_samples : (epoch + 1) * stream.num_samples]
            assert np.array_equal(np.sort(one), np.arange(stream.num_samples))


def test_the_samples_of_a_component_are_its_own_documents_and_spell_their_tokens(open_mixed):
    data = open_mixed(mixture())
    where = {}
    for reader in data.readers:
        where |= {f"{reader.bin_path.stem}{i}": reader[i] for i in range(len(reader))}
    for index in range(0, 2000, 7):
        spans = data.documents_of(index)
        assert np.array_equal(np.concatenate([where[s.id][s.start : s.stop] for s in spans]), data.sample(index))
        expected = {"en": "general", "zh": "domain", "code": "code"}
        assert {expected[s.language] for s in spans} == {data.component_of(index)}


@pytest.mark.parametrize("name", CONFIGS)
def test_samples_of_a_document_are_those_that_name_it(open_mixed, name):
    data = open_mixed(CONFIGS[name], num_steps=200)
    named: dict[str, list[int]] = {}
    for index in range(LENGTH):
        for id in {span.id for span in data.documents_of(index)}:
            named.setdefault(id, []).append(index)
    for id in ["a3", "b100", "b7", "a4", *sorted(named)[::40]]:
        assert data.samples_of(id, stop=LENGTH) == named.get(id, [])


def test_the_realised_mixture_is_within_one_percent_of_the_schedule_over_ten_thousand_sequences(open_mixed):
    first, last = {"general": 0.65, "domain": 0.25, "code": 0.10}, {"general": 0.45, "domain": 0.45, "code": 0.10}
    ramp = PhaseConfig(tokens=30_000 * SEQ_LEN, shares=first, end_shares=last)
    phases = (PhaseConfig(tokens=20_000 * SEQ_LEN, shares=first), ramp, PhaseConfig(shares=last))
    data = open_mixed(DataConfig(components=COMPONENTS, phases=phases))
    components, _ = data.schedule.locate(np.arange(70_000))

    def promised(n: int, name: str) -> float:
        """Sequences of a component in the first n, worked out by hand."""
        constant, rising = min(n, 20_000), min(max(n - 20_000, 0), 30_000)
        slope = (last[name] - first[name]) / 30_000
        tail = max(n - 50_000, 0)
        return first[name] * (constant + rising) + slope * rising**2 / 2 + last[name] * tail

    for c, name in enumerate(data.schedule.names):
        for start in range(0, 60_001, 777):
            got = np.count_nonzero(components[start : start + 10_000] == c)
            assert got == pytest.approx(promised(start + 10_000, name) - promised(start, name), rel=0.01)


def test_neighbours_are_no_more_alike_than_after_a_true_shuffle(open_mixed):
    """Lag-1 correlation of the place in the text, and how often neighbours share a document."""
    data = open_mixed(DataConfig())
    n = data.samples_per_epoch
    places = data.sequences_at(np.arange(n))[1]
    ids = [{span.id for span in data.documents_of(i)} for i in range(n)]
    by_place = dict(zip(places.tolist(), ids, strict=True))
    rng = np.random.default_rng(0)

    def figures(order):
        shared = sum(bool(by_place[a] & by_place[b]) for a, b in itertools.pairwise(order))
        return np.corrcoef(order[:-1], order[1:])[0, 1], shared

    shuffles = np.array([figures(rng.permutation(n).tolist()) for _ in range(200)])
    correlation, shared = figures(places.tolist())
    mean, deviation = shuffles.mean(axis=0), shuffles.std(axis=0)
    assert abs(correlation - mean[0]) < 3 * deviation[0]
    assert shared <= mean[1] + 3 * deviation[1]


def test_neighbouring_components_are_no_more_alike_than_after_a_true_shuffle(open_mixed):
    data = open_mixed(mixture(phases=(PhaseConfig(shares={"general": 0.7, "domain": 0.2, "code": 0.1}),)))
    components, _ = data.schedule.locate(np.arange(20_480))
    rng, n = np.random.default_rng(0), len(components)
    runs = [np.count_nonzero(np.diff(rng.permutation(components)) == 0) for _ in range(100)]
    same = np.count_nonzero(np.diff(components) == 0)
    assert abs(same - np.mean(runs)) < 3 * np.std(runs) + n * 0.001  # blocks are without replacement


def test_a_change_leaves_all_before_it_and_the_cursors_after_it(open_mixed):
    plain, changed = (open_mixed(CONFIGS[name]) for name in ("a mixture", "a changed mixture"))
    at = 61 * 12
    assert np.array_equal(plain.samples(np.arange(at)), changed.samples(np.arange(at)))
    after = changed.schedule.locate(np.arange(at, at + 600))[0]
    assert Counter(after.tolist()) == {2: 600}, "50 steps of code alone"
    _, cursors = changed.schedule.locate(np.arange(at, at + 10))
    assert cursors.min() == plain.schedule.counts(at)[2], "code goes on where it was"
    assert plain.schedule.same_until(changed.schedule, at)
    assert not plain.schedule.same_until(changed.schedule, at + 1)


def test_what_is_skipped_is_read_no_more_and_the_next_of_its_component_takes_its_place(open_mixed):
    plain, skipping = (open_mixed(CONFIGS[name]) for name in ("a mixture", "skips"))
    seen = {id: skipping.samples_of(id, stop=LENGTH) for id in ("a3", "a4", "b100", "b17", "b7")}
    assert seen.pop("b7") == []
    assert any(plain.samples_of(id, stop=LENGTH)[-1] >= 33 * 12 for id in seen)
    assert all(sample < 33 * 12 for samples in seen.values() for sample in samples)
    a, b = (data.schedule.locate(np.arange(LENGTH))[0] for data in (plain, skipping))
    assert np.array_equal(a, b), "the components stay as they were"
    jumped = open_mixed(mixture(skip=(SkipConfig(steps=(40, 55)),)))
    assert np.array_equal(jumped.samples(np.arange(40 * 12)), plain.samples(np.arange(40 * 12)))
    for c in range(3):  # each component leaves out what it would have drawn in these steps
        first, stop = plain.schedule.counts(40 * 12)[c], plain.schedule.counts(55 * 12)[c]
        assert jumped.streams[c].raw_of(first) == stop
