"""Ranks on several hosts: which hosts, how each is reached, and how all of them start and end together.

The owner opens a remote shell to each host of a DeepSpeed hostfile and speaks with what it starts there
(training/remote.py) over stdin and stdout. Nothing rests on a tty, on a `.deepspeed_env` or on what a login shell
exports: settings go over the pipe. Three orders, and all hosts have answered one before the next is given:

    check    versions, code, shared folder, interface, accelerators     a fault names its host
    meet     connect to the first host's port                           a wrong interface or firewall shows here
    go       DeepSpeed's launcher starts the ranks of the host

So no rank ever waits in a rendezvous for a host that will not come. Afterwards stdin stays open as the lifeline: at its
end, or when it was silent too long, a host kills its ranks. A hangup, a killed owner and a lost network all end it.

in    HostsConfig, the hostfile
out   RemoteRanks: start, poll, beat, end
ref   deepspeed/launcher/runner.py (hostfile), deepspeed/launcher/launch.py (what is started on each host)
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import logging
import os
import platform
import queue
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training import processes
from training.settings import require

logger = logging.getLogger(__name__)

PROJECT = Path(__file__).resolve().parent.parent
ANSWER = "danlu-host "  # begins each line that is an answer to an order and not output of the training
# Settings of the networks and libraries beneath. What else the ranks need is worked out on their own host.
FORWARDED_PREFIXES = ("NCCL_", "GLOO_", "TORCH_", "UCX_", "FI_")
FORWARDED = ("PYTHONPATH", "LD_LIBRARY_PATH", "XDG_CACHE_HOME", "CUDA_HOME", "CUDA_DEVICE_MAX_CONNECTIONS")
BEAT_SECONDS = 5.0
SETTLE_SECONDS = 3.0  # the launcher looks each second: a rank's death is told on all hosts by then
END_SECONDS = 20.0  # a host kills its ranks in at most 7
REFUSED_END_SECONDS = 2.0  # and where none has started there is nothing to wait for


class HostError(RuntimeError):
    """A host of the hostfile could not be reached, is not fit to train, or failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostsConfig:
    """Where the ranks run. The sum of the slots is `world_size`; the first host holds rank 0."""

    hostfile: str = ""  # a line `name slots=N` for each host, as DeepSpeed reads it; empty: this machine alone
    # Words as a shell splits them. {command} is one word, for a shell of the host to read. stdin must reach it: no -t.
    remote_shell: str = "ssh -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=15 {host} {command}"
    network_interface: str = ""  # for gloo and NCCL, of the same name on every host; empty: they choose
    master_addr: str = (
        ""  # the first host as the others reach it; empty: its address on network_interface, else its name
    )
    master_port: int = 0  # 0: one that is free on the first host

    def __post_init__(self):
        words = shlex.split(self.remote_shell)
        expected = "a command with {host} in it and {command} as a word"
        fits = "{command}" in words and any("{host}" in word for word in words)
        require(fits, "hosts.remote_shell", expected, self.remote_shell, "for example: ssh {host} {command}")
        require(0 <= self.master_port < 65536, "hosts.master_port", "0 to 65535", self.master_port, "0 finds one")
        alone = [key for key in ("network_interface", "master_addr", "master_port") if getattr(self, key)]
        require(
            bool(self.hostfile) or not alone, f"hosts.{''.join(alone[:1])}", "a hostfile with it", "none", "give it"
        )


def read_hostfile(path: Path, world_size: int) -> dict[str, int]:
    """Slots by host, in the order of the ranks. ValueError unless they add up to `world_size`."""
    if not path.is_file():
        raise ValueError(f"hosts.hostfile: expected a file, found none at {path.absolute()}; write a line per host")
    slots: dict[str, int] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        words = line.partition("#")[0].strip()
        if not words:
            continue
        match = re.fullmatch(r"(\S+)\s+slots=([1-9]\d*)", words)
        if match is None:
            raise ValueError(f"{path}:{number}: expected `name slots=N` with N of 1 or more, found {words!r}")
        if match[1] in slots:
            raise ValueError(f"{path}:{number}: {match[1]} stands there twice; put its slots on one line")
        slots[match[1]] = int(match[2])
    total = sum(slots.values())
    require(total == world_size, "world_size", f"the sum of the slots in {path} ({total})", world_size, "change either")
    return slots


