"""Saving as the training loop of each rank sees it: take the snapshot together, let rank 0 write, hear what came of it.

A save that fails (a full disk, a file that reads back wrong) is logged and the next interval tries again; the third in
a row ends the run, as does a failure of the last save, which is waited for. All ranks learn of it and end alike.

in    Engine, Progress, ScheduleState at the steps that `level_at` names
out   checkpoints; events "checkpoint" (stall_seconds, write_seconds, bytes) and "checkpoint_failed" (reason)
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import torch.distributed as dist

from training.checkpoint.folder import CheckpointError, Level, name_of
from training.checkpoint.generators import rank_and_size
from training.checkpoint.loading import Progress
from training.checkpoint.snapshot import Buffers, take
from training.checkpoint.writer import Outcome, Writer
from training.config import RunSpec, TrainConfig
from training.engine import Engine
from training.metrics import MetricsLog
from training.schedule.staged import ScheduleState

logger = logging.getLogger(__name__)


def level_at(step: int, config: TrainConfig) -> Level | None:
    """What is due after `step`: the highest level whose interval it is a multiple of; at the end an archive."""
    number, remainder = divmod(step, config.checkpoint_interval_steps)
    settings = config.checkpoints
    if step == config.steps:
        return "archive"
    if remainder:
        return None
    if settings.archive_every and number % settings.archive_every == 0:
        return "archive"
    return "full" if settings.full_every and number % settings.full_every == 0 else "light"


class Saver:
    """One per rank; the writer and the buffers are rank 0's."""

    def __init__(self, spec: RunSpec, log: MetricsLog | None, last: str | None):
        self.spec, self.log, self.last = spec, log, last  # `last`: the newest that is known to be on disk
        self.rank, self.size = rank_and_size()
        self.buffers = Buffers()
        self.writer = Writer(Path(spec.work_dir), spec.train) if self.rank == 0 else None
        self.stalls: dict[int, tuple[float, float]] = {}  # step -> seconds stalled, and waited for the save before
        self.failures = 0  # in a row
        self.reason = ""

    def save(self, engine: Engine, progress: Progress, schedule: ScheduleState, level: Level, *, last: bool) -> None:
        """Begin a save; returns once training may change its tensors again. `last`: no step follows. Collective."""
        started = time.perf_counter()
        if self.writer is not None:
            self.writer.wait()
        waited = time.perf_counter() - started
        snapshot = take(self.buffers, self.spec, engine, progress, schedule, level)
        if self.writer is not None and snapshot is not None:
            self.writer.submit(snapshot, beside_steps=not last)
            self.stalls[progress.step] = (time.perf_counter() - started, waited)

    def poll(self) -> bool:
        """Log the saves that ended; True if the run cannot go on. Its word counts on rank 0 only."""
        if self.writer is None:
            return False
        for outcome in self.writer.take_outcomes():
            self.note(outcome)
        return self.writer.bug is not None or self.failures >= self.spec.train.checkpoints.max_failures

    def note(self, outcome: Outcome) -> None:
        stalled, waited = self.stalls.pop(outcome.step)
        times = {"stall_seconds": stalled, "wait_seconds": waited, "write_seconds": outcome.write_seconds}
        about = {"name": outcome.name, "level": outcome.level, **times}
        if outcome.error is None:
            self.last, self.failures, self.reason = outcome.name, 0, ""
        else:
            self.failures, self.reason = self.failures + 1, f"{outcome.name}: {outcome.error}"
            logger.error(
                "checkpoint %s could not be written (%s), failure %d of at most %d in a row; the newest is %s",
                outcome.name,
                outcome.error,
                self.failures,
                self.spec.train.checkpoints.max_failures,
                self.last,
            )
        if self.log is not None and outcome.error is None:
            self.log.event("checkpoint", outcome.step, **about, bytes=outcome.num_bytes)
        elif self.log is not None:
            self.log.event("checkpoint_failed", outcome.step, **about, reason=outcome.error, in_a_row=self.failures)

    def settle(self) -> str | None:
        """Wait for the save in flight; returns the newest checkpoint, on every rank. Collective."""
        self.close()
        self.last, self.failures, self.reason = self.shared((self.last, self.failures, self.reason))
        return self.last

    def give_up(self) -> None:
        """Raise why saving failed. Collective."""
        self.settle()
        raise CheckpointError(f"{self.failures} checkpoints in a row could not be written. {self.advice()}")

    def finish(self, step: int) -> str:
        """Wait for the save of `step`, the last of this process; returns its name. Collective."""
        if self.settle() != name_of(step):
            raise CheckpointError(f"the last checkpoint could not be written. {self.advice()}")
        return name_of(step)

    def advice(self) -> str:
        return (
            f"{self.reason}. The newest good one is {self.last or 'none'}. Free space in {self.spec.work_dir}, then "
            "run again to go on from there"
        )

    def close(self) -> None:
        """Let the save in flight end, whatever ended the run. No collective."""
        if self.writer is not None:
            self.writer.wait()
            self.poll()

    def shared(self, value: Any) -> Any:
        """Rank 0's value on all ranks."""
        box = [value]
        if self.size > 1:
            dist.broadcast_object_list(box)
        return box[0]
