"""Saves beside the training: levels, no stall for the writing, and saves that fail."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from training import checkpoint as checkpoints
from training.checkpoint import writer as writers
from training.config import CheckpointConfig, TrainConfig
from training.metrics import read_rows
from training.train import Trainer, TrainingError, train

SMALL: dict[str, Any] = {"backend": "torch", "steps": 12, "checkpoint_interval_steps": 2, "eval_interval_steps": 0}


@pytest.fixture
def run(make_spec) -> Callable[..., Path]:
    """run(name, **changes of SMALL) -> the work folder of a finished run."""

    def go(name: str = "run", **changes: Any) -> Path:
        spec = make_spec(name, **(SMALL | changes))
        Path(spec.work_dir).mkdir(exist_ok=True)
        train(spec, torch.device("cpu"))
        return Path(spec.work_dir)

    return go


def events(work_dir: Path, kind: str) -> list[dict[str, Any]]:
    return [row for row in read_rows(work_dir / "events.jsonl") if row["kind"] == kind]


def names(work_dir: Path) -> list[str]:
    return [path.name for path in reversed(checkpoints.folders(work_dir))]


@pytest.mark.parametrize(
    ("step", "level"),
    [(1, None), (2, "light"), (4, "full"), (6, "light"), (8, "archive"), (11, None), (12, "full"), (13, "archive")],
)
def test_the_highest_level_that_is_due_is_saved_and_the_end_is_an_archive(step, level):
    settings = CheckpointConfig(full_every=2, archive_every=4)
    config = TrainConfig(steps=13, checkpoint_interval_steps=2, checkpoints=settings)
    assert checkpoints.level_at(step, config) == level
    never = dataclasses.replace(config, checkpoints=CheckpointConfig(full_every=0, archive_every=0))
    assert checkpoints.level_at(step, never) == ("archive" if step == 13 else level and "light")


def test_every_level_resumes_to_the_same_bits(run, make_spec):
    """A whole run leaves a light, a full and an archived checkpoint; from each a run goes on to the same end."""
    levels = CheckpointConfig(full_every=2, archive_every=3)
    whole = run("whole", checkpoints=levels, keep_checkpoints=9)
    end = (whole / "checkpoints" / "step-00000012" / "model.safetensors").read_bytes()
    moments = (whole / "checkpoints" / "step-00000012" / "optimizer.safetensors").read_bytes()
    losses = [row["loss"] for row in read_rows(whole / "metrics.jsonl")]
    forms = {event["name"]: event["level"] for event in events(whole, "checkpoint")}
    assert list(forms.values()) == ["light", "full", "archive", "full", "light", "archive"]
    for last in (10, 8, 6):
        for path in checkpoints.folders(whole):
            if int(path.name[5:]) > last:
                checkpoints.folder.remove(path)
        run("whole", checkpoints=levels, keep_checkpoints=9)
        assert (whole / "checkpoints" / "step-00000012" / "model.safetensors").read_bytes() == end
        assert (whole / "checkpoints" / "step-00000012" / "optimizer.safetensors").read_bytes() == moments
        assert [row["loss"] for row in read_rows(whole / "metrics.jsonl")] == losses


def test_an_archive_holds_the_log_up_to_its_step(run):
    work_dir = run(checkpoints=CheckpointConfig(archive_every=3))
    folder = work_dir / "checkpoints" / "step-00000006"
    assert [row["step"] for row in read_rows(folder / "metrics.jsonl")] == [1, 2, 3, 4, 5, 6]
    assert [row["kind"] for row in read_rows(folder / "events.jsonl")] == ["start", "checkpoint", "checkpoint"]
    assert load_file(folder / "model.safetensors").keys() == checkpoints.read(folder).weights().keys()


def test_steps_go_on_while_a_checkpoint_is_written_and_only_one_is_in_flight(run, monkeypatch):
    """The first write is held until the second save, at step 4, has waited for 0.3 s."""
    held, seen = threading.Event(), []
    write = writers.Writer.write

    def slow(self, snapshot, name):
        seen.append(("begin", snapshot.step))
        if snapshot.step == 2:
            assert held.wait(60)
        result = write(self, snapshot, name)
        seen.append(("end", snapshot.step))
        return result

    monkeypatch.setattr(writers.Writer, "write", slow)
    save = checkpoints.Saver.save

    def released(self, engine, progress, *others, **named):
        if progress.step == 4:
            seen.append(("step", 4))
            threading.Timer(0.3, held.set).start()
        save(self, engine, progress, *others, **named)

    monkeypatch.setattr(checkpoints.Saver, "save", released)
    work_dir = run(steps=6)
    assert seen[:4] == [("begin", 2), ("step", 4), ("end", 2), ("begin", 4)]
    waits = {event["step"]: event["wait_seconds"] for event in events(work_dir, "checkpoint")}
    assert waits[4] > 0.2 > waits[2]


def test_what_is_written_is_the_state_at_the_save_though_training_went_on(run, monkeypatch):
    """Written late, at the same step, and without a thread: the same bytes."""
    at_once = run("at_once", keep_checkpoints=9, checkpoints=CheckpointConfig(asynchronous=False, archive_every=1))
    write = writers.Writer.write
    monkeypatch.setattr(writers.Writer, "write", lambda *args: (threading.Event().wait(0.05), write(*args))[1])
    later = run("later", keep_checkpoints=9, checkpoints=CheckpointConfig(archive_every=1))
    for name in names(at_once):
        for file in ("model.safetensors", "optimizer.safetensors", "state.json", "rng-00000.pt"):
            assert (later / "checkpoints" / name / file).read_bytes() == (
                at_once / "checkpoints" / name / file
            ).read_bytes()


def test_the_writer_yields_to_the_steps_and_not_once_they_have_ended(run, monkeypatch):
    write, nice = writers.Writer.write, {}

    def noted(self, snapshot, name):
        nice[snapshot.step] = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        return write(self, snapshot, name)

    monkeypatch.setattr(writers.Writer, "write", noted)
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    run(steps=4)
    assert nice == {2: max(ours, writers.PRIORITY), 4: ours}


def test_a_run_whose_end_is_a_compressed_checkpoint_leaves_a_plain_one(run, make_spec):
    """Shortened to where it was stopped, it has nothing left to do but that."""
    work_dir = run()
    for name in names(work_dir)[-1:]:
        checkpoints.folder.remove(work_dir / "checkpoints" / name)
    assert not checkpoints.read(checkpoints.folders(work_dir)[0]).is_plain()
    run(steps=10, resume_on_changed_config=True)
    newest = checkpoints.read(checkpoints.folders(work_dir)[0])
    assert (newest.progress.step, newest.is_plain(), checkpoints.find_fault(newest.folder)) == (10, True, None)
    assert json.loads((work_dir / "result.json").read_text())["status"] == "finished"


def test_a_run_that_fails_still_finishes_the_save_in_flight(run, make_spec, monkeypatch):
    def diverge(self, loss):
        if self.progress.step == 5:
            raise TrainingError("no number")

    monkeypatch.setattr(Trainer, "check_loss", diverge)
    with pytest.raises(TrainingError, match="no number"):
        run("run")
    work_dir = Path(make_spec("run", **SMALL).work_dir)
    assert names(work_dir) == ["step-00000002", "step-00000004"]
    assert [event["step"] for event in events(work_dir, "checkpoint")] == [2, 4]


@pytest.fixture
def file_limit() -> Iterator[Callable[[int], None]]:
    """limit(bytes): no file may grow beyond that, as with a quota."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def limit_between(monkeypatch, file_limit, first: int, last: int) -> None:
    """Files of more than 40 kB cannot be written by the saves of those steps."""
    write = writers.Writer.write

    def limited(self, snapshot, name):
        file_limit(40_000 if first <= snapshot.step <= last else 1 << 40)
        try:
            return write(self, snapshot, name)
        finally:
            file_limit(1 << 40)

    monkeypatch.setattr(writers.Writer, "write", limited)


