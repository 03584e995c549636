"""The command line as a person and a script meet it: help, questions, errors, Ctrl-C, and a quick start."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from flows.cli import app
from flows.order import STAGES

HEAVY = ("torch", "prefect", "ray", "transformers", "sentence_transformers", "datasketch", "matplotlib", "deepspeed")
COMMANDS = ["run", "resume", "status", "why", "show", "trace", "gc", *(s.name.replace("_", "-") for s in STAGES)]


def call(*args: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    return result


def test_the_help_names_every_command_and_what_it_is_for() -> None:
    text = call("--help").stdout
    for command in COMMANDS:
        assert f" {command} " in text, command
    assert "raw text to checkpoint" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_says_what_it_does_and_explains_its_options(command: str) -> None:
    lines = call(command, "--help").stdout.splitlines()
    assert sum(len(line.strip()) > 20 for line in lines) >= 3
    assert "--store" in "\n".join(lines) and "Folder or fsspec URL" in "\n".join(lines)


def test_an_answer_needs_no_heavy_library(danlu: Any, kit: Any) -> None:
    """What takes seconds to load is loaded by the stage that uses it."""
    code = "import sys, flows.cli; print(*sys.modules)"
    environment = {"PYTHONPATH": str(kit.ROOT), "PATH": "/usr/bin:/bin", "HOME": str(danlu.folder)}
    found = subprocess.run(
        [kit.sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert set(HEAVY) & set(found.stdout.split()) == set()


def error_of(*args: str | Path) -> str:
    result = call(*args, code=1)
    assert "Traceback" not in result.stderr and result.stdout == ""
    return result.stderr


def test_a_mistake_is_one_message_that_says_what_to_do(tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert "expected a file or folder, found nothing" in error_of("run", "--input", tmp_path / "no", "--store", store)
    assert "the stages are: ingest, decode" in error_of("run", "--until", "fliter", "--store", store)
    assert "no input: give --input PATH" in error_of("run", "--store", store)
    assert "no run is recorded" in error_of("resume", "--store", store)
    assert "no run is recorded" in error_of("why", "filter", "--store", store)
    assert "either --step N or --document ID" in error_of("trace", "--store", store)
    assert "run `danlu run --until filter`" in error_of("show", "filter", "--store", store)
    (tmp_path / "a.txt").write_text("text " * 50)
    assert "first run `danlu run --until" in error_of("filter", "--input", tmp_path / "a.txt", "--store", store).lower()
    assert call("run", "--stoer", "x", code=2).stderr.count("--store") == 1


def test_settings_with_lists_reach_the_stage(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    for licence in ("MIT", "GPL"):
        text = f"The library of the town lends books, maps and sewing machines to all, and {licence} is what it says."
        (raw / f"{licence}.jsonl").write_text(json.dumps({"text": text, "licence": licence}))
    common = ("--input", raw, "--store", tmp_path / "s", "--workers", "0", "--until", "filter", "--json")
    rows = [json.loads(line) for line in call("run", *common, "--set", "filter.licences=[MIT]").stdout.splitlines()]
    assert rows[-1]["account"]["kept"] == 1 and rows[-1]["account"]["dropped"] == {"licence": 1}


@pytest.mark.slow
def test_the_questions_are_answered_from_the_store(finished: Any, kit: Any, tmp_path: Path) -> None:
    store = kit.copy_of(finished.store, tmp_path / "store")
    rows = [json.loads(line) for line in call("status", "--store", store, "--json").stdout.splitlines()]
    assert [row["stage"] for row in rows] == [stage.name for stage in STAGES] and all(row["present"] for row in rows)
    assert "cached" in call("why", "report", "--store", store).stdout
    shown = call("show", "filter", "--store", store).stdout
    assert "account of filter" in shown and "removed/" in shown
    key = json.loads(call("show", "filter", "--store", store, "--json").stdout)["key"]
    assert key in call("show", key[:10], "--store", store).stdout
    assert "quarantine/" in call("show", "ingest", "--store", store).stdout


@pytest.mark.slow
def test_a_step_leads_to_documents_and_a_document_to_its_steps(finished: Any) -> None:
    lines = call("trace", "--step", "3", "--store", finished.store, "--json").stdout.splitlines()
    document = json.loads(lines[0])["document"]
    journey = json.loads(call("trace", "--document", document, "--store", finished.store, "--json").stdout)
    assert 3 in journey["steps"] and journey["shards"] and journey["checkpoints"]
    fates = {place["stage"]: place["fate"] for place in journey["stages"]}
    assert set(fates.values()) == {"kept"} and {"ingest", "filter", "mix", "shards"} <= set(fates)
    assert "expected 1 … 10" in error_of("trace", "--step", "11", "--store", finished.store)
    assert "no stage" in error_of("trace", "--document", "f" * 32, "--store", finished.store)


@pytest.mark.slow
def test_garbage_is_named_before_it_goes_and_what_is_used_stays(finished: Any, kit: Any, tmp_path: Path) -> None:
    store = kit.copy_of(finished.store, tmp_path / "store")
    run = ("run", "--config", finished.recipe, "--store", store, "--workers", "0", "--until", "filter", "--json")
    call(*run, "--set", "filter.min_chars=500")
    call(*run)
    would = call("gc", "--store", store, "--dry-run").stdout
    assert would.count("would delete datasets/filter/") == 1 and "1 datasets" in would
    assert len(list(store.glob("datasets/filter/*"))) == 2
    assert call("gc", "--store", store).stdout.count("deleted datasets/filter/") == 1
    assert len(list(store.glob("datasets/filter/*"))) == 1
    assert "cached" in call("why", "report", "--store", store).stdout


@pytest.mark.slow
def test_ctrl_c_exits_130_with_a_hint_and_resume_ends_the_run(danlu: Any, kit: Any, tmp_path: Path) -> None:
    shutil.copytree(kit.ROOT / "recipes" / "sample" / "plain", tmp_path / "raw")
    settings = ("--set", "ingest.small_file_bytes=1", "--until", "language")
    process, mark = danlu.start("run", "--input", "raw", "--store", "store", "--workers", "1", "--json", *settings)
    while not list((tmp_path / "store" / "parts").rglob("*.json")) and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "stopped" in err and "danlu resume" in err and "Traceback" not in err
    assert kit.survivors(mark, 10) == []
    resumed = danlu("resume", "--store", "store", "--workers", "0", "--json")
    fresh = danlu("run", "--input", "raw", "--store", "fresh", "--workers", "0", "--json", *settings)
    assert resumed.digests == fresh.digests and [row["name"] for row in resumed.rows][-1] == "language"
