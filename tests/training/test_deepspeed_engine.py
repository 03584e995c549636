"""Two ranks under DeepSpeed at each ZeRO stage, in each precision, with offload and with activation checkpointing:
what tests/training/ranks.py saw."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from training import shared_memory, toolchain
from training.config import TrainConfig
from training.launch import child_environment, free_port

pytestmark = pytest.mark.slow
STAGES, PRECISIONS = (0, 1, 2, 3), ("fp32", "bf16", "fp16")


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> list[dict[str, dict[str, Any]]]:
    """For each of the two ranks what each case saw."""
    folder, port = tmp_path_factory.mktemp("ranks"), free_port()
    environment = child_environment(TrainConfig(device="cpu"), "ranks")
    toolchain.prebuild(environment)
    command = [sys.executable, str(Path(__file__).with_name("ranks.py")), str(port), str(folder)]
    try:
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    finally:
        shared_memory.free(port)
    assert answer.returncode == 0, answer.stderr[-3000:]
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("stage", [*STAGES, "offload"])
def test_an_overflow_on_one_rank_moves_no_bit_on_either_and_the_run_goes_on(seen, stage, precision):
    for rank in seen:
        case = rank[f"overflow {stage} {precision}"]
        assert case["skipped"] == [False, False, False, True, False]
        assert case["unmoved"] and case["moved"]
        scales = [2.0**16] * 4 + [2.0**15] if precision == "fp16" else [None] * 5
        assert case["scales"] == scales


@pytest.mark.parametrize("stage", STAGES)
def test_fp16_has_the_losses_of_fp32_to_its_own_precision_at_every_stage(seen, stage):
    """Over three steps; bf16, with three bits less, for comparison."""
    losses = {precision: seen[0][f"overflow {stage} {precision}"]["losses"][:3] for precision in PRECISIONS}
    gaps = {p: max(abs(a - b) for a, b in zip(losses["fp32"], losses[p], strict=True)) for p in ("fp16", "bf16")}
    assert gaps["fp16"] < 1.5e-3 < gaps["bf16"], gaps


def test_under_zero_3_triton_s_kernels_train_as_the_plain_ones_do(seen):
    """Backward reads a norm's weight, which ZeRO 3 has taken away and gathered again since."""
    for rank in seen:
        if not rank["triton"]:
            pytest.skip("Triton is not installed: pip install triton==3.7.1")
        assert rank["triton"]["triton"] == pytest.approx(rank["triton"]["plain"], rel=1e-4)
        assert rank["triton"]["triton"] != rank["triton"]["plain"], "the same bits: Triton was not used"


@pytest.mark.parametrize("stage", [*STAGES, "offload"])
def test_an_engine_that_takes_over_in_fp16_goes_on_bit_for_bit_with_the_loss_scale_of_the_first(seen, stage):
    for rank in seen:
        case = rank[f"resumed {stage}"]
        assert case["whole"]["scales"] == case["resumed"]["scales"] == [2.0**16, 2.0**17]
        assert case["whole"]["losses"] == case["resumed"]["losses"]
        assert case["whole"]["norms"] == case["resumed"]["norms"]
        assert same(case["whole"]["state"], case["resumed"]["state"])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_an_offloaded_optimizer_takes_the_steps_of_one_on_the_device(seen, precision):
    """Up to the order in which the squares of the gradient norm are summed."""
    for rank in seen:
        there, here = (rank[f"overflow {where} {precision}"]["losses"] for where in ("offload", 3))
        assert there == pytest.approx(here, abs=1e-6)


@pytest.mark.parametrize("kind", ["feed_forward", "both"])
@pytest.mark.parametrize("stage", [0, 3])
def test_activation_checkpointing_changes_no_bit_of_losses_norms_weights_or_moments(seen, stage, kind):
    for rank in seen:
        without, having = rank[f"none {stage}"], rank[f"{kind} {stage}"]
        assert without["losses"] == having["losses"] and without["norms"] == having["norms"]
        assert same(without["state"], having["state"])


def same(ours: list[Tensor], theirs: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
