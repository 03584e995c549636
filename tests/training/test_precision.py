"""The loss scale of fp16: how it moves, and that only what has an effect stands in a run's key."""

from __future__ import annotations

from math import inf, nan

import pytest

from training.config import TrainConfig
from training.precision import LossScale, LossScaleConfig, LossScaleError, updated

CONFIG = LossScaleConfig(initial=1024.0, growth_interval_steps=3, min_scale=256.0, max_overflows_at_min=3)


def driven(*norms: float, config: LossScaleConfig = CONFIG) -> list[float]:
    """The scale after each of the steps with these gradient norms."""
    state, scales = LossScale(config.initial), []
    for norm in norms:
        state = updated(state, config, norm)
        scales.append(state.scale)
    return scales


def test_the_scale_doubles_after_as_many_good_steps_in_a_row_as_said():
    assert driven(1, 1, 1, 1, 1, 1) == [1024, 1024, 2048, 2048, 2048, 4096]
    assert driven(*[1.0] * 500, config=LossScaleConfig())[-2:] == [65_536, 131_072]  # report 000 section 5.3


@pytest.mark.parametrize("norm", [inf, -inf, nan])
def test_an_overflow_halves_the_scale_and_the_count_of_good_steps_begins_anew(norm):
    assert driven(1, 1, norm, 1, 1, 1) == [1024, 1024, 512, 512, 512, 1024]


def test_a_tiny_gradient_doubles_the_scale_up_to_its_ceiling():
    """Report 000 section 3.5: below 1e-6. Zeros may not double it for ever."""
    assert driven(9e-7, 1e-6, 9e-7) == [2048, 2048, 4096]
    assert driven(*[0.0] * 20)[-1] == CONFIG.max_scale


def test_overflows_at_the_smallest_scale_end_the_run_and_say_what_to_do():
    assert driven(inf, inf, inf, inf) == [512, 256, 256, 256]
    assert driven(inf, inf, inf, inf, 1, inf, inf)[-1] == 256  # one good step between is enough
    with pytest.raises(LossScaleError, match=r"3 steps in a row .* \(256; train.loss_scale.min_scale\)\. Lower lr"):
        driven(inf, inf, inf, inf, inf)


def test_the_state_comes_back_from_its_checkpoint_as_it_was():
    state = LossScale(512.0, good_steps=2, overflows=1)
    assert LossScale.from_checkpoint(state.to_checkpoint()) == state


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"initial": 1000.0}, "loss_scale.initial: expected a power of two"),
        ({"initial": 0.0}, "loss_scale.initial"),
        ({"max_scale": inf}, "loss_scale.max_scale"),
        ({"min_scale": 131_072.0}, "between min_scale"),
        ({"growth_interval_steps": 0}, "growth_interval_steps"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes, named):
    with pytest.raises(ValueError, match=named):
        LossScaleConfig(**changes)


def test_the_loss_scale_stands_in_the_key_of_an_fp16_run_alone():
    """So that a checkpoint of fp32 or bf16 has the bytes it had before there was one."""
    other = LossScaleConfig(initial=1024.0)
    assert "loss_scale" not in TrainConfig().key_settings()
    assert TrainConfig(loss_scale=other).key_settings() == TrainConfig().key_settings()
    fp16 = TrainConfig(precision="fp16", loss_scale=other)
    assert fp16.key_settings() != TrainConfig(precision="fp16").key_settings()
    assert TrainConfig.from_dict(fp16.to_dict()) == fp16
