"""A function in a child process: a page that hangs it, fills the memory or kills it costs that page only.

One child serves one thread of a worker for as long as target and limits stay the same: it is started once (a second of
imports) and costs one round trip over a socket a page. Messages are JSON and text, never pickle: a child that a hostile
page has taken over can lie about that page, and no more.

The time limit counts processor time, so that a busy machine does not change the outcome; wall clock is the wider limit
for a child that sleeps. Memory is the resident set above that of the child at rest, sampled while a page is read and
checked again against the kernel's high-water mark when it is done, which catches what happened between two samples.
RLIMIT_AS alone does not suit: trafilatura swallows the MemoryError and calls the page empty. It is a backstop at twice
the limit, and the kernel, when short of memory, is told to take the child first.

A child that died is started again and the page tried once more: only a page that kills it twice is to blame, so a stray
SIGKILL changes nothing in the data. The child dies with its owner (PR_SET_PDEATHSIG, and end of file on its socket).
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tasks.clean.extract.sandbox_child import encode, receive

ROOT = Path(__file__).resolve().parents[3]  # where the child finds this package
SAMPLE_SECONDS = 0.05  # at most 100 MB further; the address space is limited as well
START_SECONDS = 120.0  # imports, on a loaded machine
REST_FRACTION = 0.25  # of the memory limit: a child that holds more between pages is replaced
CLOSE_SECONDS = 10.0  # for a handler to end what it holds (a browser)

log = logging.getLogger(__name__)


class SandboxFailure(RuntimeError):
    """One request was not answered. `kind`: timeout, memory, crashed (the child died twice) or failed (it raised)."""

    def __init__(self, kind: str, detail: str):
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail = kind, detail


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one request may use."""

    cpu_seconds: float
    wall_seconds: float
    memory_mb: int  # resident, above the child at rest
    tree: bool = False  # the child has children of its own (a browser): they count, and end with it


class _ChildDied(Exception):
    """The child ended instead of answering."""


