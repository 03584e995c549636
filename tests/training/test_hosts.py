"""Ranks on two hosts: network namespaces of this machine, joined by a cable of two virtual ends.

A namespace has its own interfaces, addresses and ports, and shares nothing of the network with this process; the way
into it (`remote_shell`) is severed like ssh: a killed owner takes the near end of it along, not what runs on the host.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from training.config import RunSpec
from training.hints import HINTS, hints
from training.hosts import HostsConfig, forwarded_environment, network_environment, read_hostfile, shell_words
from training.launch import LaunchError, launch
from training.metrics import read_rows

PREFIX = f"danlu{os.getpid()}"
HOSTS = (f"{PREFIX}a", f"{PREFIX}b")
# `| cat` keeps the host's processes out of reach of the owner's death signal; env -i is as bare as a login by ssh
SEVERED = """bash -o pipefail -c 'ip netns exec "$0" env -i HOME="$HOME" PATH=/usr/bin:/bin sh -c "$1" | cat'"""
OWNER = """
import sys
from pathlib import Path
from training.config import RunSpec
from training.launch import launch
print(launch(RunSpec.read(Path(sys.argv[1]))).status, flush=True)
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def namespaces() -> Iterator[None]:
    """Two of them, each with the address 10.79.0.1 or .2 on eth0, or a skip that says why not."""
    made = []
    try:
        for host in HOSTS:
            ip("netns", "add", host)
            made.append(host)
        ip("link", "add", "eth0", "netns", HOSTS[0], "type", "veth", "peer", "name", "eth0", "netns", HOSTS[1])
        for number, host in enumerate(HOSTS, start=1):
            ip("-n", host, "address", "add", f"10.79.0.{number}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                ip("-n", host, "link", "set", link, "up")
        yield
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        pytest.skip(f"needs network namespaces (root with CAP_SYS_ADMIN, iproute2): {said.strip()}")
    finally:
        for host in made:
            subprocess.run(["ip", "netns", "delete", host], check=False, capture_output=True)


@pytest.fixture
def on_hosts(tmp_path: Path) -> dict[str, Any]:
    """What of HostsConfig leads to the two namespaces."""
    hostfile = tmp_path / "hostfile"
    hostfile.write_text(f"{HOSTS[0]} slots=1  # holds rank 0\n\n{HOSTS[1]} slots=1\n")
    return {
        "hostfile": str(hostfile),
        "remote_shell": f"{SEVERED} {{host}} {{command}}",
        "network_interface": "eth0",
    }


class Owner:
    """A process that calls launch()."""

    def __init__(self, spec: RunSpec):
        self.work_dir = Path(spec.work_dir)
        self.work_dir.mkdir(parents=True, exist_ok=True)
        spec.write(self.work_dir / "spec.json")
        command = [sys.executable, "-c", OWNER, str(self.work_dir / "spec.json")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_for_step(self, step: int) -> None:
        deadline = time.monotonic() + 120
        while not any(row["step"] >= step for row in read_rows(self.work_dir / "metrics.jsonl")):
            if self.process.poll() is not None:
                pytest.fail(self.process.communicate()[1][-3000:])
            assert time.monotonic() < deadline, "no step in time"
            time.sleep(0.02)

    def processes(self) -> list[psutil.Process]:
        """Every process of this run that an owner or a host would have to end."""
        return [p for p in psutil.process_iter() if str(self.work_dir / "run.json") in " ".join(command_of(p))]

    def ranks(self) -> list[psutil.Process]:
        """The processes of the ranks, in their order."""
        return sorted((p for p in self.processes() if variable(p, "RANK")), key=lambda p: variable(p, "RANK") or "")


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def variable(process: psutil.Process, name: str) -> str | None:
    try:
        return process.environ().get(name)
    except psutil.Error:
        return None


def losses(work_dir: str | Path) -> list[tuple[int, str, float]]:
    return [(row["step"], row["kind"], row["loss"]) for row in read_rows(Path(work_dir) / "metrics.jsonl")]


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(400)
def test_ranks_on_two_hosts_train_as_on_one_and_end_together_and_go_on(make_spec, namespaces, on_hosts):
    """Killed at step 12 with its owner, at step 45 by the loss of a rank; 120 steps, to the bit those of one host."""
    settings: dict[str, Any] = {"steps": 120, "checkpoint_interval_steps": 10, "eval_interval_steps": 40}
    alone = make_spec("alone", **settings)
    launch(alone)
    spread = make_spec("spread", **settings, hosts=HostsConfig(**on_hosts))
    owner = Owner(spread)
    owner.wait_for_step(12)
    family, spaces = owner.processes(), {os.readlink(f"/proc/{p.pid}/ns/net") for p in owner.ranks()}
    owner.process.kill()
    assert len(spaces | {os.readlink("/proc/self/ns/net")}) == 3
    _, alive = psutil.wait_procs(family, timeout=30)
    assert alive == [] and owner.processes() == []
    assert losses(spread.work_dir)[-1][0] < 120, "the hosts trained to the end without their owner"
    owner.process.communicate()

    owner = Owner(spread)
    owner.wait_for_step(45)
    family = owner.processes()
    owner.ranks()[1].kill()
    _, error = owner.process.communicate(timeout=120)
    assert f"exit code 247 (SIGKILL) on host {HOSTS[1]}" in error
    assert "hint: a process got SIGKILL" in error
    assert "may still run" not in error
    assert [p for p in family if p.is_running()] == [] and owner.processes() == []

    assert launch(spread).status == "finished"
    assert losses(alone.work_dir) == losses(spread.work_dir)
    assert owner.processes() == []


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"hostfile": "gone"},
            rf"(?s)host {PREFIX}c: `bash .*{PREFIX}c \.\.\.` ended with exit code \d+ and said:.*{PREFIX}c",
        ),
        ({"remote_shell": "sh -c 'sleep 60' {host} {command}"}, rf"host {HOSTS[0]}, {HOSTS[1]}: no answer within 2 s"),
        ({"network_interface": "ib0"}, r"no ib0 with an IPv4 address here; there is \['eth0', 'lo'\]"),
        ({"master_addr": "10.99.0.1"}, rf"(?s)host {HOSTS[1]}: cannot connect to the first host at 10.99.0.1.*hint: "),
    ],
    ids=["unreachable", "silent", "interface", "address"],
)
def test_a_host_that_cannot_take_part_is_named_before_a_rank_starts(make_spec, namespaces, on_hosts, changes, expected):
    if changes.get("hostfile"):
        Path(on_hosts["hostfile"]).write_text(f"{HOSTS[0]} slots=1\n{PREFIX}c slots=1\n")
        changes = {}
    timeout = 2 if "remote_shell" in changes else 120
    spec = make_spec(hosts=HostsConfig(**on_hosts | changes), init_timeout_seconds=timeout)
    with pytest.raises(LaunchError, match=expected):
        launch(spec)
    assert not (Path(spec.work_dir) / "metrics.jsonl").exists()


