"""Every ZeRO stage, and every number of ranks, is the plain loop in one process, to rounding."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from training.checkpoint import folders
from training.metrics import read_rows


def rows(spec) -> list[dict[str, Any]]:
    return list(read_rows(Path(spec.work_dir) / "metrics.jsonl"))


def furthest(ours, theirs) -> dict[str, float]:
    """The largest absolute difference of losses and gradient norms, and of the weights relative to the largest one."""
    pairs = list(zip(rows(ours), rows(theirs), strict=True))
    assert [(a["kind"], a["step"]) for a, b in pairs] == [(b["kind"], b["step"]) for a, b in pairs]
    found = {"loss": max(abs(a["loss"] - b["loss"]) for a, b in pairs)}
    found["grad_norm"] = max(abs(a.get("grad_norm", 0) - b.get("grad_norm", 0)) for a, b in pairs)
    weights = [load_file(folders(Path(spec.work_dir))[0] / "model.safetensors") for spec in (ours, theirs)]
    assert weights[0].keys() == weights[1].keys()
    found["weights"] = max((weight - weights[1][name]).abs().max().item() for name, weight in weights[0].items())
    return found


def test_each_zero_stage_has_losses_gradients_and_weights_of_the_plain_loop(make_spec, ranks):
    plain = make_spec("plain", backend="torch", steps=50)
    ranks.run(plain).check()
    for stage in range(4):
        sharded = make_spec(f"zero-{stage}", zero_stage=stage, steps=50)
        ranks.run(sharded).check()
        print(stage, furthest(plain, sharded))


def test_w(make_spec, ranks):
    settings: dict[str, Any] = {"steps": 50, "keep_checkpoints": 5, "checkpoint_interval_steps": 20}
    whole = make_spec("whole", **settings, zero_stage=2)
    ranks.run(whole).check()
    for size, stage in ((1, 0), (1, 3), (4, 2), (4, 3)):
        moved = make_spec(f"moved-{size}{stage}", **settings, world_size=size, zero_stage=stage)
        shutil.copytree(whole.work_dir, moved.work_dir)
        for late in ("step-00000040", "step-00000050"):
            shutil.rmtree(Path(moved.work_dir) / "checkpoints" / late)
        ranks.run(moved).check()
        print(size, stage, furthest(whole, moved))
