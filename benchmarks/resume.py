"""Resume under real kills: is a run that was killed again and again the run that was never killed, bit for bit?

    python benchmarks/resume.py [--steps 30] [--precisions fp32 bf16] [--zero-stages 0 1 2 3] [--kinds steps within …]

Two ranks on the CPU, SIGKILL at exact points, each attempt resuming from what the one before left:

    steps       after step 1, after step 2, … after the last: one run, killed `--steps` times
    apart       the same points, each in a run of its own: killed once, resumed once
    within      between two micro batches, during a save, around the renaming of the checkpoint's folder, twice in a row
    launcher    as `steps`, each attempt by training.launch and the deepspeed launcher; the others fork their ranks from
                a warm server (tests/training/forked_ranks.py), one second an attempt instead of eight

Compared with a run never killed: each row's loss, gradient norm, rate and counts; the hash of every batch that each
rank was fed; the SHA-256 of the final weights, moments, generators and state. Fails on any difference.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.training.conftest import small_spec, write_splits
from tests.training.forked_ranks import KILL_VARIABLE, LOG_FILE, Kill, Ranks, died_at, differences, history
from training import launch as launching
from training.config import RunSpec
from training.metrics import read_rows

Attempt = Callable[[RunSpec, Kill | None], None]
KINDS = ("steps", "within", "apart", "launcher")
INTERVAL_STEPS = 4  # of checkpoints: a kill costs up to three steps, which are then done again


def kills_within(steps: int) -> list[Kill]:
    """Points inside steps and saves, on either rank, in the order in which one run meets them."""
    return [
        Kill("micro", 1, rank=1),  # before there is a checkpoint
        Kill("sync", 4, file="model."),  # during the first save
        Kill("rename", 4),
        Kill("micro", 6),
        Kill("sync", 8, file="optimizer."),
        Kill("overtaken", 8, file="model."),  # two steps later it is still being written
        Kill("sync", 8, file="manifest.json"),
        Kill("renamed", 12),
        Kill("micro", 13, rank=1),  # the step with the end of an epoch
        Kill("step", 13),  # a second time without progress
        Kill("step", 13),
        Kill("sync", steps, file="state.json"),  # during the last save
        Kill("rename", steps),
        Kill("step", steps),  # all computed, the last save not begun
    ]


@contextmanager
def launched_ranks_that_die() -> Iterator[Attempt]:
    """Attempts by the real launcher; its ranks run the instrumented module in place of training.rank."""
    command = launching.LocalRanks.command

    def instrumented(self: launching.LocalRanks, run_file: Path) -> list[str]:
        words = command(self, run_file)
        assert "training.rank" in words
        return ["tests.training.forked_ranks" if word == "training.rank" else word for word in words]

    def attempt(spec: RunSpec, kill: Kill | None) -> None:
        os.environ[KILL_VARIABLE] = json.dumps(asdict(kill) if kill else None)
        try:
            launching.launch(spec)
        except launching.LaunchError:
            if kill is None or not died_at(kill, (Path(spec.work_dir) / LOG_FILE).read_text(errors="replace")):
                raise
        else:
            assert kill is None, f"{kill}: the launch survived it"

    launching.LocalRanks.command = instrumented  # type: ignore[method-assign]
    try:
        yield attempt
    finally:
        launching.LocalRanks.command = command  # type: ignore[method-assign]
        os.environ.pop(KILL_VARIABLE, None)


def forked(ranks: Ranks) -> Attempt:
    def attempt(spec: RunSpec, kill: Kill | None) -> None:
        ranks.run(spec, kill).check(kill)

    return attempt


def chain(attempt: Attempt, spec: RunSpec, kills: Sequence[Kill]) -> None:
    for kill in kills:
        attempt(spec, kill)
    attempt(spec, None)


@dataclass
class Sweep:
    """All the runs, in one temporary folder."""

    folder: Path
    ranks: Ranks
    steps: int

    def spec(self, name: str, settings: dict[str, Any]) -> RunSpec:
        counts = {"steps": self.steps, "checkpoint_interval_steps": INTERVAL_STEPS, "log_interval_steps": 1}
        return small_spec(self.folder / "tokens", self.folder / name, **counts, **settings)

    def uninterrupted(self, settings: dict[str, Any]) -> Path:
        spec = self.spec("-".join(map(str, ("whole", *settings.values()))), settings)
        if not Path(spec.work_dir).exists():
            forked(self.ranks)(spec, None)
        return Path(spec.work_dir)

    def killed(self, kind: str, settings: dict[str, Any]) -> tuple[int, list[RunSpec]]:
        """The number of kills, and the runs that survived them."""
        every = [Kill("step", step, rank=step % 2) for step in range(1, self.steps + 1)]
        name = "-".join(map(str, (kind, *settings.values())))
        if kind == "apart":
            specs = [self.spec(f"{name}-{kill.step}", settings) for kill in every]
            for kill, spec in zip(every, specs, strict=True):
                chain(forked(self.ranks), spec, [kill])
            return len(every), specs
        kills, spec = kills_within(self.steps) if kind == "within" else every, self.spec(name, settings)
        with launched_ranks_that_die() if kind == "launcher" else nullcontext(forked(self.ranks)) as attempt:
            chain(attempt, spec, kills)
        return len(kills), [spec]

    def row(self, kind: str, settings: dict[str, Any]) -> list[str]:
        """Print what came of one kind of kills; returns the differences."""
        whole, began = self.uninterrupted(settings), time.monotonic()
        num_kills, specs = self.killed(kind, settings)
        seconds = time.monotonic() - began
        found = [line for spec in specs for line in differences(whole, Path(spec.work_dir))]
        resumed = sum(step > 0 for spec in specs for step in starts(spec))
        about = f"{kind:9} {settings['precision']:9} {settings['zero_stage']:4} {num_kills:6} {resumed:7}"
        print(f"{about}  {len(history(whole)) * len(specs):6,} {len(found):6} {seconds:7.0f}", flush=True)
        for line in found[:3]:
            print(f"    {line}")
        return found


def starts(spec: RunSpec) -> list[int]:
    """The step from which each attempt went on."""
    rows = read_rows(Path(spec.work_dir) / "events.jsonl")
    return [row["step"] for row in rows if row["kind"] == "start"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30, help="of each run; 17 or more")
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--zero-stages", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    if options.steps < 17:
        parser.error(f"--steps: expected 17 or more, so that all points lie within the run, found {options.steps}")
    each = [{"precision": p, "zero_stage": z} for p in options.precisions for z in options.zero_stages]
    once = [s for s in each if s["zero_stage"] == 1][:1] or each[:1]  # apart and launcher: of one of them
    plan = [(kind, settings) for settings in each for kind in options.kinds if kind in ("steps", "within")]
    plan += [(kind, settings) for settings in once for kind in options.kinds if kind in ("apart", "launcher")]
    started, found = time.monotonic(), []
    print("kills     precision ZeRO number resumed  values differ seconds")
    with tempfile.TemporaryDirectory() as folder, Ranks() as ranks:
        write_splits(Path(folder) / "tokens")
        sweep = Sweep(Path(folder), ranks, options.steps)
        for kind, settings in plan:
            found += sweep.row(kind, settings)
    said = f"FAILED: {len(found)} values differ" if found else "every value is the same to the bit"
    print(f"{said}; {time.monotonic() - started:.0f} s")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
