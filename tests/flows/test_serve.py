"""`make serve` for real: server, worker, deployments; runs, artifacts, one stage alone, a cancelled training."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
LONG_TRAINING = (
    "train.backend=deepspeed", "train.world_size=2", "train.micro_batch_size=2", "train.steps=20000",
    "train.checkpoint_interval_steps=50", "train.eval_interval_steps=0",
)  # fmt: skip


class Served:
    """A running `flows.serve` and what one asks of it."""

    def __init__(self, folder: Path, mark_name: str):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.api, self.mark, self.log = f"http://127.0.0.1:{port}/api", uuid.uuid4().hex, folder / "serve.log"
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "RAY_", "DANLU_"))}
        own = {"PREFECT_HOME": str(folder / "prefect"), "DANLU_PORT": str(port), mark_name: self.mark}
        self.environment = clean | own
        with open(self.log, "wb") as log:
            command = [sys.executable, "-m", "flows.serve"]
            self.process = subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=log, stderr=log)

    def wait_for(self, what: Callable[[], Any], seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := what()):
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()[-4000:]
            time.sleep(0.5)
        return found

    def post(self, path: str, body: Any) -> Any:
        answer = httpx.post(f"{self.api}/{path}", json=body, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def run(self, deployment: str, **parameters: Any) -> str:
        """`prefect deployment run`; the id of the flow run."""
        words = [w for key, value in parameters.items() for w in ("--param", f"{key}={json.dumps(value)}")]
        command = [sys.executable, "-m", "prefect", "deployment", "run", deployment, *words]
        environment = self.environment | {"PREFECT_API_URL": self.api}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return next(line.split()[-1] for line in done.stdout.splitlines() if "UUID" in line)

    def state(self, run: str) -> str:
        return httpx.get(f"{self.api}/flow_runs/{run}", timeout=30).json()["state"]["type"]

    def end_of(self, run: str, seconds: float = 150) -> str:
        ends = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
        return self.wait_for(lambda: (s := self.state(run)) in ends and s, seconds)

    def cancel(self, run: str) -> None:
        self.post(f"flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}, "force": False})

    def artifacts(self) -> set[str]:
        return {artifact["key"] for artifact in self.post("artifacts/latest/filter", {"limit": 200})}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, kit: Any) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served"), kit.MARK)
    try:
        served.wait_for(lambda: "ready." in served.log.read_text(), 180)
        yield served
    finally:
        served.process.send_signal(signal.SIGTERM)
        try:
            served.process.wait(90)
        finally:
            served.process.kill()
            for process in kit.marked(served.mark):
                process.kill()


@pytest.fixture(scope="module")
def parameters(finished: Any, kit: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Recipe and a store in which everything is made already."""
    store = kit.copy_of(finished.store, tmp_path_factory.mktemp("store") / "store")
    return {"recipe": str(finished.recipe), "store": str(store)}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_deployment_run_completes_and_shows_its_artifacts(served: Served, parameters: dict[str, str]) -> None:
    assert served.end_of(served.run("pretrain/sample", **parameters)) == "COMPLETED"
    assert {
        "account",
        "account-filter",
        "progress-train",
        "training-metrics",
        "checkpoint",
        "report",
    } <= served.artifacts()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_danlu_run_is_a_flow_run_of_a_configured_server(served: Served, parameters: dict[str, str], danlu: Any) -> None:
    before = served.post("flow_runs/count", {})
    answer = danlu("run", "--config", parameters["recipe"], "--store", parameters["store"], "--json",
                   PREFECT_API_URL=served.api)  # fmt: skip
    assert [row["status"] for row in answer.rows] == ["cached"] * 16
    assert served.post("flow_runs/count", {}) == before + 1


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("error", "calls"), [("ConnectionError", 3), ("ValueError", 1)])
def test_only_a_failing_machine_is_worth_another_try(
    served: Served, parameters: dict[str, str], error: str, calls: int, tmp_path: Path
) -> None:
    """A stage that always fails, run by the real task under the real server."""
    script = f"""
import pathlib
from prefect import flow
from flows import pretrain
class Run:
    def step(self, stage):
        with open("calls", "a") as file: file.write("x")
        raise {error}("planted")
again = pretrain.run_stage_task.with_options(retry_delay_seconds=0)
@flow(name="planted", persist_result=False)
def planted(): again(Run(), pretrain.STAGES[0])
try: planted()
except {error}: pathlib.Path("raised").touch()
"""
    environment = served.environment | {"PREFECT_API_URL": served.api, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True, timeout=120)
    assert (tmp_path / "raised").exists()
    assert len((tmp_path / "calls").read_text()) == calls


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_stage_alone_reruns_with_its_new_setting(served: Served, parameters: dict[str, str]) -> None:
    refs = Path(parameters["store"]) / "refs" / "tiny" / "filter.json"
    before = json.loads(refs.read_text())["key"]
    run = served.run("filter/alone", **parameters, settings=["filter.min_chars=300"])
    assert served.end_of(run) == "COMPLETED"
    assert json.loads(refs.read_text())["key"] != before


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_cancelled_training_leaves_no_process_and_is_resumed(
    served: Served, parameters: dict[str, str], kit: Any
) -> None:
    work, before = Path(parameters["store"]) / "work" / "train", set(kit.marked(served.mark))

    def events(kind: str) -> list[dict[str, Any]]:
        lines = [line for path in work.glob("*/events.jsonl") for line in path.read_text().splitlines()]
        return [event for event in map(json.loads, lines) if event["kind"] == kind]

    for attempt in (1, 2):
        run = served.run("pretrain/sample", **parameters, settings=list(LONG_TRAINING))
        served.wait_for(lambda attempt=attempt: len(events("checkpoint")) >= 2 * attempt, 240)
        served.cancel(run)
        assert served.end_of(run, 60) == "CANCELLED"
        served.wait_for(lambda: set(kit.marked(served.mark)) <= before, 30)
    starts = [event["checkpoint"] for event in events("start")]
    assert starts[0] is None and starts[1] is not None


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_outlives_serve_and_a_run_lost_with_it_blocks_no_other(
    tmp_path: Path, parameters: dict[str, str], kit: Any
) -> None:
    for stop in (signal.SIGKILL, signal.SIGINT):
        served = Served(tmp_path, kit.MARK)
        try:
            served.wait_for(lambda served=served: "ready." in served.log.read_text(), 180)
            if stop == signal.SIGKILL:
                run = served.run("pretrain/sample", **parameters, settings=list(LONG_TRAINING))
                served.wait_for(lambda served=served, run=run: served.state(run) == "RUNNING", 60)
                served.wait_for(lambda served=served: "progress-ingest" in served.artifacts(), 60)
            else:
                assert served.state(run) == "CRASHED"
                assert served.end_of(served.run("pretrain/sample", **parameters)) == "COMPLETED"
        finally:
            served.process.send_signal(stop)
            served.process.wait(90)
        assert kit.survivors(served.mark, 15) == []


def test_an_api_that_does_not_answer_is_one_clear_error(danlu: Any) -> None:
    answer = danlu("run", "--input", ROOT / "recipes" / "sample" / "notes", "--store", "s", code=1,
                   PREFECT_API_URL="http://127.0.0.1:9/api")  # fmt: skip
    assert "no Prefect server answers" in answer.err and "Traceback" not in answer.err
