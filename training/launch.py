"""Start a training run, watch it, and never leave a process of it behind.

The `deepspeed` launcher runs as a child in the caller's process group, tied to the caller's life (see
training/processes.py), with an environment that no stray file or variable can change: a free port, no host file, no
.deepspeed_env, one thread per rank. With `hosts.hostfile` it runs on each host instead (training/hosts.py).
A stop (SIGTERM, SIGINT or `request_stop`) is a file that the ranks see after their step: they save and end. What still
runs after `stop_grace_seconds` is killed, save or no save.

in    RunSpec; on_progress(row) is called with each new row of metrics.jsonl
out   LaunchResult, judged by result.json and a verified checkpoint rather than by the exit code alone
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import training
from training import processes, shared_memory, toolchain
from training.config import RunSpec, TrainConfig
from training.hints import with_hints
from training.hosts import HostError, RemoteRanks, describe_code, read_hostfile
from training.metrics import Tail
from training.run_files import HEARTBEAT_FILE, LOG_FILE, RESULT_FILE, RUN_FILE, STOP_FILE
from training.run_lock import RunLock

logger = logging.getLogger(__name__)
POLL_SECONDS = 0.2


class LaunchError(RuntimeError):
    """Training ended without its result: the message carries the end of its log."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchResult:
    status: str  # "finished", or "stopped" on request with a checkpoint to resume from
    step: int
    checkpoint: Path
    seconds: float
    build_seconds: float  # compiling DeepSpeed's op; 0 when it was there


def request_stop(work_dir: Path) -> None:
    """Ask the run in `work_dir` to save and end after its step."""
    (work_dir / STOP_FILE).touch()


class StopSignals:
    """Turns SIGTERM and SIGINT into a flag while training runs; only the main thread may, elsewhere it is idle."""

    def __init__(self) -> None:
        self.requested = False
        self.previous: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self.previous[number] = signal.signal(number, self.on_signal)
        return self

    def on_signal(self, number: int, frame: object) -> None:
        self.requested = True

    def __exit__(self, *details: object) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def uses_cuda(config: TrainConfig) -> bool:
    if config.device != "auto":
        return config.device == "cuda"
    import torch

    return torch.cuda.is_available()


def child_environment(config: TrainConfig, run_id: str) -> dict[str, str]:
    """The caller's environment with everything pinned that would change the run unseen."""
    environment = dict(os.environ)
    project = str(Path(training.__file__).parent.parent)
    cuda = uses_cuda(config)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        environment.pop(name, None)
    if not cuda:
        environment.pop("CUDA_VISIBLE_DEVICES", None)  # the launcher reads it as an include list, on CPU too
    environment |= {
        "PATH": toolchain.search_path(),
        "PYTHONPATH": os.pathsep.join(filter(None, (project, os.environ.get("PYTHONPATH")))),
        "PYTHONUNBUFFERED": "1",
        "DS_ACCELERATOR": "cuda" if cuda else "cpu",
        "DS_ENV_FILE": os.devnull,
        "OMP_NUM_THREADS": str(config.threads_per_rank),
        "TORCH_EXTENSIONS_DIR": str(toolchain.extensions_dir()),
        "TOKENIZERS_PARALLELISM": "false",
        processes.MARK: run_id,
        processes.OWNER: processes.identify(os.getpid()),
    }
    if cuda:  # the caller's own choice stands; see docs/multi-node.md
        environment.setdefault("NCCL_DEBUG", "WARN")  # else an error of NCCL names no cause
        environment.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3")  # 0 would hang on a peer's death
    return environment


class Ranks(Protocol):
    """What launch() needs of the ranks, wherever they run."""

    def start(self, run_file: Path, run_id: str) -> None: ...

    def poll(self) -> int | None:
        """None while they run, then an exit code; 0 is a good end."""

    def ending(self) -> str:
        """The exit code in words."""

    def beat(self) -> None:
        """Called several times a second while they run."""

    def end(self) -> None:
        """Called once, when nothing of them may go on."""


