"""Resume under real kills: is a run that was killed again and again the run that was never killed, bit for bit?

    python benchmarks/resume.py [--steps 30] [--precisions fp32 bf16] [--zero-stages 0 1 2 3] [--skip-launcher]

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
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.training.conftest import small_spec, write_splits
from tests.training.forked_ranks import KILL_VARIABLE, Kill, Ranks, differences, history
from training import launch as launching
from training.config import RunSpec
from training.metrics import read_rows

Attempt = Callable[[RunSpec, Kill | None], None]
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
    command = launching.command

    def instrumented(*arguments: Any) -> list[str]:
        return [part.replace("training.rank", "tests.training.forked_ranks") for part in command(*arguments)]

    def attempt(spec: RunSpec, kill: Kill | None) -> None:
        os.environ[KILL_VARIABLE] = json.dumps(asdict(kill) if kill else None)
        try:
            launching.launch(spec)
        except launching.LaunchError:
            if kill is None:
                raise
        else:
            assert kill is None, f"{kill}: the launch survived it"

    launching.command = instrumented
    try:
        yield attempt
    finally:
        launching.command = command
        os.environ.pop(KILL_VARIABLE, None)


def forked(ranks: Ranks) -> Attempt:
    def attempt(spec: RunSpec, kill: Kill | None) -> None:
        outcome = ranks.run(spec, kill)
        if kill is None:
            outcome.check()
        else:
            assert outcome.codes[kill.rank] == -9, f"{kill}: {outcome.codes}\n{outcome.log[-4000:]}"

    return attempt


def resumed_at(spec: RunSpec) -> list[int]:
    """The step from which each attempt went on."""
    rows = read_rows(Path(spec.work_dir) / "events.jsonl")
    return [row["step"] for row in rows if row["kind"] == "start"]


def chain(attempt: Attempt, spec: RunSpec, kills: Sequence[Kill]) -> None:
    for kill in kills:
        attempt(spec, kill)
    attempt(spec, None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30, help="of each run; 17 or more")
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--zero-stages", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--skip-launcher", action="store_true", help="only forked ranks: a third of the time")
    options = parser.parse_args()
    if options.steps < 17:
        parser.error(f"--steps: expected 17 or more, so that all points lie within the run, found {options.steps}")
    started, failed = time.monotonic(), 0
    every = [Kill("step", step, rank=step % 2) for step in range(1, options.steps + 1)]
    print("kills     precision ZeRO number resumed  values differ seconds")
    with tempfile.TemporaryDirectory() as folder, Ranks() as ranks:
        tokens, work = write_splits(Path(folder) / "tokens"), Path(folder)

        def make(name: str, **changes: Any) -> RunSpec:
            settings = {"steps": options.steps, "checkpoint_interval_steps": INTERVAL_STEPS, "log_interval_steps": 1}
            return small_spec(tokens, work / name, **(settings | changes))

        def report(kind: str, whole: RunSpec, specs: Sequence[RunSpec], num_kills: int, began: float) -> None:
            nonlocal failed
            found = [line for spec in specs for line in differences(Path(whole.work_dir), Path(spec.work_dir))]
            values = len(history(Path(whole.work_dir))) * len(specs)
            resumes = sum(step > 0 for spec in specs for step in resumed_at(spec))
            train = whole.train
            print(
                f"{kind:9} {train.precision:9} {train.zero_stage:4} {num_kills:6} {resumes:7}  {values:6,} "
                f"{len(found):6} {time.monotonic() - began:7.0f}",
                flush=True,
            )
            for line in found[:3]:
                print(f"    {line}")
            failed += bool(found)

        for precision in options.precisions:
            for stage in options.zero_stages:
                name, settings = f"{precision}-zero{stage}", {"precision": precision, "zero_stage": stage}
                whole = make(f"{name}-whole", **settings)
                forked(ranks)(whole, None)
                for kind, kills in (("steps", every), ("within", kills_within(options.steps))):
                    began, spec = time.monotonic(), make(f"{name}-{kind}", **settings)
                    chain(forked(ranks), spec, kills)
                    report(kind, whole, [spec], len(kills), began)
        precision, stage = options.precisions[0], options.zero_stages[len(options.zero_stages) // 3]
        settings = {"precision": precision, "zero_stage": stage}
        whole = make(f"{precision}-zero{stage}-whole", **settings)
        began, apart = time.monotonic(), [make(f"apart-{kill.step}", **settings) for kill in every]
        for kill, spec in zip(every, apart, strict=True):
            chain(forked(ranks), spec, [kill])
        report("apart", whole, apart, len(every), began)
        if not options.skip_launcher:
            began, spec = time.monotonic(), make("launcher", **settings)
            with launched_ranks_that_die() as attempt:
                chain(attempt, spec, every)
            report("launcher", whole, [spec], len(every), began)
    print(
        "every value is the same to the bit" if not failed else f"FAILED: {failed} of the rows above differ", end="; "
    )
    print(f"{time.monotonic() - started:.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
