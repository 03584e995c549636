"""Process trees that cannot outlive their owner.

Linux kills a child when its parent dies only if the child asked for it (PR_SET_PDEATHSIG), and the wish does not reach
grandchildren. Training has four levels: owner, `deepspeed` runner, its launch process, ranks. So the runner is started
through this module (`python -m training.processes OWNER_PID COMMAND…`), which makes the wish and then becomes the
command; each rank makes it towards the launch process, and also watches the owner itself from a thread. A dead rank
makes the launch process end. `kill_marked` finds what is left by a mark in the environment, even when re-parented.

ref   prctl(2), PR_SET_PDEATHSIG: survives execve, fires when the parent *thread* ends
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence

import psutil

PR_SET_PDEATHSIG = 1
OWNER = "DANLU_OWNER"  # "pid:start time" of the process that called launch()
MARK = "DANLU_RUN_ID"  # the same unique id in every process of one launch


def die_with_parent(parent_pid: int | None = None) -> None:
    """SIGKILL this process when its parent ends; at once if that has happened already. A no-op off Linux."""
    if not sys.platform.startswith("linux"):
        return
    parent_pid = parent_pid or os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent_pid:
        os._exit(1)


def identify(pid: int) -> str:
    """pid and start time: a number that is reused later does not match."""
    return f"{pid}:{psutil.Process(pid).create_time():.2f}"


def is_alive(identity: str) -> bool:
    pid, _, started = identity.partition(":")
    try:
        process = psutil.Process(int(pid))
        same = abs(process.create_time() - float(started)) < 0.05
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def watch_owner(interval_seconds: float = 0.5) -> None:
    """Kill this process as soon as the owner named in the environment is gone."""
    owner = os.environ.get(OWNER)
    if not owner:
        return

    def watch() -> None:
        while is_alive(owner):
            time.sleep(interval_seconds)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="watch-owner", daemon=True).start()


def marked(run_id: str, name: str = MARK) -> list[psutil.Process]:
    """Living processes of ours whose environment carries this run's mark, or another `name` with this value."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.pid != os.getpid() and process.environ().get(name) == run_id
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def rank_states(run_id: str, name: str = MARK) -> list[str]:
    """What each living rank of this run is doing, by the kernel: in a stalled run one stands out."""
    found = {}
    for process in marked(run_id, name):
        try:
            if process.cmdline()[3:4] == ["training.rank"]:  # python -u -m training.rank
                rank, seconds = int(process.environ().get("RANK", "0")), sum(process.cpu_times()[:2])
                found[rank] = f"rank {rank}: process {process.pid} {process.status()}, {seconds:.0f} s of CPU time"
        except psutil.Error:
            continue
    return [found[rank] for rank in sorted(found)]


def kill_marked(run_id: str, grace_seconds: float, name: str = MARK) -> int:
    """SIGTERM, then SIGKILL after the grace, every process of this run; returns how many there were."""
    processes = marked(run_id, name)
    for stop, wait_seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, 5.0)):
        living = marked(run_id, name)
        for process in living:
            try:
                process.send_signal(stop)
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(living, timeout=wait_seconds)
    return len(processes)


def main(arguments: Sequence[str]) -> None:
    """OWNER_PID COMMAND…: tie this process to its owner and become the command."""
    die_with_parent(int(arguments[0]))
    os.execvp(arguments[1], list(arguments[1:]))


if __name__ == "__main__":
    main(sys.argv[1:])
