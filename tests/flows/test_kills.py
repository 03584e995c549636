"""SIGKILL at random points: the next run ends with the same digests, and no process outlives the kill.

The suite kills a few stages once. `DANLU_KILL_MATRIX=3` kills each of the stages three times, with the encoders of
semantic dedup and the deepspeed launcher; `DANLU_KILL_SEED` repeats a draw. Each case prints a row of the table.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

STAGES = (
    "ingest", "decode", "extract", "language", "filter", "exact_dedup", "minhash_dedup", "semantic_dedup",
    "decontaminate", "mix", "tokenizer", "shards", "train", "evaluate", "export", "report",
)  # fmt: skip
ROUNDS = int(os.environ.get("DANLU_KILL_MATRIX", "0"))
SEED = os.environ.get("DANLU_KILL_SEED", "0")
CASES = [(s, n) for s in STAGES for n in range(ROUNDS)] or [("minhash_dedup", 1), ("train", 1)]
HEAVY = ("--set", "semantic_dedup.enabled=true", "--set", "train.backend=deepspeed", "--set", "train.world_size=2",
         "--set", "train.micro_batch_size=2", "--workers", "2") if ROUNDS else ("--workers", "1")  # fmt: skip
WRITE_LAST = ("evaluate", "export")  # they compute first and write at once, when it is too late to kill them
SECONDS_TO_GO = 10.0  # for the last of Ray's processes to notice that the driver is gone
TRIES = 8


@pytest.fixture(scope="module")
def whole(finished: Any, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    """The store of a run that nothing interrupted, its digests and the seconds of each stage."""
    if not ROUNDS:
        return finished.store, finished.answer.rows
    kit = request.getfixturevalue("kit")
    folder = tmp_path_factory.mktemp("whole")
    answer = kit.Danlu(folder)("run", "--config", finished.recipe, "--store", "store", "--json", *HEAVY)
    return folder / "store", answer.rows


def begun(store: Path, stage: str) -> bool:
    """Whether the stage has put anything into the store."""
    return any((store / folder / stage).exists() for folder in ("datasets", "parts", "work"))


def wait_for_start(process: Any, stage: str, store: Path, at_work: bool) -> None:
    """Until the stage before is done, and with `at_work` until this one writes."""
    before = STAGES[STAGES.index(stage) - 1] if stage != "ingest" else None
    while before and (line := process.stdout.readline()):
        if json.loads(line)["name"] == before:
            break
    while at_work and not begun(store, stage) and process.poll() is None:
        time.sleep(0.01)


def kill(process: Any, whole_tree: bool) -> None:
    """SIGKILL to the process, with `whole_tree` to all that descends from it too."""
    doomed = [process]
    if whole_tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            doomed += psutil.Process(process.pid).children(recursive=True)
    for each in doomed:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    process.communicate()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("stage", "number"), CASES)
def test_a_killed_stage_is_made_again_equal_and_leaves_no_process(
    stage: str, number: int, whole: Any, finished: Any, kit: Any, tmp_path: Path, danlu: Any
) -> None:
    source, rows = whole
    expected = {row["name"]: row for row in rows}
    draw = random.Random(f"{SEED} {stage} {number}")
    at_work, whole_tree = number > 0 and stage not in WRITE_LAST, number != 1
    longest = expected[stage]["seconds"] + (3 if number == 0 else 0)
    command = ("run", "--config", finished.recipe, "--store", "store", "--until", stage, "--json", *HEAVY)
    for attempt in range(TRIES):
        store = kit.copy_of(source, tmp_path / f"{attempt}" / "store", without=STAGES[STAGES.index(stage) :])
        danlu.folder = store.parent
        process, mark = danlu.start(*command)
        wait_for_start(process, stage, store, at_work)
        time.sleep(delay := draw.uniform(0, longest))
        kill(process, whole_tree)
        left = kit.survivors(mark, SECONDS_TO_GO)
        assert not left, left
        if not list((store / "datasets" / stage).glob("*/manifest.json")):
            break
        longest /= 2  # the kill came after the end
    else:
        pytest.fail(f"{TRIES} kills came too late")
    half_done = sum(1 for path in (store / "parts" / stage).rglob("*.json"))
    again = danlu(*command)
    unpublished = [
        path for done in store.glob("datasets/*/*/manifest.json") for path in done.parent.rglob(".writing-*")
    ]
    print(f"KILL {stage:<15} #{number} {'tree' if whole_tree else 'main':<5} {delay:5.2f} s in, attempt {attempt}; "
          f"{half_done} parts were done; rerun {again.rows[-1]['seconds']:.1f} s, "
          f"{'same digest' if again.rows[-1]['digest'] == expected[stage]['digest'] else 'OTHER DIGEST'}")  # fmt: skip
    assert {row["name"]: row["digest"] for row in again.rows} == {
        name: expected[name]["digest"] for name in STAGES[: STAGES.index(stage) + 1]
    }
    assert unpublished == []
    assert kit.survivors(again.mark, SECONDS_TO_GO) == []
