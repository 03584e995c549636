"""Find the newest checkpoint that verifies, and never take its absence for a first start.

in    a work folder
out   load_newest() -> Checkpoint, or None if the run never had one; CheckpointError if it had and none is good
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from training.checkpoint.folder import CheckpointError, find_fault, folders, partial_folders, root
from training.checkpoint.tensors import read_tensors
from training.engine import ParameterState
from training.metrics import read_rows
from training.schedule.staged import ScheduleState, from_checkpoint

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Where a run stands. The data cursor is `samples`: sequences consumed, whatever the batch or the ranks."""

    step: int
    samples: int
    tokens: int
    optimizer_step: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A verified folder with what its state.json says."""

    folder: Path
    progress: Progress
    state: dict[str, Any]

    def schedule(self) -> ScheduleState:
        return from_checkpoint(self.state["schedule"])

    def engine_state(self) -> dict[str, float | int]:
        """What Engine.extra_state gave; checkpoints without a loss scale have none."""
        return dict(self.state.get("engine", {}))

    def is_plain(self) -> bool:
        """Whether others than this package can read the weights."""
        return (self.folder / "model.safetensors").is_file()

    def weights(self) -> dict[str, torch.Tensor]:
        return read_tensors(self.folder, "model")

    def parameter_states(self) -> dict[str, ParameterState]:
        moments = read_tensors(self.folder, "optimizer")
        return {
            name: ParameterState(weight, moments[f"exp_avg/{name}"], moments[f"exp_avg_sq/{name}"])
            for name, weight in self.weights().items()
        }


def load_newest(work_dir: Path) -> Checkpoint | None:
    """The newest checkpoint that verifies; None if there never was one. CheckpointError if none is left or good."""
    faults = []
    for folder in folders(work_dir):
        fault = find_fault(folder)
        if fault is None:
            return read(folder)
        faults.append(f"{folder.name}: {fault}")
        logger.error("checkpoint %s; falling back to the one before", faults[-1])
    if faults:
        raise CheckpointError(
            f"{root(work_dir)}: {len(faults)} checkpoint(s), none verifies ({'; '.join(faults)}). Restore one from a "
            "copy, or move the folder away to start from scratch on purpose"
        )
    check_none_lost(work_dir)
    return None


def check_none_lost(work_dir: Path) -> None:
    """The log remembers checkpoints that are no longer there."""
    events = work_dir / "events.jsonl"
    names = [name for name in map(checkpoint_in, read_rows(events)) if name]
    advice = f"Restore it from a copy, or move {work_dir} away to start from scratch on purpose"
    if names:
        raise CheckpointError(f"{root(work_dir)}: holds no checkpoint, yet {events.name} names {names[-1]}. {advice}")
    if not events.exists() and last_step(work_dir):
        raise CheckpointError(
            f"{root(work_dir)}: holds no checkpoint, metrics.jsonl goes to step {last_step(work_dir)}, and there is no "
            f"{events.name} to say whether one was ever saved. {advice}"
        )


def checkpoint_in(event: dict[str, Any]) -> str | None:
    """The checkpoint that an event of the run's log proves."""
    if event["kind"] == "continued":
        return f"the one of step {event['step']}"
    held: str | None = {"checkpoint": event.get("name"), "start": event.get("checkpoint")}.get(event["kind"])
    return held


def last_step(work_dir: Path) -> int:
    return max((row["step"] for row in read_rows(work_dir / "metrics.jsonl")), default=0)


def fresh_start_reason(work_dir: Path) -> str | None:
    """Why a run that was begun starts from scratch: it had not yet saved. None for one that was not begun."""
    cut_off, step = [folder.name for folder in partial_folders(work_dir)], last_step(work_dir)
    if not cut_off and not step:
        return None
    return f"ended after step {step} before its first checkpoint was whole" + (
        f"; {', '.join(cut_off)} was cut off" if cut_off else ""
    )


def read(folder: Path) -> Checkpoint:
    """A checkpoint whose files are taken as good (see find_fault)."""
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    progress = Progress(**{key: state[key] for key in ("step", "samples", "tokens", "optimizer_step")})
    return Checkpoint(folder=folder, progress=progress, state=state)
