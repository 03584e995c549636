"""Every ZeRO stage, and every number of ranks, is the plain loop in one process, to rounding."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from tests.training.forked_ranks import Ranks
from training.checkpoint import folders
from training.config import RunSpec
from training.metrics import read_rows


def rows(spec: RunSpec) -> list[dict[str, Any]]:
    return list(read_rows(Path(spec.work_dir) / "metrics.jsonl"))


def furthest(ours: RunSpec, theirs: RunSpec) -> dict[str, float]:
    """The largest absolute difference of the losses, the gradient norms and the final weights."""
    pairs = list(zip(rows(ours), rows(theirs), strict=True))
    assert [(a["kind"], a["step"]) for a, _ in pairs] == [(b["kind"], b["step"]) for _, b in pairs]
    found = {"loss": max(abs(a["loss"] - b["loss"]) for a, b in pairs)}
    found["grad_norm"] = max(abs(a["grad_norm"] - b["grad_norm"]) for a, b in pairs if a["kind"] == "step")
    weights = [load_file(folders(Path(spec.work_dir))[0] / "model.safetensors") for spec in (ours, theirs)]
    assert weights[0].keys() == weights[1].keys()
    found["weight"] = max((weight - weights[1][name]).abs().max().item() for name, weight in weights[0].items())
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_zero_stage_has_losses_gradients_and_weights_of_the_plain_loop(make_spec: Callable, ranks: Ranks):
    """50 steps on two ranks; 5e-7 was the furthest."""
    plain = make_spec("plain", backend="torch", steps=50)
    ranks.run(plain).check()
    assert rows(plain)[-1]["loss"] < rows(plain)[0]["loss"] - 1, "weights that move"
    for stage, loss in ((0, "plain"), (1, "plain"), (2, "plain"), (3, "plain"), (3, "chunked")):
        sharded = make_spec(f"zero-{stage}-{loss}", zero_stage=stage, loss=loss, steps=50)
        ranks.run(sharded).check()
        found = furthest(plain, sharded)
        assert max(found.values()) <= 1e-5, (stage, loss, found)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_checkpoint_of_two_ranks_goes_on_with_one_and_with_four_and_another_zero_stage(make_spec, ranks):
    """From step 20 of 50; 2e-7 was the furthest."""
    settings: dict[str, Any] = {"steps": 50, "checkpoint_interval_steps": 20, "keep_checkpoints": 5}
    whole = make_spec("whole", zero_stage=2, **settings)
    ranks.run(whole).check()
    elsewhere: list[dict[str, Any]] = [
        {"backend": "torch"},
        {"world_size": 1, "zero_stage": 3},
        {"world_size": 4, "zero_stage": 2},
        {"world_size": 4, "zero_stage": 0},
    ]
    for number, changes in enumerate(elsewhere):
        moved = make_spec(f"moved-{number}", **settings, **changes)
        shutil.copytree(whole.work_dir, moved.work_dir)
        for late in ("step-00000040", "step-00000050"):  # as if killed before step 40
            shutil.rmtree(Path(moved.work_dir) / "checkpoints" / late)
        ranks.run(moved).check()
        found = furthest(whole, moved)
        assert max(found.values()) <= 1e-4, (changes, found)
        assert max(found.values()) > 0, "the very same sums, as if nothing had been computed anew"
