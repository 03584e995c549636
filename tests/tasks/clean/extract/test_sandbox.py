"""The sandbox: what a hostile page can cost, and what it leaves behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from tasks.clean.extract.sandbox import Limits, Sandbox, SandboxFailure, shared_sandbox

TARGET = """
import os, signal, sys, time
from pathlib import Path

def make(settings):
    def handle(request):
        what = request["what"]
        if what == "echo":
            return {"text": request["text"], "greeting": settings.get("greeting"), "pid": os.getpid()}
        if what == "spin":
            while True:
                pass
        if what == "sleep":
            time.sleep(60)
        if what == "grow":
            held = []
            while True:
                held.append(bytearray(1 << 22))
        if what == "spike":
            held = bytearray(200 << 20)
            return {"text": "after a spike"}
        if what == "keep":
            handle.kept = bytearray(40 << 20)
            return {"pid": os.getpid()}
        if what == "raise":
            raise ValueError("not a page")
        if what == "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        if what == "die once":
            mark = Path(request["mark"])
            if not mark.exists():
                mark.write_text("")
                os.kill(os.getpid(), signal.SIGKILL)
            return {"text": "second time"}
        if what == "garble":
            os.write(int(sys.argv[1]), b"\\xff" * 64)
            time.sleep(60)
        if what == "fds":
            return {"fds": sorted(os.listdir("/proc/self/fd"))}
    return handle
"""
LIMITS = Limits(cpu_seconds=0.5, wall_seconds=3.0, memory_mb=100)


@pytest.fixture
def sandbox(tmp_path, monkeypatch):
    (tmp_path / "hostile_pages.py").write_text(TARGET)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    sandbox = Sandbox("hostile_pages:make", {"greeting": "你好"}, LIMITS)
    yield sandbox
    sandbox.close()


def echo(sandbox: Sandbox, text: str = "x") -> dict:
    return sandbox.call({"what": "echo", "text": text})


def test_text_of_any_kind_comes_back_unchanged_from_one_child(sandbox):
    texts = ["", "页面\x00\ud800\U0010ffff\u2028", "x" * 3_000_000]
    answers = [echo(sandbox, text) for text in texts]
    assert [answer["text"] for answer in answers] == texts
    assert {answer["greeting"] for answer in answers} == {"你好"}
    assert len({answer["pid"] for answer in answers}) == 1 and sandbox.num_started == 1


@pytest.mark.parametrize(
    ("what", "kind"),
    [("spin", "timeout"), ("sleep", "timeout"), ("grow", "memory"), ("die", "crashed"), ("garble", "crashed")],
)
def test_a_page_over_a_limit_costs_itself_only(sandbox, what, kind):
    first = echo(sandbox)["pid"]
    started = time.monotonic()
    with pytest.raises(SandboxFailure) as failure:
        sandbox.call({"what": what})
    assert failure.value.kind == kind
    assert time.monotonic() - started < 10
    assert not psutil.pid_exists(first), "the old child must be gone, and reaped"
    assert echo(sandbox)["text"] == "x"


def test_memory_that_was_given_back_before_the_answer_counts(sandbox):
    echo(sandbox)
    with pytest.raises(SandboxFailure) as failure:
        sandbox.call({"what": "spike"})
    assert failure.value.kind == "memory"


def test_an_exception_is_reported_and_the_child_stays(sandbox):
    pid = echo(sandbox)["pid"]
    with pytest.raises(SandboxFailure, match="not a page") as failure:
        sandbox.call({"what": "raise"})
    assert failure.value.kind == "failed"
    assert echo(sandbox)["pid"] == pid


def test_a_child_killed_once_in_mid_page_changes_nothing(sandbox, tmp_path):
    assert sandbox.call({"what": "die once", "mark": str(tmp_path / "mark")})["text"] == "second time"
    assert sandbox.num_started == 2


def test_a_child_killed_between_pages_is_not_a_page_s_fault(sandbox):
    os.kill(echo(sandbox)["pid"], signal.SIGKILL)
    assert echo(sandbox)["text"] == "x"


def test_a_child_that_holds_memory_between_pages_is_replaced(sandbox):
    pid = sandbox.call({"what": "keep"})["pid"]
    assert sandbox.pid is None and not psutil.pid_exists(pid)


def test_no_descriptor_and_no_zombie_is_left_here_or_there(sandbox):
    echo(sandbox)
    ours = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(SandboxFailure):
            sandbox.call({"what": "die"})
        assert len(sandbox.call({"what": "fds"})["fds"]) <= 6  # 0, 1, 2, the socket, the listing, one of Python's
    assert len(os.listdir("/proc/self/fd")) == ours
    assert [child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE] == []


def test_a_child_that_cannot_start_is_a_clear_error(sandbox):
    with pytest.raises(RuntimeError, match=r"no_such_module:make did not start \(exit code 1\)"):
        Sandbox("no_such_module:make", {}, LIMITS).call({})


def test_a_thread_has_its_own_child_and_other_settings_replace_it(sandbox):
    def pid(settings):
        return shared_sandbox("hostile_pages:make", settings, LIMITS).call({"what": "echo", "text": ""})["pid"]

    here, there = pid({"a": 1}), []
    thread = threading.Thread(target=lambda: there.append(pid({"a": 1})))
    thread.start()
    thread.join()
    assert pid({"a": 1}) == here and there != [here]
    assert pid({"a": 2}) != here and not psutil.pid_exists(here)
    shared_sandbox("hostile_pages:make", {"a": 2}, LIMITS).close()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_the_child_dies_with_its_owner(sandbox, tmp_path, end):
    program = (
        "from tasks.clean.extract.sandbox import Limits, Sandbox\n"
        "sandbox = Sandbox('hostile_pages:make', {}, Limits(cpu_seconds=60, wall_seconds=60, memory_mb=100))\n"
        "print(sandbox.call({'what': 'echo', 'text': ''})['pid'], flush=True)\n"
        "sandbox.call({'what': 'spin'})\n"
    )
    root = Path(__file__).resolve().parents[4]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{tmp_path}"}
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    ) as owner:
        assert owner.stdout is not None
        child = int(owner.stdout.readline())
        os.kill(owner.pid, end) if end == signal.SIGKILL else os.killpg(owner.pid, end)
        owner.wait(timeout=20)
        deadline = time.monotonic() + 5
        while psutil.pid_exists(child) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not psutil.pid_exists(child)