class LocalRanks:
    """All ranks on this machine, as children of one `deepspeed` runner; for backend torch the one rank itself."""

    def __init__(self, config: TrainConfig, work_dir: Path, environment: dict[str, str]):
        self.config, self.work_dir, self.environment, self.port = config, work_dir, environment, free_port()
        self.child: subprocess.Popen[bytes] | None = None

    def command(self, run_file: Path) -> list[str]:
        tied = [sys.executable, "-m", "training.processes", str(os.getpid())]
        if self.config.backend == "torch":
            return [*tied, sys.executable, "-u", "-m", "training.rank", "--config", str(run_file)]
        runner = [sys.executable, "-u", "-m", "deepspeed.launcher.runner", f"--hostfile={os.devnull}"]
        runner += [f"--num_accelerators={self.config.world_size}", f"--master_port={self.port}"]
        return [*tied, *runner, "--module", "training.rank", "--config", str(run_file)]

    def start(self, run_file: Path, run_id: str) -> None:
        with (self.work_dir / LOG_FILE).open("ab") as log:
            self.child = subprocess.Popen(
                self.command(run_file),
                env=self.environment,
                cwd=self.work_dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def poll(self) -> int | None:
        return self.child.poll() if self.child else None

    def ending(self) -> str:
        return describe_code(self.poll() or 0)

    def beat(self) -> None:
        pass  # they watch this process

    def end(self) -> None:
        mark = self.environment[processes.MARK]
        if states := processes.rank_states(mark):
            with (self.work_dir / LOG_FILE).open("a", encoding="utf-8") as log:
                log.write("\n".join(states) + "\n")
        processes.kill_marked(mark, grace_seconds=1.0)
        shared_memory.free(self.port)


def place_ranks(config: TrainConfig, work_dir: Path, environment: dict[str, str], signals: StopSignals) -> Ranks:
    """The ranks as the config places them. Nothing runs yet but the shells to other hosts."""
    if not config.hosts.hostfile:
        return LocalRanks(config, work_dir, environment)
    return RemoteRanks(
        read_hostfile(Path(config.hosts.hostfile), config.world_size),
        config.hosts,
        environment,
        log=work_dir / LOG_FILE,
        timeout_seconds=config.init_timeout_seconds,
        stopping=lambda: signals.requested or (work_dir / STOP_FILE).exists(),
    )


def launch(spec: RunSpec, on_progress: Callable[[dict[str, Any]], None] | None = None) -> LaunchResult:
    """Train to the end or to a stop request, resuming what is in spec.work_dir. Raises LaunchError otherwise."""
    config, work_dir = spec.train, Path(spec.work_dir).resolve()
    work_dir.mkdir(parents=True, exist_ok=True)
    with RunLock(work_dir / "run.lock"), StopSignals() as signals:
        started, run_id = time.monotonic(), uuid.uuid4().hex
        environment = child_environment(config, run_id)
        build_seconds = 0.0
        if config.backend == "deepspeed" and not config.hosts.hostfile and not uses_cuda(config):
            toolchain.check_toolchain()
            build_seconds = toolchain.prebuild(environment)
        for name in (STOP_FILE, RESULT_FILE):
            (work_dir / name).unlink(missing_ok=True)
        spec.write(work_dir / RUN_FILE)
        shared_memory.free_orphans()
        log = LogTail(work_dir / LOG_FILE)
        ranks = place_ranks(config, work_dir, environment, signals)
        try:
            ranks.start(work_dir / RUN_FILE, run_id)
            ending = supervise(ranks, config, work_dir, signals, on_progress)
        except HostError as error:
            raise LaunchError(with_hints(str(error), str(error))) from error
        finally:
            ranks.end()
            (work_dir / STOP_FILE).unlink(missing_ok=True)
        result = judge(work_dir, run_id, ending, log, time.monotonic() - started, build_seconds)
        if result.status == "stopped" and ending and not signals.requested:
            what = (
                f"and nobody had asked it to stop; it still saved {result.checkpoint}, from which the next run goes on"
            )
            raise failure(ending, what, log)
        return result


class LogTail:
    """The log of one launch: what stands in the file from here on."""

    def __init__(self, path: Path):
        self.path = path
        self.offset = path.stat().st_size if path.exists() else 0

    def text(self) -> str:
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read().decode(errors="replace")


def failure(ending: str, what: str, log: LogTail) -> LaunchError:
    """How training ended, the end of its log, and the advice that fits."""
    text = log.text()
    end = "\n".join(text.splitlines()[-30:])
    return LaunchError(with_hints(f"training {ending or 'ended'} {what}; the end of {log.path}:\n{end}", text + ending))


def supervise(
    ranks: Ranks,
    config: TrainConfig,
    work_dir: Path,
    signals: StopSignals,
    on_progress: Callable[[dict[str, Any]], None] | None,
) -> str:
    """Watch the ranks to their end; returns how they ended, empty for well."""
    heartbeat, tail = work_dir / HEARTBEAT_FILE, Tail(work_dir / "metrics.jsonl")
    heartbeat.touch()
    kill_at, alive, last_step = None, Pulse(heartbeat), 0
    while (code := ranks.poll()) is None:
        signals.requested |= (work_dir / STOP_FILE).exists()
        if kill_at is None and signals.requested:
            request_stop(work_dir)
            kill_at = time.monotonic() + config.stop_grace_seconds
        if kill_at is not None and time.monotonic() > kill_at:
            return f"was killed: it did not save and stop within {config.stop_grace_seconds} s (stop_grace_seconds)"
        if alive.silence() > config.stall_timeout_seconds:
            since = (
                f"after step {last_step}" if last_step else f"since its start, with {alive.beats or 'no'} heartbeats,"
            )
            return (
                f"was killed: {since} no step, save or evaluation ended for {config.stall_timeout_seconds} s "
                "(stall_timeout_seconds)"
            )
        ranks.beat()
        last_step = forward(tail, on_progress) or last_step
        time.sleep(POLL_SECONDS)
    signals.requested |= (work_dir / STOP_FILE).exists()
    forward(tail, on_progress)
    return "" if code == 0 else f"ended with {ranks.ending()}"


class Pulse:
    """How long a file has not been touched, by this machine's clock alone: another host's may differ."""

    def __init__(self, path: Path):
        self.path, self.beats = path, 0
        self.touched, self.seen = path.stat().st_mtime_ns, time.monotonic()

    def silence(self) -> float:
        touched = self.path.stat().st_mtime_ns
        if touched != self.touched:
            self.touched, self.seen, self.beats = touched, time.monotonic(), self.beats + 1
        return time.monotonic() - self.seen


def forward(tail: Tail, on_progress: Callable[[dict[str, Any]], None] | None) -> int:
    """Hand on the new rows; the step of the last one, 0 if there was none."""
    step = 0
    for row in tail.rows():
        step = row["step"]
        if on_progress is not None:
            on_progress(row)
    return step


def judge(work_dir: Path, run_id: str, ending: str, log: LogTail, seconds: float, build_seconds: float) -> LaunchResult:
    """A result of this very launch with a checkpoint that verifies is a success; an exit code alone proves nothing."""
    from training import checkpoint as checkpoints  # loads torch: the command line answers without it

    path = work_dir / RESULT_FILE
    result = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if result.get("run_id") != run_id:
        raise failure(ending, "and left no result", log)
    folder = checkpoints.root(work_dir) / result["checkpoint"]
    fault = checkpoints.find_fault(folder)
    if fault:
        raise LaunchError(f"training says {result['status']} at step {result['step']}, but {folder}: {fault}")
    if ending:
        logger.warning("training %s, though the result and its checkpoint are good", ending)
    return LaunchResult(
        status=result["status"], step=result["step"], checkpoint=folder, seconds=seconds, build_seconds=build_seconds
    )