def test_a_port_in_use_on_the_first_host_is_named(make_spec, namespaces, on_hosts):
    held = "import socket, sys; s = socket.create_server(('', 29511)); print(flush=True); sys.stdin.read()"
    command = ["ip", "netns", "exec", HOSTS[0], sys.executable, "-c", held]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout and holder.stdout.readline()
        spec = make_spec(hosts=HostsConfig(**on_hosts, master_port=29511))
        with pytest.raises(LaunchError, match=f"host {HOSTS[0]}: port 29511 cannot be had: Address already in use"):
            launch(spec)
        holder.stdin.close()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a slots=2\nb slots=x", r"hostfile:2: expected `name slots=N` with N of 1 or more, found 'b slots=x'"),
        ("a slots=0", "found 'a slots=0'"),
        ("a slots=2\na slots=2", "hostfile:2: a stands there twice"),
        ("a slots=2\nb slots=3", r"world_size: expected the sum of the slots in .* \(5\), found 4"),
        ("# nothing", r"\(0\), found 4"),
    ],
)
def test_a_hostfile_that_cannot_be_meant_is_refused(tmp_path, text, expected):
    (tmp_path / "hostfile").write_text(text)
    with pytest.raises(ValueError, match=expected):
        read_hostfile(tmp_path / "hostfile", world_size=4)


def test_a_hostfile_is_read_in_the_order_of_the_ranks(tmp_path):
    (tmp_path / "hostfile").write_text("# two nodes\nworker-1 slots=3\n\nme@worker-0   slots=1 # small\n")
    assert list(read_hostfile(tmp_path / "hostfile", world_size=4).items()) == [("worker-1", 3), ("me@worker-0", 1)]


def test_the_command_stays_one_word_through_any_remote_shell():
    words = shell_words("nsenter --net=/run/netns/{host} sh -c {command}", "a", "cd '/a b' && exec x")
    assert words == ["nsenter", "--net=/run/netns/a", "sh", "-c", "cd '/a b' && exec x"]
    with pytest.raises(ValueError, match=r"hosts.remote_shell: expected a command with \{host\}"):
        HostsConfig(remote_shell="ssh {host}")
    with pytest.raises(ValueError, match=r"hosts.master_port: expected a hostfile with it"):
        HostsConfig(master_port=29500)


def test_network_settings_reach_the_hosts_and_secrets_do_not(monkeypatch):
    monkeypatch.setenv("NCCL_IB_TIMEOUT", "22")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    forwarded = forwarded_environment()
    assert forwarded["NCCL_IB_TIMEOUT"] == "22" and "AWS_SECRET_ACCESS_KEY" not in forwarded
    assert network_environment(HostsConfig(hostfile="h", network_interface="ib0")) == {
        "GLOO_SOCKET_IFNAME": "ib0",
        "NCCL_SOCKET_IFNAME": "=ib0",
    }


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("python exits with return code = -9", "out of memory"),
        ("node1 [0] misc/shmutils.cc NCCL WARN Error while creating shared memory segment /dev/shm/nccl-x", "shm-size"),
        ("The server socket has failed to listen: EADDRINUSE, Address already in use", "hosts.master_port"),
        ("NCCL WARN Bootstrap : no socket interface found", "network interface"),
        ("The client socket has timed out after 600000ms while trying to connect to (10.0.0.1, 29500)", "firewall"),
        ("NCCL WARN NET/IB : Got completion from peer 10.0.0.2 with error 12, opcode 0, len 0, vendor err 129", "MTU"),
        ("ncclUnhandledSystemError: System call (e.g. socket, malloc) failed; unhandled system error", "NCCL_DEBUG"),
        ("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9)", "did not come to a collective"),
        ("OSError: [Errno 28] No space left on device", "keep_checkpoints"),
    ],
)
def test_a_known_failure_brings_its_advice(text, advice):
    assert any(advice in hint for hint in hints(text)), hints(text)
    assert hints("step 3, loss 4.2") == []


def test_the_page_prints_every_hint():
    page = (Path(__file__).resolve().parents[2] / "docs" / "multi-node.md").read_text(encoding="utf-8")
    assert [hint for _, hint in HINTS if hint not in " ".join(page.split())] == []
