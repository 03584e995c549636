"""The launch with real processes: results, stops, kills, and that nothing stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from training import processes, shared_memory
from training import toolchain as toolchains
from training.config import RunSpec
from training.launch import LaunchError, launch, request_stop
from training.metrics import read_rows
from training.run_lock import RunLockError
from training.toolchain import ToolchainError, check_toolchain

OWNER = """
import sys
from pathlib import Path
from training.config import RunSpec
from training.launch import launch
print(launch(RunSpec.read(Path(sys.argv[1]))).status, flush=True)
"""


class Owner:
    """A process that calls launch(), as a flow's task does."""

    def __init__(self, spec: RunSpec):
        self.work_dir = Path(spec.work_dir)
        self.work_dir.mkdir(parents=True, exist_ok=True)
        spec.write(self.work_dir / "spec.json")
        command = [sys.executable, "-c", OWNER, str(self.work_dir / "spec.json")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def wait_for_step(self, step: int) -> None:
        deadline = time.monotonic() + 180
        while not any(row["step"] >= step for row in read_rows(self.work_dir / "metrics.jsonl")):
            assert self.process.poll() is None, (self.work_dir / "launcher.log").read_text()[-3000:]
            assert time.monotonic() < deadline, "no step in time"
            time.sleep(0.05)

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


@pytest.fixture
def own(make_spec) -> Any:
    owners: list[Owner] = []

    def start(**changes: Any) -> Owner:
        owners.append(Owner(make_spec(f"owned-{len(owners)}", **changes)))
        return owners[-1]

    yield start
    for owner in owners:
        if owner.process.poll() is None:
            owner.process.kill()
        owner.process.communicate()


def losses(work_dir: Path | str) -> list[tuple[int, str, float]]:
    return [(row["step"], row["kind"], row["loss"]) for row in read_rows(Path(work_dir) / "metrics.jsonl")]


def test_progress_rows_and_result_of_a_plain_run(make_spec):
    rows: list[dict[str, Any]] = []
    spec = make_spec(backend="torch")
    result = launch(spec, rows.append)
    assert (result.status, result.step) == ("finished", 20)
    assert [row["step"] for row in rows if row["kind"] == "step"] == list(range(1, 21))
    assert [row["step"] for row in rows if row["kind"] == "validation"] == [10, 20]
    assert rows[-2]["loss"] < rows[0]["loss"] - 1
    again = launch(spec)  # nothing left to do: it says so at once and keeps the log as it is
    assert (again.status, again.step) == ("finished", 20)
    assert len(losses(spec.work_dir)) == 22


def test_a_failing_run_reports_the_end_of_its_log(make_spec):
    spec = make_spec(backend="torch", model={"embedding_init_scale": 20.0})
    with pytest.raises(LaunchError, match="expected ln\\(vocab_size\\)"):
        launch(spec)


def test_a_stop_request_saves_and_the_next_launch_goes_on(make_spec):
    settings: dict[str, Any] = {"backend": "torch", "steps": 200, "checkpoint_interval_steps": 100}
    whole, parted = make_spec("whole", **settings), make_spec("parted", **settings)
    launch(whole)

    def stop_early(row: dict[str, Any]) -> None:
        if row["step"] == 13:
            request_stop(Path(parted.work_dir))

    stopped = launch(parted, stop_early)
    assert stopped.status == "stopped"
    assert 13 <= stopped.step < 200
    assert launch(parted).status == "finished"
    assert losses(whole.work_dir) == losses(parted.work_dir)


def test_a_second_launch_in_the_same_folder_is_refused(own):
    owner = own(backend="torch", steps=100_000)
    owner.wait_for_step(1)
    spec = RunSpec.read(owner.work_dir / "spec.json")
    with pytest.raises(RunLockError, match=f"process {owner.process.pid}"):
        launch(spec)


def test_sigterm_to_the_owner_saves_and_ends_the_run(own):
    owner = own(backend="torch", steps=100_000)
    owner.wait_for_step(3)
    family = owner.family()
    owner.process.send_signal(signal.SIGTERM)
    output, _ = owner.process.communicate(timeout=60)
    assert output.strip() == "stopped"
    assert not [p for p in family if p.is_running()]


def test_ranks_that_do_not_stop_in_time_are_killed(make_spec):
    """A rank frozen by SIGSTOP never sees the stop file."""
    spec = make_spec(backend="torch", steps=100_000, stop_grace_seconds=1)

    def freeze(row: dict[str, Any]) -> None:
        if row["step"] == 5:
            for child in psutil.Process().children(recursive=True):
                if Path(spec.work_dir, "run.json").as_posix() in " ".join(child.cmdline()):
                    child.send_signal(signal.SIGSTOP)
            request_stop(Path(spec.work_dir))

    started = time.monotonic()
    with pytest.raises(LaunchError, match=r"(?s)was killed: it did not save and stop within 1 s.*rank 0: .* stopped, "):
        launch(spec, freeze)
    assert time.monotonic() - started < 60
    assert not [c for c in psutil.Process().children(recursive=True) if "run.json" in " ".join(c.cmdline())]


@pytest.mark.slow
def test_a_stop_that_nobody_asked_for_is_an_error_that_names_what_was_saved(make_spec):
    """DeepSpeed's launcher is told to end, as by a machine that shuts down: the ranks save, but the run is not over."""
    spec = make_spec(steps=100_000, checkpoint_interval_steps=50_000)

    def end_launcher(row: dict[str, Any]) -> None:
        if row["step"] == 3:
            [launcher] = [
                c
                for c in psutil.Process().children(recursive=True)
                if "deepspeed.launcher.launch" in c.cmdline() and spec.work_dir in " ".join(c.cmdline())
            ]
            launcher.terminate()

    with pytest.raises(LaunchError, match=r"exit code 1 and nobody had asked it to stop; it still saved .*step-0"):
        launch(spec, end_launcher)


def test_missing_programs_are_named_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(toolchains, "search_path", lambda: str(tmp_path))
    with pytest.raises(ToolchainError, match="g\\+\\+ and ninja") as caught:
        check_toolchain()
    assert "\n" not in str(caught.value)


def test_stray_settings_do_not_reach_the_ranks(make_spec, monkeypatch):
    from training.launch import child_environment

    for name, value in {"CUDA_VISIBLE_DEVICES": "3", "RANK": "7", "OMP_NUM_THREADS": "64", "DS_ENV_FILE": "x"}.items():
        monkeypatch.setenv(name, value)
    environment = child_environment(make_spec().train, "id")
    assert "CUDA_VISIBLE_DEVICES" not in environment
    assert "RANK" not in environment
    assert (environment["OMP_NUM_THREADS"], environment["DS_ENV_FILE"]) == ("1", os.devnull)
    assert processes.is_alive(environment[processes.OWNER])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_ranks_killed_twice_leave_no_process_and_resume_bit_for_bit(own, make_spec):
    """ZeRO 1, two ranks. An epoch is about 100 samples, so 60 steps of 8 cross its end several times."""
    settings: dict[str, Any] = {"steps": 60, "checkpoint_interval_steps": 7, "zero_stage": 1}
    whole = make_spec("whole", **settings)
    segments = set(shared_memory.FOLDER.glob(f"{shared_memory.PREFIX}*"))
    launch(whole)
    assert set(shared_memory.FOLDER.glob(f"{shared_memory.PREFIX}*")) <= segments
    owner: Owner = own(**settings)
    for step in (12, 33):
        owner.wait_for_step(step)
        family = owner.family()
        assert len(family) >= 4  # runner, launch process, two ranks
        owner.process.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(family, timeout=15)
        assert alive == []
        owner.process.communicate()
        owner.__init__(RunSpec.read(owner.work_dir / "spec.json"))  # type: ignore[misc]
    output, _ = owner.process.communicate(timeout=300)
    assert output.strip() == "finished"
    assert losses(whole.work_dir) == losses(owner.work_dir)
    ends = [Path(w) / "checkpoints" / "step-00000060" / "manifest.json" for w in (whole.work_dir, owner.work_dir)]
    files = [json.loads(path.read_text())["files"] for path in ends]
    same = [name for name in files[0] if name.endswith((".safetensors", ".pt")) or name == "state.json"]
    assert len(same) == 5
    assert all(files[0][name] == files[1][name] for name in same)