def test_failed_saves_are_named_and_the_next_interval_tries_again(run, monkeypatch, file_limit, caplog):
    limit_between(monkeypatch, file_limit, 4, 6)
    work_dir = run(keep_checkpoints=1)
    failed = events(work_dir, "checkpoint_failed")
    assert [(event["step"], event["in_a_row"]) for event in failed] == [(4, 1), (6, 2)]
    assert all("File too large" in event["reason"] for event in failed)
    assert "checkpoint step-00000004 could not be written" in caplog.text
    assert [event["step"] for event in events(work_dir, "checkpoint")] == [2, 8, 10, 12]
    assert [path.name for path in (work_dir / "checkpoints").iterdir()] == ["step-00000012"]
    assert [row["step"] for row in read_rows(work_dir / "metrics.jsonl")] == list(range(1, 13))


def test_three_failures_in_a_row_end_the_run_and_the_older_checkpoint_stays(run, make_spec, monkeypatch, file_limit):
    limit_between(monkeypatch, file_limit, 4, 99)
    with pytest.raises(
        checkpoints.CheckpointError, match=r"3 checkpoints in a row .* newest good one is step-00000002"
    ):
        run(keep_checkpoints=1)
    work_dir = Path(make_spec("run", **SMALL).work_dir)
    assert [path.name for path in (work_dir / "checkpoints").iterdir()] == ["step-00000002"]
    monkeypatch.undo()
    assert names(run(keep_checkpoints=1)) == ["step-00000012"]


