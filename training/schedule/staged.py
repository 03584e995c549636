"""The staged schedule of the report (000 §3.4), which looks at the run: what it decides is its state.

1. warmup to `lr`. Where the loader gives less than `bandwidth_floor` over its first part, the rest is lengthened.
2. the peak, cut by a fifth at each plateau of the loss.
3. exponential decay to the floor in the last `decay_share` of the steps, with warm restarts.

Every rank decides alike, from the loss and the loading time that are already reduced over all. A loss comes out the
same after a resume; a loading time does not. So the decision of the warmup is written to events.jsonl when it is made,
and a run that resumes before it takes it from there (`recorded_warmup`).

in    ScheduleState, the step just taken with its loss and loading time
out   ScheduleState, events
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from training.schedule.cusum import CusumSettings, CusumState, update

if TYPE_CHECKING:
    from training.config import TrainConfig

EVENT = "schedule"
BYTES_PER_TOKEN = 4  # int32


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """Empty for the schedules that are a function of the step alone."""

    load_seconds: float = 0.0  # of the warmup's first part, until it decides
    warmup_steps: int | None = None  # as decided
    cuts: tuple[int, ...] = ()  # steps taken before each
    detector: CusumState = field(default_factory=CusumState)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"cuts": list(self.cuts)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ScheduleState:
        values = dict(values)
        return cls(**values | {"cuts": tuple(values["cuts"]), "detector": CusumState(**values["detector"])})


def to_checkpoint(state: ScheduleState, next_step: int, config: TrainConfig) -> dict[str, Any]:
    """The "schedule" of a checkpoint's state.json."""
    entry: dict[str, Any] = {"kind": config.schedule.kind, "next_step": next_step}
    return entry | ({"state": state.to_dict()} if config.schedule.kind == "staged" else {})


def from_checkpoint(entry: Mapping[str, Any]) -> ScheduleState:
    """What `to_checkpoint` wrote. A run that changed its schedule on purpose begins with an empty state."""
    return ScheduleState.from_dict(entry["state"]) if "state" in entry else ScheduleState()


def decay_begin(config: TrainConfig) -> int:
    """The first step of the decay. A warmup that reaches into it is cut off there."""
    return config.steps - max(1, round(config.schedule.decay_share * config.steps))


def probe_steps(config: TrainConfig) -> int:
    """Steps of the warmup that go by before its length is decided; 0: it is not in question."""
    if not config.schedule.bandwidth_floor:
        return 0
    return min(math.ceil(config.warmup_steps * config.schedule.probe_share), decay_begin(config))


def warmup_end(state: ScheduleState, config: TrainConfig) -> int:
    steps = config.warmup_steps if state.warmup_steps is None else state.warmup_steps
    return max(0, min(steps, decay_begin(config)))


def peak(state: ScheduleState, config: TrainConfig) -> float:
    return max(config.lr * config.min_lr_ratio, config.lr * config.schedule.plateau_cut ** len(state.cuts))


def advance(
    state: ScheduleState, config: TrainConfig, *, step: int, loss: float, load_seconds: float
) -> tuple[ScheduleState, list[dict[str, Any]]]:
    """The state after step `step` (0-based) and what was decided. `loss` and `load_seconds`: means over the ranks."""
    if config.schedule.kind != "staged":
        return state, []
    if step < probe_steps(config) and state.warmup_steps is None:
        return decide_warmup(replace(state, load_seconds=state.load_seconds + load_seconds), config, step + 1)
    if warmup_end(state, config) <= step < decay_begin(config):
        return look_for_plateau(state, config, step + 1, loss)
    return state, []


def decide_warmup(state: ScheduleState, config: TrainConfig, taken: int) -> tuple[ScheduleState, list[dict[str, Any]]]:
    if taken < probe_steps(config):
        return state, []
    megabytes = taken * config.global_batch_size * (config.seq_len + 1) * BYTES_PER_TOKEN / 1e6
    bandwidth = megabytes / max(state.load_seconds, 1e-9)
    slow, steps = bandwidth < config.schedule.bandwidth_floor, config.warmup_steps
    decided = math.ceil(round(steps * config.schedule.warmup_stretch, 6)) if slow else steps
    event = {"decided": "warmup", "warmup_steps": decided, "megabytes_per_second": bandwidth, **basis(config)}
    return replace(state, load_seconds=0.0, warmup_steps=decided), [event]


def basis(config: TrainConfig) -> dict[str, Any]:
    """What the decision of the warmup rests on, besides the measurement."""
    schedule = config.schedule
    return {
        "configured_steps": config.warmup_steps,
        "floor": schedule.bandwidth_floor,
        "stretch": schedule.warmup_stretch,
        "probe_steps": probe_steps(config),
    }


def replay(state: ScheduleState, decided: int | None) -> ScheduleState:
    """`state` with what a later step of an earlier start decided."""
    return state if decided is None else replace(state, load_seconds=0.0, warmup_steps=decided)


def recorded_warmup(events: Iterable[Mapping[str, Any]], config: TrainConfig) -> int | None:
    """The length an earlier start of this run decided on, if one did."""
    ours = basis(config)
    for event in events:
        if event["kind"] == EVENT and event["decided"] == "warmup" and ours.items() <= event.items():
            return event["warmup_steps"]
    return None


def look_for_plateau(
    state: ScheduleState, config: TrainConfig, taken: int, loss: float
) -> tuple[ScheduleState, list[dict[str, Any]]]:
    schedule = config.schedule
    if schedule.plateau_cut == 1 or peak(state, config) <= config.lr * config.min_lr_ratio:
        return state, []
    settings = CusumSettings(schedule.plateau_window, schedule.plateau_decline, schedule.plateau_threshold)
    detector, plateau = update(state.detector, loss, settings)
    state = replace(state, detector=detector)
    if not plateau:
        return state, []
    state = replace(state, cuts=(*state.cuts, taken))
    return state, [{"decided": "cut", "cuts": len(state.cuts), "lr": peak(state, config)}]
