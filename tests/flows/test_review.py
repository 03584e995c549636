"""`danlu review` as a person and a script meet it, on a store that the pipeline made of the bundled sample."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from flows.cli import app


def call(*args: str | Path, code: int = 0, answers: str | None = None) -> Result:
    result = CliRunner().invoke(app, [str(arg) for arg in args], input=answers)
    assert result.exit_code == code, f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    return result


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")  # so that no cell is folded


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, kit: Any) -> Path:
    folder = tmp_path_factory.mktemp("review")
    for name in ("plain", "duplicates", "broken"):
        shutil.copytree(kit.ROOT / "recipes" / "sample" / name, folder / "inputs" / name)
    store = folder / "store"
    call("run", "--input", folder / "inputs", "--store", store, "--until", "minhash_dedup", "--workers", "0")
    return store


@pytest.fixture
def store(made: Path, tmp_path: Path, kit: Any) -> Path:
    """A copy to label."""
    return kit.copy_of(made, tmp_path / "store")


def labels_of(store: Path, stage: str) -> list[dict[str, Any]]:
    return [json.loads(line) for path in (store / "reviews" / stage).glob("*.jsonl") for line in path.open()]


@pytest.mark.parametrize("stage", ["ingest", "filter", "exact-dedup", "minhash-dedup"])
def test_dropped_and_kept_documents_stand_side_by_side(made: Path, stage: str) -> None:
    text = call("review", stage, "--store", made, "--samples", "2").stdout
    lost = "quarantined: " if stage == "ingest" else "dropped: "
    assert lost in text and "│ kept" in text and "not reviewed" in text
    assert "\x1b" not in text


def test_the_difference_between_duplicates_is_marked_without_a_terminal_too(made: Path) -> None:
    assert "⟦" in call("review", "minhash-dedup", "--store", made).stdout


def test_the_answer_for_a_program_is_one_object_a_case(made: Path) -> None:
    lines = call("review", "filter", "--store", made, "--json", "--samples", "3").stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    dropped = [row for row in rows if row["record"]["outcome"] == "dropped"]
    assert dropped and all({"metric", "found", "limit"} <= row["record"]["evidence"].keys() for row in dropped)


def test_answers_become_labels_and_labels_a_rate(store: Path) -> None:
    asked = ("review", "filter", "--store", store, "--reason", "too_short", "--label")
    text = call(*asked, answers="r\nmaybe\nw a whole sentence\nu\nq\n").stdout
    assert "answer r (right)" in text
    given = labels_of(store, "filter")
    assert [row["verdict"] for row in given] == ["right", "wrong", "unsure"]
    assert given[1]["note"] == "a whole sentence"
    assert "50.0 %" in text
    rates = json.loads(call("review", "filter", "--store", store, "--rates", "--json").stdout)
    [too_short] = [rate for rate in rates["lost"] if rate["reason"] == "too_short"]
    assert (too_short["labelled"], too_short["wrong"], too_short["unsure"]) == (2, 1, 1)
    [stored] = (store / "reviews" / "filter").glob("*.rates.json")
    assert json.loads(stored.read_text()) == rates


def test_labelling_goes_on_where_it_was_left_and_the_end_of_input_keeps_labels(store: Path) -> None:
    asked = ("review", "filter", "--store", store, "--reason", "too_short", "--label")
    stopped = call(*asked, answers="r\nr\n", code=130)
    assert "2 labels are stored" in stopped.stderr
    again = call(*asked, answers="w\nq\n").stdout
    assert "2 have a label" in again
    assert len({row["id"] for row in labels_of(store, "filter")}) == 3


def test_ctrl_c_keeps_what_was_given(store: Path, danlu: Any) -> None:
    command = [sys.executable, "-m", "flows.cli", "review", "filter", "--store", str(store), "--label"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=danlu.tree
    )
    assert process.stdin is not None
    process.stdin.write("r\n")
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while (
        not list((store / "reviews").glob("filter/*.jsonl")) and time.monotonic() < deadline
    ):  # whole: it is renamed there
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err and "1 labels are stored" in err
    assert [row["verdict"] for row in labels_of(store, "filter")] == ["right"]


def test_a_page_has_the_documents_and_its_label_file_is_taken(store: Path, tmp_path: Path) -> None:
    call("review", "minhash-dedup", "--store", store, "--html", tmp_path / "pages" / "page.html")
    html = (tmp_path / "pages" / "page.html").read_text(encoding="utf-8")
    rows = [
        json.loads(line) for line in call("review", "minhash-dedup", "--store", store, "--json").stdout.splitlines()
    ]
    assert rows and all(f'data-id="{row["record"]["id"]}"' in html for row in rows)
    file = tmp_path / "labels.jsonl"
    given = [{**row["label"], "verdict": "right"} for row in rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in given))
    text = call("review", "minhash-dedup", "--store", store, "--labels", file).stdout
    assert "0.0 % (0.0–" in text and len(labels_of(store, "minhash_dedup")) == len(rows)


def test_pairs_just_below_the_limit_are_labelled_too(store: Path) -> None:
    asked = ("review", "minhash-dedup", "--store", store, "--reason", "below", "--label")
    text = call(*asked, answers="w the same text\nr\nq\n").stdout
    assert "kept as well, nearly alike" in text and "kept, near minhash_duplicate" in text and "50.0 %" in text
    assert [(row["reason"], row["near"]) for row in labels_of(store, "minhash_dedup")] == [
        ("kept", "minhash_duplicate")
    ] * 2
    assert "2 have a label" in call(*asked, answers="q\n").stdout


def test_a_label_file_that_does_not_fit_is_refused_whole(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "labels.jsonl"
    row = {"id": "0" * 32, "stage": "filter", "reason": "too_short", "verdict": "wrong"}
    file.write_text(json.dumps(row) + "\n")
    error = call("review", "filter", "--store", store, "--labels", file, code=1).stderr
    assert "is not among its documents" in error and not (store / "reviews").exists()


def test_a_report_that_shows_old_rates_is_written_anew(store: Path) -> None:
    call("report", "--store", store, "--workers", "0")
    digests = {row["stage"]: row["digest"] for row in status(store)}
    call("review", "filter", "--store", store, "--reason", "too_short", "--label", answers="w\nq\n")
    assert {row["stage"]: row["digest"] for row in status(store)} == digests
    report = call("report", "--store", store, "--workers", "0", "--json").stdout
    assert json.loads(report)["status"] == "run"
    pages = (store / "datasets" / "report").glob("*/report.html")
    assert sorted("Measured error rates" in page.read_text(encoding="utf-8") for page in pages) == [False, True]
    assert json.loads(call("report", "--store", store, "--workers", "0", "--json").stdout)["status"] == "cached"


def status(store: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in call("status", "--store", store, "--json").stdout.splitlines()]


def test_a_dataset_named_by_its_path_has_its_labels_in_its_store(store: Path) -> None:
    [folder] = (store / "datasets" / "filter").iterdir()
    call("review", folder, "--reason", "too_short", "--label", answers="r\nq\n")
    assert len(labels_of(store, "filter")) == 1


def test_a_mistake_is_one_message(made: Path) -> None:
    assert (
        "no document was lost for nothing"
        in call("review", "filter", "--store", made, "--reason", "nothing", code=1).stderr
    )
    assert "has no current dataset" in call("review", "mix", "--store", made, code=1).stderr
