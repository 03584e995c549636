"""`danlu train-quality` from files and from a store, and a pipeline that filters by the model it made."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from flows.cli import app
from flows.options import open_dataset
from flows.train_quality import verdict_is_good
from tasks.review.labels import Label, add
from tasks.review.sample import reasons_of

RIVER = "the river rises slowly because snow melts on high hills in spring and people watch water"
SPAM = "buy cheap pills now click here free bonus casino win you will have to be rich with us"
GOOD, BAD = RIVER.split(), SPAM.split()


def call(*args: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    return result


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")


def texts(words: list[str], number: int = 120) -> list[str]:
    draw = random.Random(7)
    return [" ".join(draw.choices(words, k=40)) for _ in range(number)]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Good ones as gzipped JSON lines and a folder, bad ones as Parquet; one of each for the pipeline to read."""
    with gzip.open(tmp_path / "good.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text, "language": "en"}) + "\n" for text in texts(GOOD))
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "page.txt").write_text("春天的河水慢慢上涨，因为山上的积雪融化了。" * 3)
    (tmp_path / "more" / "picture.png").write_bytes(b"\x89PNG")
    pq.write_table(pa.table({"body": texts(BAD)}), tmp_path / "bad.parquet")
    return tmp_path


def train(files: Path, *args: str | Path, code: int = 0) -> Result:
    with_bad = ("--negative", files / "bad.jsonl") if (files / "bad.jsonl").exists() else ()
    examples = ("--positive", files / "good.jsonl.gz", "--positive", files / "more", *with_bad)
    return call("train-quality", *examples, "--eval-fraction", "0.3", "--output", files / "model.bin", *args, code=code)


@pytest.fixture
def model(files: Path) -> Path:
    (files / "bad.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts(BAD)))
    train(files)
    return files / "model.bin"


def test_it_writes_a_model_and_a_card_and_shows_the_held_out_figures(files: Path) -> None:
    (files / "bad.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts(BAD)))
    said = train(files)
    card = json.loads((files / "model.bin.json").read_text())
    assert card["held_out"]["auc"] > 0.99 and card["data"]["positive"]["documents"] == 121
    assert "121 good documents read" in said.stderr + said.stdout and "held-out documents" in said.stderr + said.stdout
    first = (files / "model.bin").read_bytes(), (files / "model.bin.json").read_bytes()
    shutil.move(files / "good.jsonl.gz", files / "x.jsonl.gz")
    shutil.move(files / "x.jsonl.gz", files / "good.jsonl.gz")
    assert json.loads(train(files, "--json").stdout) == card
    assert first == ((files / "model.bin").read_bytes(), (files / "model.bin.json").read_bytes())
    assert str(files) not in (files / "model.bin.json").read_text()


def test_errors_say_what_was_found_and_what_to_do(files: Path) -> None:
    def error(*args: str | Path) -> str:
        result = call("train-quality", "--output", files / "m.bin", *args, code=1)
        return " ".join((result.stdout + result.stderr).split())

    good = ("--positive", files / "good.jsonl.gz")
    assert "give --positive and --negative examples, or --labels" in error(*good)
    assert "no column 'text'; it has body. Name it: --text-field" in error(*good, "--negative", files / "bad.parquet")
    assert "no such file or folder, and no stage" in error(*good, "--negative", files / "gone.jsonl")
    assert "expected a name that ends in .jsonl" in error(*good, "--negative", files / "more" / "picture.png")
    (files / "bad.jsonl").write_text('{"text": "a"}\n{"body": 1}\n')
    assert "bad.jsonl: line 2: no text in the field 'text'; it has body" in error(
        *good, "--negative", files / "bad.jsonl"
    )
    assert not (files / "m.bin").exists()


def test_a_pipeline_measures_by_the_model_and_filters_by_it(model: Path, tmp_path: Path) -> None:
    inputs, store = tmp_path / "inputs", tmp_path / "store"
    inputs.mkdir()
    for name, words in (("good", GOOD), ("bad", BAD)):
        (inputs / f"{name}.jsonl").write_text(json.dumps({"text": texts(words, 300)[-1]}) + "\n")
    shared = ("--input", inputs, "--store", store, "--workers", "0", "--json", "--until", "filter")
    asked = ("--set", f"language.quality_model={model}", "--set", "filter.min_quality=0.5")

    def run(*settings: str) -> dict[str, Any]:
        rows = [json.loads(line) for line in call("run", *shared, *settings).stdout.splitlines()]
        return {row["name"]: row for row in rows}

    assert run(*asked)["filter"]["status"] == "run"
    assert "low_quality" in call("show", "filter", "--store", store).stdout
    moved = model.with_name("moved.bin")
    shutil.move(model, moved)
    again = run("--set", f"language.quality_model={moved}", "--set", "filter.min_quality=0.5")
    assert {row["status"] for row in again.values()} == {"cached"}
    lower = run("--set", f"language.quality_model={moved}", "--set", "filter.min_quality=0.0")
    assert (lower["language"]["status"], lower["filter"]["status"]) == ("cached", "run")
    gone = call("run", *shared, *asked, code=1)
    assert "danlu train-quality --positive" in " ".join((gone.stdout + gone.stderr).split())


def test_kept_dropped_and_labelled_documents_of_a_store_are_examples(files: Path, tmp_path: Path) -> None:
    inputs, store = tmp_path / "inputs", tmp_path / "store"
    inputs.mkdir()
    good, bad = texts(GOOD, 100), [text.upper() * 6 for text in texts(BAD, 100)]
    (inputs / "all.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in good + bad))
    limits = ("--set", "filter.min_chars=1", "--set", "filter.gopher.min_stop_words=1")
    call("run", "--input", inputs, "--store", store, "--workers", "0", "--until", "filter", *limits)
    shared = ("--store", store, "--eval-fraction", "0.3", "--output", tmp_path / "m.bin", "--json")
    card = json.loads(call("train-quality", *shared, "--positive", "filter", "--negative", "filter/removed").stdout)
    kept, lost = card["data"]["positive"]["documents"], card["data"]["negative"]["documents"]
    assert kept + lost == 200 and lost > 50 and card["held_out"]["auc"] > 0.9
    unknown = call("train-quality", *shared, "--positive", "filter", "--negative", "filter/removed/x", code=1)
    assert "filter dropped some for: " in " ".join((unknown.stdout + unknown.stderr).split())
    none = call("train-quality", *shared, "--labels", "filter", code=1)
    assert "danlu review filter --label" in " ".join((none.stdout + none.stderr).split())
    dataset = open_dataset(str(store), "filter", None)
    files_of = {"kept": dataset.files("shard")} | {name: each for name, (_, each) in reasons_of(dataset).items()}
    given = [
        Label(id=row["id"], stage="filter", reason=reason, verdict="right")
        for reason, entries in files_of.items()
        for entry in entries
        for batch in dataset.batches(entry, ["id"])
        for row in batch.to_pylist()
    ]
    add(dataset, given)
    labelled = json.loads(call("train-quality", *shared, "--labels", "filter").stdout)
    assert labelled["model_sha256"] == card["model_sha256"]


@pytest.mark.parametrize(
    ("decision", "verdict", "good"),
    [("kept", "right", True), ("kept", "wrong", False), ("too_short", "right", False), ("too_short", "wrong", True)],
)
def test_a_label_on_a_decision_says_whether_the_document_is_good(decision: str, verdict: str, good: bool) -> None:
    assert verdict_is_good(decision, verdict) is good and verdict_is_good(decision, "unsure") is None
