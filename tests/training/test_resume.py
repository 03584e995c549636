"""Killed anywhere and resumed, a run of two ranks is the run that was never killed: bit for bit, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.training.forked_ranks import Kill, differences
from training.config import CheckpointConfig
from training.data import TokenDataset
from training.metrics import read_rows

STEPS = 30
AT_ONCE = CheckpointConfig(asynchronous=False)  # a step is taken after the save before it, so each kill has one outcome


def starts(work_dir: str) -> list[str | None]:
    """The checkpoint that each attempt began from."""
    return [row["checkpoint"] for row in read_rows(Path(work_dir) / "events.jsonl") if row["kind"] == "start"]


def last_step(work_dir: str) -> int:
    return max(row["step"] for row in read_rows(Path(work_dir) / "metrics.jsonl"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_kill_after_every_step_and_as_many_resumes_change_no_bit(make_spec, ranks):
    """One run killed 30 times: after step 1, 2, … 30, each time resumed from the newest of its checkpoints."""
    settings: dict[str, Any] = {"steps": STEPS, "checkpoint_interval_steps": 4, "checkpoints": AT_ONCE}
    whole, killed = make_spec("whole", **settings), make_spec("killed", **settings)
    epoch = TokenDataset.for_run(whole).samples_per_epoch
    assert epoch % whole.train.global_batch_size, "a step should hold the end of an epoch and the start of the next"
    assert epoch * 2 < STEPS * whole.train.global_batch_size
    ranks.run(whole).check()
    for step in range(1, STEPS + 1):
        kill = Kill("step", step, rank=step % 2)
        ranks.run(killed, kill).check(kill)
        assert last_step(killed.work_dir) in (step - kill.rank, step)  # rank 0 logs, if rank 1 leaves it the time
    ranks.run(killed).check()
    began = [4 * max(0, (step - 1) // 4) for step in range(STEPS + 1)]  # killed after step 4, it did not save that
    assert starts(killed.work_dir) == [f"step-{step:08d}" if step else None for step in began]
    assert differences(Path(whole.work_dir), Path(killed.work_dir)) == []


KILLS = (  # of one run, in this order; the comment: where the next attempt begins
    Kill("micro", 6, rank=1),  # 4
    Kill("sync", 8, file="model."),  # 4
    Kill("sync", 8, file="rng-00001.pt"),  # 4
    Kill("rename", 8),  # 4
    Kill("renamed", 12),  # 12
    Kill("micro", 13),  # 12
    Kill("step", 13),  # 12: twice without a checkpoint in between
)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("precision", "zero_stage"), [("fp32", 2), ("bf16", 2)])
def test_kills_within_a_step_and_within_a_save_change_no_bit(make_spec, ranks, precision, zero_stage):
    settings: dict[str, Any] = {"steps": 20, "checkpoint_interval_steps": 4, "checkpoints": AT_ONCE}
    settings |= {"precision": precision, "zero_stage": zero_stage}
    whole, killed = make_spec("whole", **settings), make_spec("killed", **settings)
    ranks.run(whole).check()
    for kill in KILLS:
        ranks.run(killed, kill).check(kill)
    ranks.run(killed).check()
    began = [0, 4, 4, 4, 4, 12, 12, 12]
    assert starts(killed.work_dir) == [f"step-{step:08d}" if step else None for step in began]
    assert differences(Path(whole.work_dir), Path(killed.work_dir)) == []
    left = sorted(path.name for path in (Path(killed.work_dir) / "checkpoints").iterdir())
    assert left == ["step-00000016", "step-00000020"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_kills_while_training_runs_ahead_of_the_writer_change_no_bit(make_spec, ranks, precision):
    """The checkpoint of step 8 is half written while steps 9 and 10 are taken; then that of 12."""
    settings: dict[str, Any] = {"steps": 20, "checkpoint_interval_steps": 4, "precision": precision}
    whole, killed = make_spec("whole", **settings), make_spec("killed", **settings)
    assert killed.train.checkpoints.asynchronous
    ranks.run(whole).check()
    for step, file in ((8, "model."), (8, "manifest.json"), (12, "optimizer.")):
        kill = Kill("overtaken", step, file=file)
        ranks.run(killed, kill).check(kill)
        assert last_step(killed.work_dir) > step, "training went on while the checkpoint was written"
    ranks.run(killed).check()
    assert starts(killed.work_dir) == [None, "step-00000004", "step-00000004", "step-00000008"]
    assert differences(Path(whole.work_dir), Path(killed.work_dir)) == []
