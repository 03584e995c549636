"""`make serve`: Prefect server, process work pool, deployments and one worker, until Ctrl-C.

For one machine. On a cluster run `prefect server start` on PostgreSQL, `prefect deploy --all --prefect-file
deployments/prefect.yaml`, and `prefect worker start --pool danlu` where the work should happen.

Nothing outlives it. Server and worker run in sessions of their own, so that Ctrl-C reaches only this process, which
stops them in order: flow runs first (training saves), then the worker, then the server, which by then knows how each
run ended. Should this process be killed outright, they die with it (training/processes.py).

in    DANLU_HOST, DANLU_PORT (127.0.0.1:4200); PREFECT_HOME (where the server keeps its database)
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import psutil
import yaml

from training import processes

ROOT = Path(__file__).resolve().parent.parent
PREFECT_FILE = ROOT / "deployments" / "prefect.yaml"
POOL = "danlu"
STARTUP_SECONDS = 120  # the first start creates the database: 17 s were seen on 2 busy cores
FLOW_STOP_SECONDS = 40  # a training run has stop_grace_seconds to save
STOP_SECONDS = 5  # an idle worker takes 15 s and more to notice; it has nothing to lose
DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_WORKER_QUERY_SECONDS": "3",  # a run starts this soon after `prefect deployment run`; Prefect's own is 10
    "PREFECT_LOGGING_EXTRA_LOGGERS": "flows,tasks,training",  # their warnings join the log of the flow run
}


def main() -> int:
    """Start everything, say where it is, wait, stop everything."""
    host, port = os.environ.get("DANLU_HOST", "127.0.0.1"), os.environ.get("DANLU_PORT", "4200")
    api = f"http://{host}:{port}/api"
    environment = serve_environment(api)
    server = worker = None
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):  # a background job starts with SIGINT ignored
        signal.signal(number, interrupt)
    try:
        if is_up(api):
            print(f"a Prefect server already answers at {api}; using it", flush=True)
        else:
            print(f"starting a Prefect server at {api}", flush=True)
            server = start(environment, "server", "start", "--host", host, "--port", port)
            wait_until_up(api, server)
            close_lost_runs(api)
        prefect(environment, "work-pool", "create", POOL, "--type", "process", "--overwrite")
        prefect(environment, "--no-prompt", "deploy", "--all", "--prefect-file", str(PREFECT_FILE))
        worker = start(environment, "worker", "start", "--pool", POOL, "--type", "process")
        print(ready_text(host, port, api), flush=True)
        while all(child.poll() is None for child in (server, worker) if child):
            time.sleep(0.5)
        print("the server or the worker ended on its own; see its output above", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    except (subprocess.CalledProcessError, ServerDown) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # stopping is bounded; a second Ctrl-C must not leave half of it
        print("stopping", flush=True)
        stop_flow_runs(worker)
        for child in (worker, server):
            stop(child)
        processes.kill_marked(environment[processes.MARK], grace_seconds=5.0)


class ServerDown(RuntimeError):
    """The Prefect server did not come up."""


def interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def serve_environment(api: str) -> dict[str, str]:
    """What server, worker and flow runs see: one API, one root, and a mark to find them by."""
    return {
        **DEFAULTS,
        **os.environ,
        "PREFECT_API_URL": api,
        "DANLU_ROOT": str(ROOT),
        processes.MARK: uuid.uuid4().hex,
        processes.OWNER: processes.identify(os.getpid()),
    }


def ready_text(host: str, port: str, api: str) -> str:
    deployments = yaml.safe_load(PREFECT_FILE.read_text(encoding="utf-8"))["deployments"]
    names = [f"{d['entrypoint'].split(':')[1]}/{d['name']}" for d in deployments]
    return (
        f"deployments: {', '.join(names)}\n\nready. UI: http://{host}:{port}\nIn another shell:\n"
        f"  export PREFECT_API_URL={api}\n  prefect deployment run pretrain/sample\n  prefect artifact ls\n"
    )


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "prefect", *words]


def start(environment: dict[str, str], *words: str) -> subprocess.Popen[bytes]:
    """A Prefect command that runs on, tied to this process."""
    tied = [sys.executable, "-m", "training.processes", str(os.getpid())]
    return subprocess.Popen([*tied, *command(*words)], env=environment, cwd=ROOT, start_new_session=True)


def prefect(environment: dict[str, str], *words: str) -> None:
    """A Prefect command that ends; its output is shown when it fails."""
    done = subprocess.run(
        command(*words), env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr, flush=True)
        raise subprocess.CalledProcessError(done.returncode, ["prefect", *words])


def is_up(api: str) -> bool:
    """Whether a Prefect server answers."""
    try:
        with urllib.request.urlopen(f"{api}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def wait_until_up(api: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + STARTUP_SECONDS
    while not is_up(api):
        if server.poll() is not None:
            raise ServerDown(f"the Prefect server ended with code {server.returncode}; see its output above")
        if time.monotonic() > deadline:
            raise ServerDown(f"the Prefect server did not answer at {api} within {STARTUP_SECONDS} s")
        time.sleep(0.5)


def ask(url: str, body: Any, method: str = "POST") -> Any:
    """The answer of the server's API to one request, None when it is empty."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or b"null")


def close_lost_runs(api: str) -> None:
    """End the runs that a killed server (or a power cut) left as running: no process of theirs can be alive, yet each
    holds its deployment's only slot, and the server does not notice by itself (seen: 19 minutes, and on)."""
    pool = {"name": {"any_": [POOL]}}
    lost = {"state": {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}}
    message = "Lost: its server was stopped while it ran. Run it again; it goes on from what is stored."
    for run in ask(f"{api}/flow_runs/filter", {"flow_runs": lost, "work_pools": pool}):
        print(f"flow run {run['name']} did not survive the last stop; marking it as crashed", flush=True)
        state = {"type": "CRASHED", "message": message}
        ask(f"{api}/flow_runs/{run['id']}/set_state", {"state": state, "force": True})
    for deployment in ask(f"{api}/deployments/filter", {"work_pools": pool}):
        limit = deployment["global_concurrency_limit"]
        if limit and limit["active_slots"]:
            ask(f"{api}/v2/concurrency_limits/{limit['id']}", {"active_slots": 0}, method="PATCH")


def stop_flow_runs(worker: subprocess.Popen[bytes] | None) -> None:
    """SIGTERM to the flow runs (the worker's children), which save and end; the worker then reports them."""
    if worker is None or worker.poll() is not None:
        return
    runs = psutil.Process(worker.pid).children()
    for run in runs:
        with contextlib.suppress(psutil.NoSuchProcess):  # ended meanwhile by itself
            run.terminate()
    psutil.wait_procs(runs, timeout=FLOW_STOP_SECONDS)
    if runs:
        time.sleep(2.0)  # for the worker to tell the server


def stop(child: subprocess.Popen[bytes] | None) -> None:
    if child is not None and child.poll() is None:
        child.terminate()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


if __name__ == "__main__":
    sys.exit(main())
