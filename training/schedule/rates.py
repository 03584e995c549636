"""The rate of a step: of `cosine` and `wsd` a pure function of the step, of `staged` of the step and its state.

No scheduler object: a resumed run computes the rate from the step it resumes at, so it cannot be lost, stored twice or
advanced once too often.

in    step (0-based: the step about to be taken), TrainConfig, ScheduleState (training/schedule/staged.py)
out   lr
ref   cosine: Loshchilov and Hutter 2017 (SGDR), arXiv:1608.03983, section 3, without restarts
      wsd: Hu et al. 2024 (MiniCPM), arXiv:2404.06395, section 4; 1-sqrt: Hägele et al. 2024, arXiv:2405.18392
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from training.schedule.staged import ScheduleState, decay_begin, peak, probe_steps, warmup_end

if TYPE_CHECKING:
    from training.config import TrainConfig

EMPTY = ScheduleState()
LEAST_RATIO = 1e-3  # an exponential does not reach a floor of 0


def learning_rate(step: int, config: TrainConfig, state: ScheduleState = EMPTY) -> float:
    """The rate of step `step`, counted from 0. The first step already moves: lr / warmup_steps, not zero."""
    if config.schedule.kind == "staged":
        return staged(step, config, state)
    warmup = min(config.warmup_steps, config.steps)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    return cosine(step, config, warmup) if config.schedule.kind == "cosine" else wsd(step, config, warmup)


def cosine(step: int, config: TrainConfig, warmup: int) -> float:
    floor = config.lr * config.min_lr_ratio
    progress = (step - warmup) / max(1, config.steps - 1 - warmup)
    return floor + (config.lr - floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def wsd(step: int, config: TrainConfig, warmup: int) -> float:
    floor, begin = config.lr * config.min_lr_ratio, max(warmup, decay_begin(config))
    progress = min(1.0, max(0, step + 1 - begin) / max(1, config.steps - begin))
    fallen = math.sqrt(progress) if config.schedule.decay_shape == "1-sqrt" else progress
    return config.lr - (config.lr - floor) * fallen


def staged(step: int, config: TrainConfig, state: ScheduleState) -> float:
    begin, warm, probe = decay_begin(config), warmup_end(state, config), probe_steps(config)
    if step < warm and step < probe:  # as if it were not to be lengthened
        return config.lr * (step + 1) / config.warmup_steps
    if step < warm:  # a straight line from the rate at the decision to the peak
        reached = config.lr * probe / config.warmup_steps
        return reached + (config.lr - reached) * (step + 1 - probe) / (warm - probe)
    return peak(state, config) if step < begin else decayed(step - begin, config, peak(state, config))


def decayed(step: int, config: TrainConfig, top: float) -> float:
    """The rate of step `step` of the decay: cycles of equal length, each from its peak down to the floor."""
    schedule, total = config.schedule, config.steps - decay_begin(config)
    cycles = min(schedule.restarts + 1, total)
    cycle = min(step, total - 1) * cycles // total
    first, end = -(-cycle * total // cycles), -(-(cycle + 1) * total // cycles)
    floor = config.lr * max(config.min_lr_ratio, LEAST_RATIO)
    top = max(floor, top * schedule.restart_peak**cycle)
    warmup = math.floor(schedule.restart_warmup_share * (end - first)) if cycle else 0
    position = step - first
    if position < warmup:
        return floor + (top - floor) * (position + 1) / warmup
    progress = min(1.0, (position + 1 - warmup) / (end - first - warmup))
    return top * (floor / top) ** progress
