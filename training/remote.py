"""One host's part of a launch over several: `python -m training.remote`, started by the owner through a remote shell.

It obeys the three orders of training/hosts.py, runs DeepSpeed's launcher with this host's number, and ends with the
owner: the end of stdin, or a silence longer than any step may take, kills what runs here. The ranks of this host in
turn take this process for their owner (training/processes.py), so its own death ends them too.

in    orders, one JSON object a line, then empty lines while the owner lives
out   answers, one JSON object a line behind ANSWER; all other output is the training's
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from training import processes, shared_memory, toolchain
from training.config import RunSpec
from training.hosts import ANSWER, network_environment, versions
from training.launch import child_environment, uses_cuda
from training.run_lock import forget_dead_holder

POLL_SECONDS = 0.2
SHARED_FOLDER_SECONDS = 30.0  # a network file system shows another host's file late
MEET_SECONDS = 10.0
FIRST_ORDER_SECONDS = 60.0


class OwnerGone(RuntimeError):
    """Nobody is left to train for."""


class HostFault(RuntimeError):
    """This host cannot take part; the owner is told the text."""


class Orders:
    """Lines from the owner on stdin."""

    def __init__(self) -> None:
        self.pending, self.heard, self.silence_seconds = b"", time.monotonic(), FIRST_ORDER_SECONDS

    def poll(self, seconds: float) -> bytes | None:
        """A line, or None if none came in time. Raises OwnerGone at the end of stdin and after too long a silence."""
        if b"\n" not in self.pending and select.select([0], [], [], seconds)[0]:
            received = os.read(0, 1 << 16)
            if not received:
                raise OwnerGone("the owner closed the connection or is gone")
            self.pending, self.heard = self.pending + received, time.monotonic()
        if time.monotonic() - self.heard > self.silence_seconds:
            raise OwnerGone(f"the owner was silent for {self.silence_seconds:g} s")
        if b"\n" not in self.pending:
            return None
        line, _, self.pending = self.pending.partition(b"\n")
        return line

    def next(self) -> dict[str, Any]:
        while not (line := self.poll(POLL_SECONDS)):
            continue
        return dict(json.loads(line))


def answer(**values: Any) -> None:
    os.write(1, f"{ANSWER}{json.dumps(values)}\n".encode())  # in one piece: stderr may join it on the way


def check(order: dict[str, Any]) -> RunSpec:
    """Compare this host with what the owner has. HostFault says what differs."""
    here = versions()
    for name, wanted in order["versions"].items():
        if here[name] != wanted:
            raise HostFault(f"{name} is {here[name]} here and {wanted} where the run was started; install the same")
    run_file, deadline = Path(order["run_file"]), time.monotonic() + SHARED_FOLDER_SECONDS
    while not run_file.is_file() or run_file.read_text(encoding="utf-8") != order["run_text"]:
        if time.monotonic() > deadline:
            raise HostFault(
                f"{run_file} is not there or not the one just written; the work folder must be one that all hosts share"
            )
        time.sleep(0.5)
    spec = RunSpec.read(run_file)
    if not Path(spec.data_folder).is_dir():
        raise HostFault(f"{spec.data_folder} is not there; the store must be one folder that all hosts share")
    return spec


def address_of(interface: str) -> str:
    """The IPv4 address of a network interface, empty for no interface."""
    if not interface:
        return ""
    every = psutil.net_if_addrs()
    found = [each.address for each in every.get(interface, []) if each.family == socket.AF_INET]
    if not found:
        raise HostFault(f"hosts.network_interface: no {interface} with an IPv4 address here; there is {sorted(every)}")
    return found[0]


def check_accelerators(spec: RunSpec, slots: int) -> str:
    """The device that the ranks of this host will use."""
    if not uses_cuda(spec.train):
        return "cpu"
    import torch

    if torch.cuda.device_count() < slots:
        raise HostFault(f"{slots} slots in the hostfile, but {torch.cuda.device_count()} GPUs here")
    return "cuda"


def listen(port: int) -> socket.socket:
    """Hold the port on which the ranks will meet, until they start."""
    try:
        return socket.create_server(("", port))
    except OSError as error:
        raise HostFault(
            f"port {port} cannot be had: {error.strerror}; free it, or set hosts.master_port to 0"
        ) from error


def meet(master_addr: str, port: int) -> None:
    """Show that the first host can be reached from here where the ranks will want it."""
    try:
        socket.create_connection((master_addr, port), timeout=MEET_SECONDS).close()
    except OSError as error:
        raise HostFault(
            f"cannot connect to the first host at {master_addr}, port {port}: {error}; check hosts.master_addr, "
            "hosts.network_interface, routes and firewalls"
        ) from error


def launcher(order: dict[str, Any], master: dict[str, Any]) -> list[str]:
    """What DeepSpeed's runner would have started here, tied to this process."""
    world = {host: list(range(slots)) for host, slots in order["hosts"].items()}
    encoded = base64.urlsafe_b64encode(json.dumps(world).encode()).decode()
    return [
        *(sys.executable, "-m", "training.processes", str(os.getpid())),
        *(sys.executable, "-u", "-m", "deepspeed.launcher.launch", f"--world_info={encoded}"),
        *(f"--node_rank={order['node']}", f"--master_addr={master['master_addr']}"),
        *(f"--master_port={master['master_port']}", "--module", "training.rank", "--config", order["run_file"]),
    ]


def obey(orders: Orders, order: dict[str, Any]) -> int:
    """Check, meet, go; then the launcher's exit code."""
    spec = check(order)
    config = spec.train
    orders.silence_seconds = max(config.init_timeout_seconds, config.stall_timeout_seconds)
    address = address_of(config.hosts.network_interface)
    device = check_accelerators(spec, list(order["hosts"].values())[order["node"]])
    environment = child_environment(config, order["run_id"]) | network_environment(config.hosts)
    if device == "cpu":
        toolchain.check_toolchain()
        toolchain.prebuild(environment)
    shared_memory.free_orphans()
    first = order["node"] == 0
    with listen(config.hosts.master_port if first else 0) as held:
        answer(device=device, address=address, port=held.getsockname()[1])
        master = orders.next()
        if not first:
            meet(master["master_addr"], master["master_port"])
        answer()
        orders.next()  # go
    try:
        child = subprocess.Popen(
            launcher(order, master), env=environment, cwd=Path(order["run_file"]).parent, stdin=subprocess.DEVNULL
        )
        while child.poll() is None:
            orders.poll(POLL_SECONDS)
        return child.returncode if child.returncode >= 0 else 256 + child.returncode
    finally:
        clean_up(order, master["master_port"])


def clean_up(order: dict[str, Any], port: int) -> None:
    """Leave no process, no shared memory and no lock text of this host's ranks; say what they were doing."""
    own = processes.identify(os.getpid())
    with contextlib.suppress(OSError):  # nobody may be there to read it
        print("\n".join(processes.rank_states(own, processes.OWNER)), flush=True)
    processes.kill_marked(own, grace_seconds=1.0, name=processes.OWNER)
    shared_memory.free(port)
    for path in Path(order["run_file"]).parent.glob("rank-*.lock"):
        forget_dead_holder(path)


def main() -> None:
    orders, code = Orders(), 1
    try:
        order = orders.next()
        os.environ.update(order["environment"])
        code = obey(orders, order)
    except (HostFault, toolchain.ToolchainError) as fault:
        answer(fault=str(fault))
    except (OwnerGone, BrokenPipeError) as gone:
        with contextlib.suppress(OSError):  # nobody may be there to read it
            print(f"{gone}; the ranks of this host are ended", file=sys.stderr, flush=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