def shell_words(template: str, host: str, command: str) -> list[str]:
    """The remote shell's argv; `command` stays one word, for the shell on the other side to split."""
    return [command if word == "{command}" else word.replace("{host}", host) for word in shlex.split(template)]


def remote_command() -> str:
    """What a host's shell runs: the same interpreter and checkout, at the same paths."""
    return f"cd {shlex.quote(str(PROJECT))} && exec {shlex.quote(sys.executable)} -u -m training.remote"


def forwarded_environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k.startswith(FORWARDED_PREFIXES) or k in FORWARDED}


def network_environment(config: HostsConfig) -> dict[str, str]:
    """The interface, for both libraries; NCCL reads a bare name as a prefix, `=` makes it the name."""
    name = config.network_interface
    return {"GLOO_SOCKET_IFNAME": name, "NCCL_SOCKET_IFNAME": f"={name}"} if name else {}


def versions() -> dict[str, str]:
    """What must be equal on all hosts, the source included."""
    source = hashlib.sha256()
    for folder in ("training", "kernels"):
        for path in sorted((PROJECT / folder).rglob("*.py")):
            source.update(path.relative_to(PROJECT).as_posix().encode() + b"\0" + path.read_bytes())
    libraries = {name: importlib.metadata.version(name) for name in ("torch", "deepspeed", "numpy")}
    return {"python": platform.python_version(), **libraries, "training/ and kernels/": source.hexdigest()[:12]}


def describe_code(code: int) -> str:
    """An exit code in words; the launcher's is 256 less the signal that a rank died of."""
    number = -code if code < 0 else 256 - code if 192 < code < 255 else code - 128 if code > 128 else 0
    try:
        return f"exit code {code}" + (f" ({signal.Signals(number).name})" if number else "")
    except ValueError:
        return f"exit code {code}"


