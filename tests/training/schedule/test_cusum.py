"""The detector on curves whose plateau is known."""

from __future__ import annotations

import numpy as np
import pytest

from training.schedule.cusum import CusumSettings, CusumState, update

SETTINGS = CusumSettings(window=200, decline=0.004, threshold=2.5)


def alarms(losses: np.ndarray, settings: CusumSettings = SETTINGS) -> list[int]:
    state, found = CusumState(), []
    for step, loss in enumerate(losses.tolist()):
        state, plateau = update(state, loss, settings)
        if plateau:
            found.append(step)
    return found


def noise(steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.03, steps)


FALLING = 3 - 0.012 / 200 * np.arange(8000)


@pytest.mark.parametrize("seed", range(5))
def test_a_loss_that_falls_as_it_should_is_no_plateau(seed):
    assert alarms(FALLING + noise(8000, seed)) == []


def test_a_flat_loss_is_one_the_sooner_the_less_noise():
    few, much = (alarms(np.full(5000, 3.0) + scale * noise(5000))[0] for scale in (0.2, 1.0))
    assert few < much < 3000


def test_a_rise_is_one_within_two_windows():
    losses = FALLING + noise(8000)
    losses[2000:] += 0.5
    assert 2000 < alarms(losses)[0] < 2400


def test_spikes_alone_are_none():
    losses = FALLING + noise(8000)
    losses[400::500] += 5
    assert alarms(losses) == []


def test_after_a_plateau_it_begins_anew():
    found = alarms(np.full(20_000, 3.0) + noise(20_000))
    assert len(found) > 3
    assert min(np.diff(found)) >= 2 * SETTINGS.window
