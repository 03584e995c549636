"""`make serve`: Prefect server, process work pool, deployments and one worker, until Ctrl-C.

For one machine. On a cluster run `prefect server start` on PostgreSQL, `prefect deploy --all --prefect-file
deployments/prefect.yaml`, and `prefect worker start --pool danlu` where the work should happen.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PREFECT_FILE = ROOT / "deployments" / "prefect.yaml"
POOL = "danlu"
STARTUP_SECONDS = 120  # the first start creates the database: 17 s were seen on 2 busy cores
STOP_SECONDS = 40  # more than the 30 s that a worker gives its flow runs


def main() -> int:
    """Start everything, say where it is, wait, stop everything."""
    host, port = os.environ.get("DANLU_HOST", "127.0.0.1"), os.environ.get("DANLU_PORT", "4200")
    api = f"http://{host}:{port}/api"
    environment = {
        **os.environ,
        "PREFECT_API_URL": api,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DANLU_ROOT": str(ROOT),
    }
    children: list[subprocess.Popen[bytes]] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        if is_up(api):
            print(f"a Prefect server already answers at {api}; using it", flush=True)
        else:
            children.append(start(environment, "server", "start", "--host", host, "--port", port))
            wait_until_up(api, children[0])
        prefect(environment, "work-pool", "create", POOL, "--type", "process", "--overwrite")
        prefect(environment, "--no-prompt", "deploy", "--all", "--prefect-file", str(PREFECT_FILE))
        children.append(start(environment, "worker", "start", "--pool", POOL, "--type", "process"))
        print(
            f"\nready. UI: http://{host}:{port}\nIn another shell:\n"
            f"  export PREFECT_API_URL={api}\n  prefect deployment run pretrain/sample\n  prefect artifact ls\n",
            flush=True,
        )
        while all(child.poll() is None for child in children):
            time.sleep(0.5)
        print("the server or the worker ended on its own; see its output above", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, SystemExit):
        return 0
    finally:
        for child in reversed(children):
            stop(child)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "prefect", *words]


def start(environment: dict[str, str], *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command(*words), env=environment, cwd=ROOT)


def prefect(environment: dict[str, str], *words: str) -> None:
    subprocess.run(command(*words), env=environment, cwd=ROOT, check=True)


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
        if server.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(
                f"the Prefect server did not answer at {api} within {STARTUP_SECONDS} s; see its output above"
            )
        time.sleep(0.5)


def stop(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


if __name__ == "__main__":
    sys.exit(main())
