"""Two ranks under DeepSpeed, each ZeRO stage in each precision: what tests/training/ranks.py saw."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

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
@pytest.mark.parametrize("stage", STAGES)
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
