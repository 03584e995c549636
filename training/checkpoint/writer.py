"""Write snapshots in a thread while training goes on: compress, hash, fsync, read back, rename, thin out older ones.

One save is in flight at most. The thread takes part in no collective, so that ranks cannot wait for one another
because of it, and yields to the training threads (a lower priority). A save that fails leaves nothing under its name
and no older checkpoint is deleted for it; what came of each save is handed to the training loop, which logs it.

in    Snapshot
out   a checkpoint folder; Outcome of each save
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.checkpoint import folder as folders
from training.checkpoint.folder import FORMAT, PARTIAL, VERSION, CheckpointError, Level
from training.checkpoint.generators import file_name
from training.checkpoint.retention import to_delete
from training.checkpoint.snapshot import Snapshot
from training.checkpoint.tensors import SUFFIX, Block, blocks
from training.config import TrainConfig
from training.environment import describe_environment
from training.metrics import read_rows

logger = logging.getLogger(__name__)
LOGS = ("metrics.jsonl", "events.jsonl")
PRIORITY = 10  # nice value of the thread beside steps, which it would slow down where ranks are as many as cores


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One save that ended. `error` is None if the checkpoint is on disk and was read back."""

    step: int
    name: str
    level: Level
    write_seconds: float
    num_bytes: int
    error: str | None = None


class Writer:
    """Lives on rank 0."""

    def __init__(self, work_dir: Path, config: TrainConfig):
        self.work_dir, self.config = work_dir, config
        self.thread: threading.Thread | None = None
        self.ended: list[Outcome] = []
        self.bug: Exception | None = None
        folders.sweep(work_dir)

    def submit(self, snapshot: Snapshot, *, beside_steps: bool = True) -> None:
        """Begin to write; waits for the save in flight first. A save that nothing runs beside keeps its priority."""
        self.wait()
        polite = beside_steps and self.config.checkpoints.asynchronous
        self.thread = threading.Thread(target=self.work, args=(snapshot, polite), name="checkpoint-writer")
        self.thread.start()
        if not self.config.checkpoints.asynchronous:
            self.wait()

    def wait(self) -> None:
        """Until no save is in flight. Raises what no save may raise; failures to write are outcomes."""
        if self.thread is not None:
            self.thread.join()
            self.thread = None
        if self.bug is not None:
            raise self.bug

    def take_outcomes(self) -> list[Outcome]:
        """The saves that ended since the last call."""
        taken = self.ended[:]
        del self.ended[: len(taken)]
        return taken

    def work(self, snapshot: Snapshot, polite: bool) -> None:
        if polite:
            with contextlib.suppress(OSError):  # of this thread alone, on Linux
                me = threading.get_native_id()
                os.setpriority(os.PRIO_PROCESS, me, max(PRIORITY, os.getpriority(os.PRIO_PROCESS, me)))
        started, name = time.perf_counter(), folders.name_of(snapshot.step)
        num_bytes, error = 0, None
        try:
            num_bytes = self.write(snapshot, name)
        except (OSError, CheckpointError) as problem:
            error = f"{type(problem).__name__}: {problem}"
            shutil.rmtree(self.partial(name), ignore_errors=True)
        except Exception as problem:  # ours to mend, and not to be lost with the thread
            self.bug = problem
            return
        seconds = time.perf_counter() - started
        self.ended.append(
            Outcome(
                step=snapshot.step,
                name=name,
                level=snapshot.level,
                write_seconds=seconds,
                num_bytes=num_bytes,
                error=error,
            )
        )

    def partial(self, name: str) -> Path:
        return folders.root(self.work_dir) / f"{PARTIAL}{name}"

    def write(self, snapshot: Snapshot, name: str) -> int:
        """The whole way of a snapshot to a checkpoint that was read back; returns its bytes."""
        partial, final = self.partial(name), folders.root(self.work_dir) / name
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        entries = {file: write_file(partial / file, content) for file, content in self.files(snapshot)}
        manifest = {"format": FORMAT, "version": VERSION, "level": snapshot.level, "files": entries}
        write_file(partial / "manifest.json", as_json(manifest))
        folders.fsync(partial)
        for path in partial.iterdir():
            forget_cached(path)
        if fault := folders.find_fault(partial):
            raise CheckpointError(f"{name} was read back after it was written, and {fault}")
        folders.commit(partial, final)
        self.thin_out(snapshot.step)
        return sum(entry["bytes"] for entry in entries.values())

    def files(self, snapshot: Snapshot) -> Iterator[tuple[str, Iterable[Block]]]:
        suffix = SUFFIX[snapshot.level]
        yield f"model{suffix}", blocks(snapshot.weights, suffix)
        yield f"optimizer{suffix}", blocks(snapshot.moments, suffix)
        for rank, content in enumerate(snapshot.generators):
            yield file_name(rank), [content]
        yield "state.json", as_json(snapshot.state)
        yield "environment.json", as_json(describe_environment())
        if snapshot.level == "archive":
            for log in LOGS:
                rows = (row for row in read_rows(self.work_dir / log) if row["step"] <= snapshot.step)
                yield log, [json.dumps(row).encode() + b"\n" for row in rows]

    def thin_out(self, newest: int) -> None:
        """Delete what retention gives up, now that `newest` is proven good. Later steps than it are none of ours: they
        were there before and did not verify."""
        present = {folders.step_of(path): path for path in folders.folders(self.work_dir)}
        levels = {step: folders.level_of(path) for step, path in present.items() if step <= newest}
        settings = self.config.checkpoints
        interval = self.config.checkpoint_interval_steps * settings.full_every
        gone = to_delete(
            levels, keep=self.config.keep_checkpoints, full_interval_steps=interval, thinning=settings.thinning
        )
        for step in gone:
            try:
                folders.remove(present[step])
            except OSError as error:
                logger.warning("checkpoint %s could not be deleted: %s", present[step].name, error)


def write_file(path: Path, content: Iterable[Block]) -> dict[str, Any]:
    """Write and fsync; returns the file's entry in the manifest."""
    digest, num_bytes = hashlib.sha256(), 0
    with path.open("wb") as file:
        for block in content:
            digest.update(block)
            num_bytes += file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": num_bytes, "sha256": digest.hexdigest()}


def as_json(values: dict[str, Any]) -> list[bytes]:
    return [(json.dumps(values, indent=1, sort_keys=True) + "\n").encode()]


def forget_cached(path: Path) -> None:
    """Ask the kernel to drop its cached pages, so that reading back reads the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