class Sandbox:
    """`target` ("module:function"), called once in the child with `settings`, gives the handler of all requests."""

    def __init__(self, target: str, settings: Mapping[str, Any], limits: Limits):
        self.target, self.settings, self.limits = target, dict(settings), limits
        self.num_started = 0
        self.owner = os.getpid()
        self._child: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._rest_mb = 0.0

    @property
    def pid(self) -> int | None:
        """Of the living child."""
        return self._child.pid if self._child and self._child.poll() is None else None

    def call(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The handler's answer. Raises SandboxFailure, after which the next call is served as if nothing had been."""
        message = encode(request)
        try:
            return self._attempt(message)
        except _ChildDied as death:
            log.warning("%s: the child process ended (%s), trying once more", self.target, death)
        try:
            return self._attempt(message)
        except _ChildDied as death:
            raise SandboxFailure("crashed", f"the child process ended twice on it: {death}") from None

    def close(self) -> None:
        """End the child; a further call would start another."""
        self._end(grace_seconds=CLOSE_SECONDS)

    def _attempt(self, message: bytes) -> dict[str, Any]:
        if self.pid is None:
            self._start()
        assert self._socket is not None
        try:
            self._socket.settimeout(self.limits.wall_seconds)
            self._socket.sendall(message)
            self._watch()
            answer = receive(self._socket)
        except (ConnectionError, EOFError):
            raise _ChildDied(self._end(grace_seconds=0.2)) from None
        except TimeoutError:
            self._end()
            raise SandboxFailure("timeout", f"no answer within {self.limits.wall_seconds:g} s") from None
        except BaseException:  # over a limit; or Ctrl-C, after which an answer would be taken for that of the next page
            self._end()
            raise
        return self._checked(answer)

    def _watch(self) -> None:
        """Return when the answer begins to arrive. Raises SandboxFailure when a limit is passed."""
        if self._answered(SAMPLE_SECONDS):
            return  # the common case, without a look at the child
        limits, started = self.limits, time.monotonic() - SAMPLE_SECONDS
        first_cpu, _ = self._sample()
        while not self._answered(SAMPLE_SECONDS):
            cpu, resident_mb = self._sample()
            cpu, wall = cpu - first_cpu, time.monotonic() - started
            if cpu > limits.cpu_seconds or wall > limits.wall_seconds:
                raise SandboxFailure("timeout", f"{cpu:.1f} s of processor time in {wall:.1f} s; {limits}")
            if resident_mb - self._rest_mb > limits.memory_mb:
                raise SandboxFailure("memory", f"{resident_mb - self._rest_mb:,.0f} MB and growing; {limits}")

    def _answered(self, seconds: float) -> bool:
        assert self._socket is not None
        return bool(select.select([self._socket], [], [], seconds)[0])

    def _checked(self, answer: dict[str, Any]) -> dict[str, Any]:
        peak_mb = answer["peak_mb"] - self._rest_mb
        if answer.get("failure") == "memory" or peak_mb > self.limits.memory_mb:
            self._end()
            raise SandboxFailure("memory", f"{peak_mb:,.0f} MB; {self.limits}")
        if answer["rest_mb"] - self._rest_mb > REST_FRACTION * self.limits.memory_mb:
            self.close()
        if "failure" in answer:
            raise SandboxFailure(answer["failure"], answer["detail"])
        return answer["result"]

    def _sample(self) -> tuple[float, float]:
        """Processor seconds and resident MB; zeros for a process that is gone, which the socket tells soon enough."""
        cpu = resident = 0.0
        for process in self._family():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                cpu += times.user + times.system
                resident += process.memory_info().rss
        return cpu, resident / (1 << 20)

    def _family(self) -> list[psutil.Process]:
        """The child, and with `limits.tree` all its descendants."""
        try:
            process = psutil.Process(self._child.pid) if self._child else None
            return [process, *(process.children(recursive=True) if self.limits.tree else ())] if process else []
        except psutil.Error:
            return []

    def _start(self) -> None:
        self._end()
        self._socket, theirs = socket.socketpair()
        address_space_mb = 0 if self.limits.tree else 2 * self.limits.memory_mb  # a browser reserves terabytes
        settings = json.dumps(self.settings)
        path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        with theirs:
            arguments = [str(theirs.fileno()), str(os.getpid()), self.target, settings, str(address_space_mb)]
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", "tasks.clean.extract.sandbox_child", *arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            )
        self.num_started += 1
        try:
            self._socket.settimeout(START_SECONDS)
            first = receive(self._socket)
            self._rest_mb = self._sample()[1] if self.limits.tree else first["rest_mb"]
        except (ConnectionError, EOFError, TimeoutError) as error:
            how = self._end(grace_seconds=1.0)
            raise RuntimeError(
                f"the child process for {self.target} did not start ({how}): see what it wrote to stderr"
            ) from error
        except BaseException:
            self._end()
            raise

    def _end(self, grace_seconds: float = 0.0) -> str:
        """Close the socket, which asks the child to leave, kill it after the grace; returns how it ended."""
        family = self._family() if self.limits.tree else []
        child, connection, self._child, self._socket = self._child, self._socket, None, None
        if connection is not None:
            connection.close()
        if child is None:
            return "was not running"
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=grace_seconds)
        returncode = child.poll()
        for process in family[1:]:
            with contextlib.suppress(psutil.Error):
                process.kill()
        child.kill()
        child.wait()
        if returncode is None:
            return "had to be killed"
        return signal.Signals(-returncode).name if returncode < 0 else f"exit code {returncode}"


_local = threading.local()  # a child dies with the thread that started it, so each thread has its own
_open: weakref.WeakSet[Sandbox] = weakref.WeakSet()


def shared_sandbox(target: str, settings: Mapping[str, Any], limits: Limits) -> Sandbox:
    """The sandbox of this thread for these settings, kept from call to call and ended with the process."""
    key = (os.getpid(), target, json.dumps(settings, sort_keys=True), limits)
    kept: dict[tuple[Any, ...], Sandbox] = _local.__dict__.setdefault("sandboxes", {})
    for other in [other for other in kept if other[:2] == key[:2] and other != key]:
        kept.pop(other).close()  # other settings for the same target: no longer wanted
    if key not in kept:
        kept[key] = Sandbox(target, settings, limits)
        _open.add(kept[key])
    return kept[key]


@atexit.register
def close_all() -> None:
    """End the children of all threads of this process."""
    for sandbox in list(_open):
        if sandbox.owner == os.getpid():  # a forked copy of this process must leave the children alone
            sandbox.close()
