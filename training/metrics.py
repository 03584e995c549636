"""The run's log: one JSON object per line in metrics.jsonl, and the run's turning points in events.jsonl.

Rows carry wall-clock figures, so the files never count in a digest. On resume the rows after the checkpoint's step are
cut off, so no step appears twice, and a torn last line (a kill in mid-write) goes with them. While the disk is full
rows wait in memory, in order: a checkpoint that fills it is taken back, and the run goes on.

in    rows {"kind": "step" | "validation", "step": …}
out   metrics.jsonl, events.jsonl
"""

from __future__ import annotations

import errno
import json
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows in order; a last line without its newline is not yet a row."""
    if not path.exists():
        return
    with path.open("rb") as file:  # bytes: a text reader would also split at U+2028
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)


def truncate_after(path: Path, step: int) -> int:
    """Drop rows with a later step than `step`; returns how many went. Atomic."""
    if not path.exists():
        return 0
    rows = list(read_rows(path))
    kept = [row for row in rows if row["step"] <= step]
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in kept)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    return len(rows) - len(kept)


def drop_torn_row(path: Path) -> int:
    """Cut off a last line that a kill or a full disk left without its end, before another is appended to it; returns
    its bytes."""
    if not path.exists():
        return 0
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)
    return len(data) - whole


class MetricsLog:
    """Appends rows; one write per row, so that a reader never sees half of one for long."""

    def __init__(self, work_dir: Path):
        self.metrics = work_dir / "metrics.jsonl"
        self.events = work_dir / "events.jsonl"
        drop_torn_row(self.events)  # metrics.jsonl is cut at the checkpoint's step anyway
        self.waiting: dict[Path, list[dict[str, Any]]] = {self.metrics: [], self.events: []}

    def row(self, **values: Any) -> None:
        self.append(self.metrics, values)

    def event(self, kind: str, step: int, **values: Any) -> None:
        self.append(self.events, {"kind": kind, "step": step, "time": time.time(), **values})

    def append(self, path: Path, values: dict[str, Any]) -> None:
        """Append, or keep for later if the disk is full."""
        self.waiting[path].append(values)
        try:
            self.write_waiting(path)
        except OSError as error:
            if error.errno not in FULL:
                raise
            if len(self.waiting[path]) == 1:
                logger.error("%s cannot be written: %s. Its rows wait in memory", path.name, error)

    def write_waiting(self, path: Path) -> None:
        rows = self.waiting[path]
        while rows:
            append(path, rows[0])
            del rows[0]

    def close(self) -> None:
        """Write what waits. Raises OSError where there is still no room."""
        for path in self.waiting:
            self.write_waiting(path)


def append(path: Path, values: dict[str, Any]) -> None:
    """The row is in the file, or the file is as it was."""
    with path.open("ab", buffering=0) as file:
        row, before = (json.dumps(values) + "\n").encode(), file.tell()
        written = 0
        try:
            while written < len(row):
                written += file.write(row[written:])
        except OSError:
            file.truncate(before)
            raise


class Tail:
    """New complete rows of a growing file, surviving its truncation on resume."""

    def __init__(self, path: Path):
        self.path = path
        self.offset = path.stat().st_size if path.exists() else 0
        self.inode = path.stat().st_ino if path.exists() else 0

    def rows(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        status = self.path.stat()
        if status.st_ino != self.inode and self.inode:  # rewritten by truncate_after: its rows are old ones
            self.offset = status.st_size if status.st_size <= self.offset else 0
        self.inode = status.st_ino
        with self.path.open("rb") as file:
            file.seek(min(self.offset, status.st_size))
            data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self.offset = file.tell() - len(data) + len(whole)
        return [json.loads(line) for line in whole.split(b"\n") if line]
