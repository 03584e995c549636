"""The learning rate against torch's own schedulers, and as a function of the step alone."""

from __future__ import annotations

import pytest
import torch

from training.config import TrainConfig
from training.schedule import learning_rate


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


def test_a_run_shorter_than_its_warmup_still_rises_to_the_peak():
    config = TrainConfig(steps=5, warmup_steps=100, lr=1e-3)
    assert [learning_rate(s, config) for s in range(5)] == pytest.approx([2e-4, 4e-4, 6e-4, 8e-4, 1e-3])
