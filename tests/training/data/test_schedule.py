"""Shares to counts: never a sequence off, exact in both directions, and refused when they make no sense."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.settings import ConfigError, from_dict
from training.config import TrainConfig
from training.data.config import ChangeConfig, ComponentConfig, DataConfig, PhaseConfig
from training.data.schedule import BLOCK, Schedule, apportion

NAMES = ("a", "b", "c", "d", "e")


def schedule(*phases: PhaseConfig, **changes) -> Schedule:
    components = {name: ComponentConfig(sources=(name,)) for name in NAMES}
    config = DataConfig(components=components, phases=phases, **changes)
    return Schedule(config, global_batch_size=10, seq_len=4, key=b"k")


@st.composite
def shares(draw):
    weights = draw(st.lists(st.integers(0, 1000), min_size=5, max_size=5).filter(sum))
    return {name: weight / sum(weights) for name, weight in zip(NAMES, weights, strict=True)}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(shares(), shares(), st.integers(1, 400))
def test_counts_at_block_ends_are_within_two_of_the_schedule_whatever_the_ramp(first, last, steps):
    made = schedule(PhaseConfig(steps=steps, shares=first, end_shares=last), PhaseConfig(shares=last))
    length = steps * 10
    components, cursors = made.locate(np.arange(length))
    counts = np.zeros(5, np.int64)
    for n in range(1, length + 1):
        assert cursors[n - 1] == counts[components[n - 1]]
        counts[components[n - 1]] += 1
        if n % BLOCK == 0 or n == length:
            for c, name in enumerate(NAMES):
                promised = first[name] * n + (last[name] - first[name]) * n * n / (2 * length)
                assert abs(counts[c] - promised) < 2


@settings(max_examples=20, deadline=None, derandomize=True)
@given(shares(), shares(), st.integers(0, 4999))
def test_a_sample_is_found_again_from_its_component_and_cursor(first, last, index):
    change = ChangeConfig(from_step=123, phases=(PhaseConfig(shares=last),))
    made = schedule(PhaseConfig(shares=first), changes=(change,))
    [component], [cursor] = made.locate(np.array([index]))
    assert made.index_of(int(component), int(cursor), 5000) == index
    assert made.index_of(int(component), int(cursor), index) is None
    assert np.array_equal(made.counts(index), np.bincount(made.locate(np.arange(index))[0], minlength=5))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(shares(), st.lists(st.floats(-1, 1), min_size=5, max_size=5), st.integers(1, BLOCK))
def test_a_block_is_divided_without_rest_even_when_some_are_ahead(share, ahead, size):
    given_to = apportion(size, [s * size - a for s, a in zip(share.values(), ahead, strict=True)], [0] * 5)
    assert sum(given_to) == size
    assert min(given_to) >= 0


def test_far_along_a_long_run_is_reached_at_once_and_agrees_with_the_shares():
    made = schedule(PhaseConfig(shares={"a": 0.65, "b": 0.25, "c": 0.1}))
    n = 3_000_000
    assert made.counts(n).tolist() == pytest.approx([0.65 * n, 0.25 * n, 0.1 * n, 0, 0], abs=20)


def test_a_new_domain_goes_from_ten_to_thirty_percent():
    start, end = {"a": 0.9, "b": 0.1}, {"a": 0.7, "b": 0.3}
    made = schedule(PhaseConfig(tokens=20_000 * 4, shares=start, end_shares=end))
    components, _ = made.locate(np.arange(40_000))
    windows = [np.mean(components[i : i + 2000] == 1) for i in (0, 9000, 18_000, 30_000)]
    assert windows == pytest.approx([0.11, 0.20, 0.29, 0.30], abs=0.005)


def test_components_named_general_domain_and_code_have_the_reports_shares():
    components = {name: ComponentConfig(sources=(name,)) for name in ("general", "domain", "code")}
    made = Schedule(DataConfig(components=components), global_batch_size=1, seq_len=4, key=b"")
    assert made.counts(10_000).tolist() == pytest.approx([6500, 2500, 1000], abs=10)


REFUSED = [
    ({"phases": [{"shares": {"a": 0.5, "b": 0.4}}]}, r"phases\[0\]: shares: expected shares that add up to 1"),
    ({"phases": [{"shares": {"x": 1.0}}]}, "names of components"),
    ({"phases": [{"shares": {"a": 1.0}, "end_shares": {"b": 1.0}}]}, "say how long the ramp is"),
    ({"phases": [{"shares": {"a": 1.0}}, {"shares": {"b": 1.0}}]}, "every phase but the last"),
    ({"phases": [{"shares": {"a": 1.0}, "steps": 1, "tokens": 1}]}, "steps or tokens, not both"),
    ({}, "only components named general, domain, code have default shares"),
    ({"phases": [{"shares": {"a": 1.0}}], "skip": [{"documents": ["x"], "steps": [1, 2]}]}, "make two entries"),
    ({"phases": [{"shares": {"a": 1.0}}], "skip": [{"steps": [2, 2]}]}, "0 <= first < stop"),
    ({"phases": [{"shares": {"a": 1.0}}], "changes": [{"from_step": 0, "phases": []}]}, "from_step: expected 1"),
    ({"phase": []}, "did you mean 'phases'"),
]


@pytest.mark.parametrize(("values", "message"), REFUSED)
def test_settings_that_make_no_sense_are_refused_by_their_key(values, message):
    components = {"components": {"a": {"sources": ["a"]}, "b": {}}}
    with pytest.raises(ConfigError, match=message):
        from_dict(TrainConfig, {"data": components | values}, "train")


def test_a_config_comes_back_from_json_as_it_was():
    values = {
        "components": {"a": {"sources": ["x*"], "languages": ["zh*"]}, "b": {}},
        "phases": [{"steps": 3, "shares": {"a": 1.0}, "end_shares": {"b": 1.0}}],
        "changes": [{"from_step": 9, "phases": [{"shares": {"b": 1.0}}]}],
        "skip": [{"steps": [1, 2]}, {"documents": ["x"], "from_step": 4, "reason": "spike"}],
        "frequency": {"target_share": 0.051},
        "curriculum": {"fraction": 0.1},
    }
    config = from_dict(DataConfig, values)
    assert DataConfig.from_dict(json.loads(json.dumps(dataclasses.asdict(config)))) == config
