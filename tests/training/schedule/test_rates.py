"""The learning rate against torch's own schedulers, and as a function of the step and the state alone."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch

from training.config import TrainConfig
from training.schedule.config import ScheduleConfig
from training.schedule.rates import learning_rate
from training.schedule.staged import ScheduleState


def rates(schedule: dict[str, Any], state: ScheduleState | None = None, **changes: Any) -> list[float]:
    settings: dict[str, Any] = {"steps": 100, "warmup_steps": 10, "lr": 1.0, "min_lr_ratio": 0.1} | changes
    config = TrainConfig(**settings, schedule=ScheduleConfig(**schedule))
    return [learning_rate(step, config, state or ScheduleState()) for step in range(config.steps)]


def test_rates_equal_torchs_linear_warmup_and_cosine():
    config = TrainConfig(steps=50, warmup_steps=10, lr=3e-3, min_lr_ratio=0.1)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=3e-3)
    # torch counts its warmup from start_factor to 1: nine intervals reach the peak at the tenth step
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=9)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=39, eta_min=3e-4)
    theirs = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], milestones=[10])
    for step in range(50):
        assert learning_rate(step, config) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9), step
        optimizer.step()
        theirs.step()


@pytest.mark.parametrize("kind", ["cosine", "wsd"])
def test_a_run_shorter_than_its_warmup_still_rises_to_the_peak(kind):
    found = rates({"kind": kind}, steps=5, warmup_steps=100, lr=1e-3)
    assert found == pytest.approx([2e-4, 4e-4, 6e-4, 8e-4, 1e-3])


@pytest.mark.parametrize(("shape", "half"), [("1-sqrt", 1 - 0.9 * math.sqrt(0.5)), ("linear", 0.55)])
def test_wsd_is_flat_until_the_decay_and_ends_at_the_floor(shape, half):
    found = rates({"kind": "wsd", "decay_share": 0.2, "decay_shape": shape})
    assert found[9:80] == pytest.approx([1.0] * 71)
    assert (found[89], found[99]) == (pytest.approx(half), pytest.approx(0.1))
    assert all(a > b for a, b in pairwise(found[79:]))


def test_a_lengthened_warmup_goes_on_from_the_rate_it_had_reached():
    schedule = {"kind": "staged", "bandwidth_floor": 1.0, "probe_share": 0.5}
    found = rates(schedule, ScheduleState(warmup_steps=12))
    assert found[:5] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert found[5:12] == pytest.approx([0.5 + 0.5 * n / 7 for n in range(1, 8)])
    assert found[12] == 1.0


def test_cuts_lower_the_peak_but_not_below_the_floor():
    assert rates({"kind": "staged"}, ScheduleState(cuts=(20, 30)))[40] == pytest.approx(0.64)
    assert rates({"kind": "staged"}, ScheduleState(cuts=tuple(range(20))))[40] == pytest.approx(0.1)


def test_the_decay_restarts_warm_and_each_cycle_ends_at_the_floor():
    schedule = {"kind": "staged", "decay_share": 0.8, "restarts": 3, "restart_peak": 0.5, "restart_warmup_share": 0.1}
    found = rates(schedule)
    assert [found[last] for last in (39, 59, 79, 99)] == pytest.approx([0.1] * 4)
    assert [max(found[n : n + 20]) for n in (40, 60, 80)] == pytest.approx([0.5, 0.25, 0.125])
    assert found[40] == pytest.approx(0.3)  # the first of two steps up
    steps = [b / a for a, b in pairwise(found[41:60])]
    assert steps == pytest.approx([steps[0]] * len(steps))  # exponential


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
@pytest.mark.parametrize("kind", ["cosine", "wsd", "staged"])
@pytest.mark.parametrize("warmup", [0, 2, 50])
def test_the_shortest_runs_have_rates_too(kind, steps, warmup):
    found = rates({"kind": kind, "bandwidth_floor": 1.0}, steps=steps, warmup_steps=warmup, min_lr_ratio=0.0)
    assert all(0 <= rate <= 1 for rate in found)


@pytest.mark.parametrize(
    "changes", [{"kind": "step"}, {"decay_share": 0.0}, {"plateau_window": 25}, {"warmup_stretch": 0.9}]
)
def test_settings_that_cannot_work_are_refused(changes):
    with pytest.raises(ValueError, match=f"schedule.{next(iter(changes))}"):
        ScheduleConfig(**changes)
