"""The part of a save that training waits for: everything a checkpoint holds, copied into memory of rank 0.

The buffers are kept from one save to the next, 12 bytes a parameter on rank 0's host: touching fresh memory costs more
than the copy. From a GPU they are pinned, so that the copies run while the next tensor is gathered.

in    Engine.named_state(), this rank's generators, Progress, ScheduleState; collective
out   Snapshot on rank 0
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist

from training.checkpoint.folder import FORMAT, VERSION, Level
from training.checkpoint.generators import rank_and_size, rng_bytes
from training.checkpoint.loading import Progress
from training.config import RunSpec
from training.engine import Engine
from training.schedule.staged import ScheduleState, to_checkpoint


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """One checkpoint, not yet written. Its tensors are the buffers: the next snapshot overwrites them."""

    step: int
    level: Level
    weights: dict[str, torch.Tensor]
    moments: dict[str, torch.Tensor]
    generators: list[bytes]  # by rank
    state: dict[str, Any]


class Buffers:
    """fp32 tensors in CPU memory by name."""

    def __init__(self) -> None:
        self.held: dict[str, torch.Tensor] = {}

    def copy(self, name: str, source: torch.Tensor) -> torch.Tensor:
        source = source.detach()
        target = self.held.get(name)
        if target is None:
            target = torch.empty(source.shape, dtype=torch.float32, pin_memory=source.is_cuda)
            self.held[name] = target
        target.copy_(source, non_blocking=source.is_cuda)
        return target


def take(
    buffers: Buffers, spec: RunSpec, engine: Engine, progress: Progress, schedule: ScheduleState, level: Level
) -> Snapshot | None:
    """Gather parameter by parameter; only rank 0 keeps copies. Collective; None on other ranks."""
    rank, _ = rank_and_size()
    weights: dict[str, torch.Tensor] = {}
    moments: dict[str, torch.Tensor] = {}
    for name, held in engine.named_state():
        if rank == 0:
            weights[name] = buffers.copy(name, held.weight)
            for key in ("exp_avg", "exp_avg_sq"):
                moments[f"{key}/{name}"] = buffers.copy(f"{key}/{name}", getattr(held, key))
    generators = gather(rng_bytes())
    if engine.device.type == "cuda":
        torch.cuda.synchronize(engine.device)
    if rank:
        return None
    return Snapshot(
        step=progress.step,
        level=level,
        weights=weights,
        moments=moments,
        generators=generators,
        state=state_values(spec, progress, schedule, engine.extra_state()),
    )


def gather(mine: bytes) -> list[bytes]:
    """Every rank's bytes, by rank. Collective."""
    size = rank_and_size()[1]
    if size == 1:
        return [mine]
    held: list[Any] = [None] * size
    dist.all_gather_object(held, mine)
    return held


def state_values(
    spec: RunSpec, progress: Progress, schedule: ScheduleState, extra: dict[str, float | int]
) -> dict[str, Any]:
    """What state.json says; `engine` is there only where the engine has a state of its own."""
    digests = {"dataset_digest": spec.dataset_digest, "tokenizer_digest": spec.tokenizer_digest}
    return {
        "format": FORMAT,
        "version": VERSION,
        **asdict(progress),
        **digests,
        "config": spec.train.key_settings(),
        "schedule": to_checkpoint(schedule, progress.step, spec.train),
        **({"engine": extra} if extra else {}),
    }