def test_a_failed_last_save_ends_the_run_with_an_error(run, make_spec, monkeypatch, file_limit):
    limit_between(monkeypatch, file_limit, 12, 12)
    with pytest.raises(checkpoints.CheckpointError, match=r"the last checkpoint could not be written.*File too large"):
        run()
    assert names(Path(make_spec("run", **SMALL).work_dir)) == ["step-00000008", "step-00000010"]


def test_a_checkpoint_that_reads_back_wrong_is_a_failed_save_and_deletes_nothing(run, make_spec, monkeypatch):
    fsync = writers.folders.fsync

    def damage(path: Path) -> None:
        fsync(path)
        if path.name == ".partial-step-00000006":
            with (path / "state.json").open("r+b") as file:
                file.write(b"[")

    monkeypatch.setattr(writers.folders, "fsync", damage)
    work_dir = run(steps=7, keep_checkpoints=1)
    [failed] = events(work_dir, "checkpoint_failed")
    assert "read back" in failed["reason"] and "state.json differs from its SHA-256" in failed["reason"]
    assert names(work_dir) == ["step-00000007"]


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of its own, of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_survived_by_the_run_and_by_its_log(make_spec, small_disk, monkeypatch, caplog):
    """Full from step 3 to 27: saves fail, and rows of the log, more than a page of them, wait in memory."""
    filler, take_step = small_disk / "filler", Trainer.step

    def stepped(self):
        stopping = take_step(self)
        if self.progress.step == 3:
            self.saver.settle()
            with pytest.raises(OSError, match="No space"), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
        if self.progress.step == 27:
            self.saver.settle()
            assert len(list(read_rows(small_disk / "metrics.jsonl"))) < 27
            filler.unlink()
        return stopping

    monkeypatch.setattr(Trainer, "step", stepped)
    settings = SMALL | {"steps": 40, "checkpoint_interval_steps": 10, "checkpoints": CheckpointConfig(max_failures=9)}
    spec = dataclasses.replace(make_spec(**settings), work_dir=str(small_disk))
    train(spec, torch.device("cpu"))
    failed = events(small_disk, "checkpoint_failed")
    assert [event["step"] for event in failed] == [10, 20]
    assert all("No space left on device" in event["reason"] for event in failed)
    assert [row["step"] for row in read_rows(small_disk / "metrics.jsonl")] == list(range(1, 41))
    assert names(small_disk) == ["step-00000030", "step-00000040"]
    assert json.loads((small_disk / "result.json").read_text())["checkpoint"] == "step-00000040"
    assert "metrics.jsonl cannot be written" in caplog.text
