"""`danlu tokenizer compare`: what a person and a script read, and where the report shows it."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from flows.cli import app
from flows.tokenizer import numbers, pair

SIZES = "2000,2600,70000"


def call(*args: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    return result


@pytest.fixture(scope="module")
def store(finished: Any, kit: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kit.copy_of(finished.store, tmp_path_factory.mktemp("compare") / "store")


def test_a_table_advice_and_then_the_report(store: Path, kit: Any, tmp_path: Path) -> None:
    said = call("tokenizer", "compare", "--sizes", SIZES, "--store", store, "--workers", 0)
    assert "2,000 / 0" in said.stdout and "2,600 / 1" in said.stdout and "recommended: " in said.stdout
    assert "70,000: sample 0 has text for" in said.stdout
    again = call("tokenizer", "compare", "--sizes", SIZES, "--store", store, "--workers", 0, "--json")
    rows = json.loads(again.stdout)["rows"]
    assert [(row["size"], row["sample"]) for row in rows][:3] == [(2000, "0"), (2000, "1"), (2600, "0")]
    assert all(row["seconds"]["fit"] > 0 for row in rows)
    kit.Danlu(tmp_path)("report", "--store", store)
    page = max(store.glob("datasets/report/*/report.html"), key=lambda found: found.stat().st_mtime_ns)
    text = page.read_text()
    assert 'id="vocabulary"' in text and text.count("<svg") >= 4


def test_after_ctrl_c_the_finished_sizes_stay(store: Path, kit: Any, tmp_path: Path) -> None:
    target = kit.copy_of(store, tmp_path / "store", without=("tokenizer_compare",))
    danlu = kit.Danlu(tmp_path)
    command = ("tokenizer", "compare", "--sizes", "1500,1600,1700", "--store", target, "--workers", "0")
    process, mark = danlu.start(*command)
    deadline = time.monotonic() + 120
    while len(models := list(target.glob("datasets/tokenizer_compare/*/models/*.model"))) < 2:  # so one is finished
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "stopped." in err
    assert kit.survivors(mark, 5) == []
    first = min(models, key=lambda path: path.stat().st_mtime_ns)
    made = first.stat().st_mtime_ns
    danlu(*command)
    assert first.stat().st_mtime_ns == made
    assert len(list(target.glob("datasets/tokenizer_compare/*/models/*.model"))) == 6


def test_the_stage_alone_still_runs_by_its_name(store: Path) -> None:
    assert "cached" in call("tokenizer", "--store", store).stderr


def test_a_mistake_is_one_message(store: Path, tmp_path: Path) -> None:
    wrong = call("tokenizer", "compare", "--sizes", "many", "--store", store, code=1)
    assert "--sizes many: expected numbers separated by commas" in wrong.stderr
    assert "no run is recorded" in call("tokenizer", "compare", "--store", tmp_path / "none", code=1).stderr


def test_options_are_read_strictly() -> None:
    assert numbers("16000, 8_000,16000") == (8000, 16_000)
    assert pair("Qwen=a=b.tiktoken") == ("Qwen", "a=b.tiktoken")
    with pytest.raises(ValueError, match="expected NAME=FILE"):
        pair("qwen.tiktoken")
