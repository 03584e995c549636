"""Ray nodes that die in the middle of a stage: the stage ends with the bytes of a run without Ray.

A cluster of several nodes on this machine: a head without CPUs and three nodes of one CPU each, in a folder of its own.
Calls say where they run and wait a moment, so that a node is killed (SIGKILL) while a call is on it.
"""

from __future__ import annotations

import functools
import logging
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks import spread
from tasks.dedup import minhash
from tasks.document import Document, Kept, Origin, document_id
from tasks.spread import WorkerDied
from tasks.stage import Part, PartWriter, Stage, StageRun, run_stage
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

CALL_SECONDS = 0.3
QUICK_DEATH = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300, "health_check_failure_threshold": 3}
SMALL: dict[str, Any] = {"object_store_memory": 80 << 20, "include_dashboard": False}


class Nodes:
    """The cluster, and what the calls on it wrote into `folder`: files named raylet-item-worker-time."""

    def __init__(self, cluster: Any, folder: Path):
        self.cluster, self.folder = cluster, folder
        self.nodes: list[Any] = []

    def fill(self) -> None:
        while len(self.nodes) < 3:
            self.nodes.append(self.cluster.add_node(num_cpus=1, **SMALL))

    def kill_when_busy(self) -> threading.Thread:
        """Start a thread that takes a node down, raylet first, while a call runs on it."""
        thread = threading.Thread(target=self._kill)
        thread.start()
        return thread

    def _kill(self) -> None:
        raylet, deadline = self.nodes[0].all_processes["raylet"][0].process.pid, time.monotonic() + 60
        while time.monotonic() < deadline:
            if calls := list(self.folder.glob(f"{raylet}-*")):  # made as the call begins
                os.kill(raylet, signal.SIGKILL)
                for call in calls:  # a worker that outlived its raylet by a second could still answer
                    os.kill(int(call.name.split("-")[2]), signal.SIGKILL)
                self.cluster.remove_node(self.nodes.pop(0), allow_graceful=False)
                return
            time.sleep(0.01)

    def runs(self) -> list[str]:
        """The items that calls began with, as often as they did."""
        return [path.name.split("-")[1] for path in self.folder.iterdir()]

    def pids(self) -> set[int]:
        """Every process of the nodes that are left, and every worker that a call ran in."""
        own = {
            each.process.pid
            for n in self.cluster.list_all_nodes()
            for kind in n.all_processes.values()
            for each in kind
        }
        return own | {int(path.name.split("-")[2]) for path in self.folder.iterdir()}


@pytest.fixture(scope="module")
def alive() -> Iterator[Nodes]:
    from ray.cluster_utils import Cluster

    spread.shutdown()
    with tempfile.TemporaryDirectory(prefix="ray-") as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", home)  # else its address is where every ray.init of this machine finds it
        (folder := Path(home) / "calls").mkdir()
        head = {"num_cpus": 0, "_system_config": QUICK_DEATH, **SMALL}
        nodes = Nodes(Cluster(initialize_head=True, head_node_args=head), folder)
        try:
            yield nodes
        finally:
            pids = nodes.pids()
            spread.shutdown()
            nodes.cluster.shutdown()
        assert not [pid for pid in pids if lives(pid)], "Ray left processes behind"


