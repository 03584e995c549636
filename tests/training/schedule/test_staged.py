"""What the staged schedule decides, that it is the same after any stop, and that it gets into a run."""

from __future__ import annotations

import json
import math
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from training.config import TrainConfig
from training.metrics import read_rows
from training.schedule.config import ScheduleConfig
from training.schedule.rates import learning_rate
from training.schedule.staged import (
    EVENT,
    ScheduleState,
    advance,
    from_checkpoint,
    recorded_warmup,
    replay,
    to_checkpoint,
)
from training.train import train

SCHEDULE: dict[str, Any] = {
    "kind": "staged",
    "bandwidth_floor": 1.0,
    "plateau_window": 20,
    "plateau_decline": 0.15,
    "plateau_threshold": 2.0,
}
CONFIG = TrainConfig(steps=200, warmup_steps=20, schedule=ScheduleConfig(**SCHEDULE))
MEGABYTES_PER_STEP = CONFIG.global_batch_size * (CONFIG.seq_len + 1) * 4 / 1e6
LOSSES = [3 + math.exp(-n / 30) + random.Random(n).gauss(0, 0.01) for n in range(200)]


class Run:
    """As training.train keeps it: a checkpoint every seven steps, events that outlive a kill."""

    def __init__(self, load_seconds: random.Random):
        self.load_seconds, self.events = load_seconds, list[dict[str, Any]]()
        self.saved = json.dumps(to_checkpoint(ScheduleState(), 0, CONFIG))
        self.rates: dict[int, float] = {}

    def go_on(self, until: int) -> ScheduleState:
        entry = json.loads(self.saved)
        state = from_checkpoint(entry)
        if state.warmup_steps is None:
            state = replay(state, recorded_warmup(self.events, CONFIG))
        for step in range(entry["next_step"], until):
            rate = learning_rate(step, CONFIG, state)
            assert self.rates.setdefault(step, rate) == rate
            seconds = MEGABYTES_PER_STEP * self.load_seconds.uniform(0.5, 1.6)
            state, events = advance(state, CONFIG, step=step, loss=LOSSES[step], load_seconds=seconds)
            self.events += [{"kind": EVENT, "step": step + 1, **event} for event in events]
            if (step + 1) % 7 == 0:
                self.saved = json.dumps(to_checkpoint(state, step + 1, CONFIG))
        return state


@settings(deadline=None, max_examples=60)
@given(stops=st.lists(st.integers(1, 200), max_size=6), seed=st.integers(0, 1000))
def test_killed_anywhere_the_rates_are_those_first_taken_and_the_state_ends_the_same(stops, seed):
    parted = Run(random.Random(seed))
    for stop in sorted(stops):
        parted.go_on(stop)
    end = parted.go_on(200)
    assert len(end.cuts) >= 2
    assert len([e for e in parted.events if e["decided"] == "warmup"]) == 1

    whole = Run(random.Random(0))
    whole.events = [e for e in parted.events if e["decided"] == "warmup"]
    assert whole.go_on(200).cuts == end.cuts
    assert whole.rates == parted.rates


@pytest.mark.parametrize(("factor", "length"), [(0.9, 20), (1.1, 24)])
def test_a_loader_below_the_floor_lengthens_the_warmup_by_a_fifth(factor, length):
    state, seen = ScheduleState(), []
    for step in range(10):
        state, events = advance(state, CONFIG, step=step, loss=3.0, load_seconds=factor * MEGABYTES_PER_STEP)
        seen += events
    assert state == ScheduleState(warmup_steps=length)
    assert seen[0]["megabytes_per_second"] == pytest.approx(1 / factor)


def test_a_decision_made_for_another_warmup_is_not_taken_over():
    event = {"kind": EVENT, "decided": "warmup", "warmup_steps": 24, "configured_steps": 30, "floor": 1.0}
    assert recorded_warmup([{"kind": "start"}, event], CONFIG) is None


def test_a_flat_loss_cuts_the_rate_and_only_between_warmup_and_decay():
    state, cuts = ScheduleState(warmup_steps=20), []
    for step in range(200):
        state, events = advance(state, CONFIG, step=step, loss=3.0 + 0.01 * (step % 2), load_seconds=0.0)
        cuts += [(step, event["lr"]) for event in events]
    assert cuts[0][1] == pytest.approx(0.8 * CONFIG.lr)
    assert 20 < cuts[0][0] < cuts[-1][0] < 160


@pytest.fixture
def staged_spec(make_spec):
    """A run that lengthens its warmup and cuts its rate once."""
    schedule = ScheduleConfig(**SCHEDULE | {"bandwidth_floor": 1e9, "plateau_decline": 4.0})
    every = {"checkpoint_interval_steps": 3, "keep_checkpoints": 60, "eval_interval_steps": 0}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    spec = make_spec(backend="torch", steps=84, warmup_steps=10, schedule=schedule, **every)
    Path(spec.work_dir).mkdir()
    yield spec
    torch.set_num_threads(threads)


def log(work_dir: Path) -> list[tuple[int, float, float]]:
    return [(row["step"], row["lr"], row["loss"]) for row in read_rows(work_dir / "metrics.jsonl")]


def go_back(work_dir: Path, step: int) -> None:
    for folder in (work_dir / "checkpoints").iterdir():
        if int(folder.name.removeprefix("step-")) > step:
            shutil.rmtree(folder)


def test_a_run_resumes_bit_for_bit_with_its_schedule(staged_spec):
    work_dir = Path(staged_spec.work_dir)
    train(staged_spec, torch.device("cpu"))
    whole, last = log(work_dir), work_dir / "checkpoints" / "step-00000084"
    state = (last / "state.json").read_text()
    held = json.loads(state)["schedule"]["state"]
    assert held["warmup_steps"] == 12
    assert len(held["cuts"]) >= 1
    weights = (last / "model.safetensors").read_bytes()
    for step in (3, held["cuts"][0] - 1, held["cuts"][0] + 3):
        go_back(work_dir, step)
        train(staged_spec, torch.device("cpu"))
        assert log(work_dir) == whole
        assert (last / "state.json").read_text() == state
        assert (last / "model.safetensors").read_bytes() == weights


def test_what_was_decided_after_the_checkpoint_is_taken_from_the_events(staged_spec):
    """A measurement would say 12 again, so the recorded decision is changed to one that none would give."""
    work_dir = Path(staged_spec.work_dir)
    train(staged_spec, torch.device("cpu"))
    events = work_dir / "events.jsonl"
    events.write_text(events.read_text().replace('"warmup_steps": 12', '"warmup_steps": 15'))
    go_back(work_dir, 3)
    train(staged_spec, torch.device("cpu"))
    rates = [lr for _, lr, _ in log(work_dir)]
    assert rates[13] < rates[14] == staged_spec.train.lr
    assert sum(event.get("decided") == "warmup" for event in read_rows(events)) == 1


def test_other_schedules_leave_the_checkpoint_as_it_was():
    assert to_checkpoint(ScheduleState(), 7, TrainConfig(steps=9)) == {"kind": "cosine", "next_step": 7}
