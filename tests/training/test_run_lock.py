"""One training per folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from training.run_lock import RunLock, RunLockError

HOLD = "import sys, time; from training.run_lock import RunLock; from pathlib import Path\n"
HOLD += "with RunLock(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"


def test_a_second_training_is_refused_and_a_dead_ones_lock_taken_over(tmp_path):
    path = tmp_path / "run.lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunLockError, match=f"process {holder.pid} on "), RunLock(path):
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    assert str(holder.pid) in path.read_text()
    with RunLock(path):
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert path.read_text() == ""


def test_waiting_bridges_a_predecessor_that_ends(tmp_path):
    path = tmp_path / "run.lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    holder.stdout.readline()
    ender = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill {holder.pid}"])
    started = time.monotonic()
    with RunLock(path, wait_seconds=20):
        assert time.monotonic() - started > 0.3
    holder.communicate()
    ender.wait()


def test_a_lock_of_another_host_is_honoured(tmp_path):
    path = tmp_path / "run.lock"
    path.write_text(json.dumps({"pid": 1, "host": "elsewhere.example"}))
    with pytest.raises(RunLockError, match=r"elsewhere\.example"), RunLock(path):
        pass
