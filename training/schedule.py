"""Learning rate as a pure function of the step: linear warmup, then a cosine down to `min_lr_ratio`.

No state and no scheduler object: a resumed run computes the rate from the step it resumes at, so it cannot be lost,
stored twice or advanced once too often.

in    step (0-based: the step about to be taken)
out   lr
ref   Loshchilov and Hutter 2017 (SGDR), arXiv:1608.03983, section 3, without restarts
"""

from __future__ import annotations

import math

from training.config import TrainConfig


def learning_rate(step: int, config: TrainConfig) -> float:
    """The rate of step `step`, counted from 0. The first step already moves: lr / warmup_steps, not zero."""
    warmup = min(config.warmup_steps, config.steps)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    floor = config.lr * config.min_lr_ratio
    progress = (step - warmup) / max(1, config.steps - 1 - warmup)
    return floor + (config.lr - floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
