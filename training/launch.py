"""Start a training run, watch it, and never leave a process of it behind.

The `deepspeed` launcher runs as a child in the caller's process group, tied to the caller's life (see
training/processes.py), with an environment that no stray file or variable can change: a free port, no host file, no
.deepspeed_env, one thread per rank. A stop (SIGTERM, SIGINT or `request_stop`) is a file that the ranks see after
their step: they save and end. What still runs after `stop_grace_seconds` is killed, save or no save.

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
from typing import Any

import training
from training import processes, shared_memory, toolchain
from training.config import RunSpec, TrainConfig
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
    import torch

    return config.device == "cuda" or (config.device == "auto" and torch.cuda.is_available())


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
    return environment


def command(config: TrainConfig, run_file: Path, port: int) -> list[str]:
    tied = [sys.executable, "-m", "training.processes", str(os.getpid())]
    if config.backend == "torch":
        return [*tied, sys.executable, "-u", "-m", "training.rank", "--config", str(run_file)]
    runner = [sys.executable, "-u", "-m", "deepspeed.launcher.runner", f"--hostfile={os.devnull}"]
    runner += [f"--num_accelerators={config.world_size}", f"--master_port={port}", "--module", "training.rank"]
    return [*tied, *runner, "--config", str(run_file)]


def launch(spec: RunSpec, on_progress: Callable[[dict[str, Any]], None] | None = None) -> LaunchResult:
    """Train to the end or to a stop request, resuming what is in spec.work_dir. Raises LaunchError otherwise."""
    work_dir = Path(spec.work_dir).resolve()
    work_dir.mkdir(parents=True, exist_ok=True)
    with RunLock(work_dir / "run.lock"), StopSignals() as signals:
        started, run_id = time.monotonic(), uuid.uuid4().hex
        environment = child_environment(spec.train, run_id)
        build_seconds = 0.0
        if spec.train.backend == "deepspeed" and not uses_cuda(spec.train):
            toolchain.check_toolchain()
            build_seconds = toolchain.prebuild(environment)
        for name in (STOP_FILE, RESULT_FILE):
            (work_dir / name).unlink(missing_ok=True)
        spec.write(work_dir / RUN_FILE)
        shared_memory.free_orphans()
        port = free_port()
        try:
            code = supervise(
                command(spec.train, work_dir / RUN_FILE, port), spec.train, work_dir, environment, signals, on_progress
            )
        finally:
            processes.kill_marked(run_id, grace_seconds=1.0)
            shared_memory.free(port)
            (work_dir / STOP_FILE).unlink(missing_ok=True)
        return judge(work_dir, run_id, code, time.monotonic() - started, build_seconds)


def supervise(
    arguments: list[str],
    config: TrainConfig,
    work_dir: Path,
    environment: dict[str, str],
    signals: StopSignals,
    on_progress: Callable[[dict[str, Any]], None] | None,
) -> int | None:
    """Run the child to its end; returns its exit code, or None when it had to be killed."""
    heartbeat, tail = work_dir / HEARTBEAT_FILE, Tail(work_dir / "metrics.jsonl")
    heartbeat.touch()
    kill_at = None
    with (work_dir / LOG_FILE).open("ab") as log:
        child = subprocess.Popen(
            arguments,
            env=environment,
            cwd=work_dir,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    while child.poll() is None:
        if kill_at is None and (signals.requested or (work_dir / STOP_FILE).exists()):
            request_stop(work_dir)
            kill_at = time.monotonic() + config.stop_grace_seconds
        if kill_at is not None and time.monotonic() > kill_at:
            logger.error("training did not save and stop within %d s: killing it", config.stop_grace_seconds)
            return None
        if time.time() - heartbeat.stat().st_mtime > config.stall_timeout_seconds:
            logger.error("no step, save or evaluation ended for %d s: killing the run", config.stall_timeout_seconds)
            return None
        forward(tail, on_progress)
        time.sleep(POLL_SECONDS)
    forward(tail, on_progress)
    return child.returncode


def forward(tail: Tail, on_progress: Callable[[dict[str, Any]], None] | None) -> None:
    for row in tail.rows():
        if on_progress is not None:
            on_progress(row)


def judge(work_dir: Path, run_id: str, code: int | None, seconds: float, build_seconds: float) -> LaunchResult:
    """A result of this very launch with a checkpoint that verifies is a success; an exit code alone proves nothing."""
    from training import checkpoint as checkpoints  # loads torch: the command line answers without it

    path = work_dir / RESULT_FILE
    result = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if result.get("run_id") != run_id:
        lines = (work_dir / LOG_FILE).read_text(encoding="utf-8", errors="replace").splitlines()[-30:]
        ended = "was killed" if code is None else f"ended with exit code {code}"
        raise LaunchError(
            f"training {ended} and left no result; the end of {work_dir / LOG_FILE}:\n" + "\n".join(lines)
        )
    folder = checkpoints.root(work_dir) / result["checkpoint"]
    fault = checkpoints.find_fault(folder)
    if fault:
        raise LaunchError(f"training says {result['status']} at step {result['step']}, but {folder}: {fault}")
    if code != 0:
        logger.warning("the launcher's exit code is %s, though the result and its checkpoint are good", code)
    return LaunchResult(
        status=result["status"], step=result["step"], checkpoint=folder, seconds=seconds, build_seconds=build_seconds
    )
