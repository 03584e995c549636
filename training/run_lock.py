"""One training per folder: an flock that the kernel drops when its holder dies, with pid and host for the reader.

The lock decides; the text only explains. Where a network file system does not carry locks between hosts, the text is
the second barrier: a lock text from another host is honoured until someone deletes the file.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from pathlib import Path
from types import TracebackType


class RunLockError(RuntimeError):
    """Another process trains in this folder."""


class RunLock:
    """`with RunLock(folder / "run.lock"):` or RunLockError. `wait_seconds` bridges a predecessor that is dying."""

    def __init__(self, path: Path, wait_seconds: float = 0.0):
        self.path, self.wait_seconds = path, wait_seconds
        self.descriptor = -1

    def __enter__(self) -> RunLock:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        deadline = time.monotonic() + self.wait_seconds
        while not self.try_lock():
            if time.monotonic() >= deadline:
                held_by = self.holder()
                os.close(self.descriptor)
                raise RunLockError(self.explain(held_by))
            time.sleep(0.1)
        held_by = self.holder()
        if held_by.get("host") not in (None, socket.gethostname()):
            os.close(self.descriptor)
            raise RunLockError(self.explain(held_by) + "; if that host is gone, delete this file")
        self.write({"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%F %T %z")})
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.write({})
        os.close(self.descriptor)

    def try_lock(self) -> bool:
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def holder(self) -> dict[str, object]:
        text = os.pread(self.descriptor, 4096, 0)
        try:
            return dict(json.loads(text)) if text.strip() else {}
        except ValueError:
            return {}  # a kill in mid-write: the flock alone decides

    def write(self, values: dict[str, object]) -> None:
        text = json.dumps(values).encode() if values else b""
        os.pwrite(self.descriptor, text, 0)
        os.ftruncate(self.descriptor, len(text))

    def explain(self, held_by: dict[str, object]) -> str:
        who = f"process {held_by.get('pid', '?')} on {held_by.get('host', '?')} since {held_by.get('since', '?')}"
        return f"{self.path}: {who} trains in this folder; wait for it, stop it, or use another folder"


def forget_dead_holder(path: Path) -> None:
    """Empty the text that a killed process of this host left in its lock, so that another host may take it."""
    lock = RunLock(path)
    lock.descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if lock.try_lock() and lock.holder().get("host") == socket.gethostname():
            lock.write({})
    finally:
        os.close(lock.descriptor)