class Shell:
    """The way to one host: orders go in, answers come back, and everything else goes to the log under its name."""

    def __init__(self, host: str, config: HostsConfig, environment: dict[str, str], log: Path):
        self.host, self.log = host, log
        self.shown = shlex.join(shell_words(config.remote_shell, host, "...")).replace("'...'", "...")
        self.answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self.last_lines: deque[str] = deque(maxlen=10)
        words = shell_words(config.remote_shell, host, remote_command())
        self.process = subprocess.Popen(
            [sys.executable, "-m", "training.processes", str(os.getpid()), *words],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is the owner's to answer: it asks the ranks to save
        )
        self.reader = threading.Thread(target=self.read, name=f"host-{host}", daemon=True)
        self.reader.start()

    def read(self) -> None:
        assert self.process.stdout is not None
        with self.log.open("ab", buffering=0) as log:  # one write a line: lines of two hosts do not mix
            for line in self.process.stdout:
                text = line.decode(errors="replace").rstrip("\r\n")
                if text.startswith(ANSWER):
                    self.answers.put(json.loads(text.removeprefix(ANSWER)))
                else:
                    self.last_lines.append(text)
                    log.write(f"[{self.host}] {text}\n".encode())

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended; whoever waits for it sees how
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

    def answer(self) -> dict[str, Any] | None:
        """The answer to the last order, None while there is none. HostError if it is a fault or the shell ended."""
        code = self.process.poll()
        if code is not None:
            self.reader.join(timeout=5.0)
        try:
            found = self.answers.get_nowait()
        except queue.Empty:
            if code is None:
                return None
            said = "\n".join(self.last_lines) or "(nothing)"
            raise HostError(
                f"host {self.host}: `{self.shown}` ended with {describe_code(code)} and said:\n{said}"
            ) from None
        if "fault" in found:
            raise HostError(f"host {self.host}: {found['fault']}")
        return found

    def close(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


class RemoteRanks:
    """The ranks on the hosts of a hostfile. `stopping()` says whether the owner was asked to stop."""

    def __init__(
        self,
        hosts: dict[str, int],
        config: HostsConfig,
        environment: dict[str, str],
        log: Path,
        timeout_seconds: float,
        stopping: Callable[[], bool],
    ):
        self.hosts, self.config, self.stopping, self.timeout_seconds = hosts, config, stopping, timeout_seconds
        self.shells = [Shell(host, config, environment, log) for host in hosts]
        self.last_beat = self.failed_at = 0.0
        self.running, self.mark = False, environment[processes.MARK]

    def start(self, run_file: Path, run_id: str) -> None:
        """The three orders."""
        shared = {
            "run_id": run_id,
            "run_file": str(run_file),
            "run_text": run_file.read_text(encoding="utf-8"),
            "hosts": self.hosts,
            "environment": forwarded_environment() | network_environment(self.config),
            "versions": versions(),
        }
        found = self.ask([shared | {"node": node} for node in range(len(self.shells))])
        devices = {host: answer["device"] for host, answer in zip(self.hosts, found, strict=True)}
        if len(set(devices.values())) > 1:
            raise HostError(f"the hosts would not train on the same device: {devices}; set train.device")
        name = next(iter(self.hosts)).rpartition("@")[2]
        master = {
            "master_addr": self.config.master_addr or found[0]["address"] or name,
            "master_port": found[0]["port"],
        }
        self.ask([master] * len(self.shells))
        self.running = True
        for shell in self.shells:
            shell.send(json.dumps({"go": True}))

    def ask(self, orders: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Give each host its order; the answers of all. HostError at the first fault, or when one does not answer."""
        deadline = time.monotonic() + self.timeout_seconds
        for shell, order in zip(self.shells, orders, strict=True):
            shell.send(json.dumps(order))
        answers: dict[str, dict[str, Any]] = {}
        while len(answers) < len(self.shells):
            for shell in self.shells:
                if shell.host not in answers and (answer := shell.answer()) is not None:
                    answers[shell.host] = answer
            silent = [shell for shell in self.shells if shell.host not in answers]
            if silent and time.monotonic() > deadline:
                names = ", ".join(shell.host for shell in silent)
                raise HostError(
                    f"host {names}: no answer within {self.timeout_seconds:g} s (init_timeout_seconds) through "
                    f"`{silent[0].shown}`; run it by hand with `hostname` in place of ..."
                )
            if silent and self.stopping():
                raise HostError("stopped on request while the hosts were being checked; no rank had started")
            time.sleep(0.05)
        return [answers[shell.host] for shell in self.shells]

    def poll(self) -> int | None:
        """None while ranks run, 0 when all hosts ended well, else the code of a host that did not."""
        codes = [shell.process.poll() for shell in self.shells]
        failed = [code for code in codes if code]
        if not failed:
            return 0 if None not in codes else None
        self.failed_at = self.failed_at or time.monotonic()
        settled = None not in codes or time.monotonic() - self.failed_at > SETTLE_SECONDS
        return failed[0] if settled else None

    def ending(self) -> str:
        """How each host that failed did."""
        codes = [(shell.host, shell.process.poll()) for shell in self.shells]
        return ", ".join(f"{describe_code(code)} on host {host}" for host, code in codes if code)

    def beat(self) -> None:
        """Tell the hosts that the owner lives."""
        if time.monotonic() - self.last_beat > BEAT_SECONDS:
            self.last_beat = time.monotonic()
            for shell in self.shells:
                shell.send("")

    def end(self) -> None:
        """Let go of the lifelines and wait until every host has killed its ranks and gone."""
        for shell in self.shells:
            shell.close()
        deadline = time.monotonic() + (END_SECONDS if self.running else REFUSED_END_SECONDS)
        for shell in self.shells:
            try:
                shell.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                if self.running:
                    logger.error("host %s: did not end within %d s; its ranks may still run", shell.host, END_SECONDS)
            shell.reader.join(timeout=1.0)
        processes.kill_marked(self.mark, grace_seconds=1.0)  # what is left of the shells on this side
        for shell in self.shells:
            shell.process.wait()