@pytest.fixture
def nodes(alive: Nodes, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    """Three nodes, and calls that go to them."""
    alive.fill()
    for path in alive.folder.iterdir():
        path.unlink()
    monkeypatch.setenv("RAY_ADDRESS", alive.cluster.address)
    return alive


def lives(pid: int) -> bool:
    """Whether a process runs ten seconds from now at the latest; a worker goes after its raylet did."""
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return Path(f"/proc/{pid}").exists()


def record(folder: Path, item: object) -> None:
    """Say that a call with `item` begins in this worker, a child of its node's raylet, and take a moment."""
    (folder / f"{os.getppid()}-{item}-{os.getpid()}-{time.monotonic_ns()}").touch()
    time.sleep(CALL_SECONDS)


def recorded(call: tuple[Path, int]) -> int:
    record(*call)
    return 2 * call[1]


def fatal(call: tuple[Path, int]) -> None:
    record(*call)
    os.kill(os.getpid(), signal.SIGKILL)


def sign_slowly(folder: Path, payload: dict, config: minhash.MinHashConfig, writer: PartWriter) -> Any:
    record(folder, Path(payload["shard"]).stem)
    return minhash.sign_shard(payload, config, writer)


def test_calls_of_a_killed_node_are_run_again(nodes: Nodes, caplog: pytest.LogCaptureFixture) -> None:
    killer = nodes.kill_when_busy()
    with caplog.at_level(logging.WARNING, logger="tasks.spread"):
        found = sorted(spread.spread(recorded, [(nodes.folder, n) for n in range(12)], 3))
    killer.join()
    assert len(nodes.nodes) == 2
    assert found == [(n, 2 * n) for n in range(12)]
    assert len(nodes.runs()) > len(set(nodes.runs())) == 12
    [line] = [r.getMessage() for r in caplog.records if r.name == "tasks.spread"]
    assert "a node died on" in line and "it is run again" in line


def test_a_call_that_kills_its_worker_is_not_taken_for_a_lost_node(nodes: Nodes) -> None:
    with pytest.raises(WorkerDied, match=r"a worker process died 2 times on \("):
        list(spread.spread(fatal, [(nodes.folder, 0)], 3))
    assert nodes.runs() == ["0", "0"]


def test_minhash_dedup_with_a_killed_node_writes_the_bytes_of_a_run_without_ray(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    alone = dedup(Store(str(tmp_path / "alone")), workers=0)
    monkeypatch.setattr(minhash, "sign_shard", functools.partial(sign_slowly, nodes.folder))
    killer = nodes.kill_when_busy()
    with caplog.at_level(logging.WARNING, logger="tasks.spread"):
        spread_out = dedup(Store(str(tmp_path / "cluster")), workers=3)
    killer.join()
    assert any("a node died on part" in r.getMessage() for r in caplog.records)
    assert len(nodes.runs()) > len(set(nodes.runs())) == 9
    assert alone.manifest.account.total().dropped["minhash_duplicate"] > 30
    assert [(f.name, f.sha256) for f in spread_out.manifest.files] == [(f.name, f.sha256) for f in alone.manifest.files]
    assert spread_out.digest == alone.digest
    whole = {Path(f.name).name for f in alone.manifest.files} | {"manifest.json"}
    assert {p.name for p in Path(spread_out.local("manifest.json")).parent.rglob("*") if p.is_file()} == whole


def dedup(store: Store, workers: int) -> Dataset:
    """MinHash dedup of 450 documents in 9 shards, 50 of them near-copies of others."""
    given = Stage(name="exact_dedup", module="tasks.document", config=dict, inputs=(), run=write_documents, summary="")
    made = run_stage(given, store=store, pipeline="t", config={}, inputs={}, workers=0).dataset
    config, inputs = minhash.MinHashConfig(), {"exact_dedup": made}
    return run_stage(minhash.STAGE, store=store, pipeline="t", config=config, inputs=inputs, workers=workers).dataset


def write_documents(run: StageRun) -> None:
    documents = [document(n) for n in range(450)]
    shards = [documents[n::9] for n in range(9)]
    parts = [Part(name=f"s{n}", step="given", inputs=(str(n),), payload=shard) for n, shard in enumerate(shards)]
    run.parts(write_shard, parts)


def write_shard(documents: list[Document], config: Any, writer: PartWriter) -> None:
    for each in documents:
        writer.put(Kept(document=each))


def document(number: int) -> Document:
    original = number - 400 if number >= 400 else number
    generator = random.Random(original)
    text = " ".join(f"word{generator.randrange(5000)}" for _ in range(200)) + (" and more" if number >= 400 else "")
    return Document(
        id=document_id("s", "f", number, text.encode()),
        text=text,
        source="s",
        language="en",
        origin=Origin(file="f", record=number, offset=0),
    )
