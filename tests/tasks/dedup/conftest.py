"""Documents as a finished dataset, and the planted duplicates."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tasks.document import Document, Kept, Origin, document_id
from tasks.stage import Part, PartWriter, Stage, StageRun, run_stage
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store


class Given:
    """Runs one stage over documents that are dealt to shards."""

    def __init__(self, folder: Path):
        self.folder, self.count = folder, 0

    def __call__(
        self, stage: Stage, config: Any, shards: Sequence[Sequence[Document]], workers: int = 0, store: str = ""
    ) -> Dataset:
        self.count += 1
        home = Store(str(self.folder / (store or f"store-{self.count}")))
        [name] = stage.inputs
        given = Stage(name=name, module="tasks.document", config=dict, inputs=(), run=_given(shards), summary="")
        made = run_stage(given, store=home, pipeline="t", config={"n": self.count}, inputs={}, workers=0).dataset
        return run_stage(stage, store=home, pipeline="t", config=config, inputs={name: made}, workers=workers).dataset


def _given(shards: Sequence[Sequence[Document]]) -> Callable[[StageRun], None]:
    def write(documents: Iterable[Document], config: Any, writer: PartWriter) -> None:
        for document in documents:
            writer.put(Kept(document=document))

    def run(run: StageRun) -> None:
        parts = [
            Part(name=f"s{i:03d}", step="given", inputs=tuple(d.id for d in shard), payload=shard, settings={})
            for i, shard in enumerate(shards)
        ]
        run.parts(write, parts)

    return run


@pytest.fixture
def run_on(tmp_path: Path) -> Given:
    """`run_on(STAGE, config, [[document, …], …])` -> the finished dataset."""
    return Given(tmp_path)


@pytest.fixture(scope="session")
def planted(shared_data: Path) -> list[dict[str, Any]]:
    """The rows of dedup/planted.jsonl.zst."""
    with open(shared_data / "dedup" / "planted.jsonl.zst", "rb") as file:
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file)
        return [json.loads(line) for line in io.TextIOWrapper(reader, encoding="utf-8", newline="\n")]


def document(text: str, source: str = "s", language: str = "en", name: str = "") -> Document:
    origin = Origin(file=name or "f", record=0, offset=0)
    identity = document_id(source, name, 0, text.encode("utf-8", "surrogatepass"))
    return Document(id=identity, text=text, source=source, language=language, origin=origin)


@pytest.fixture(scope="session")
def make_document() -> Callable[..., Document]:
    return document


def kept(dataset: Dataset) -> list[Any]:
    return [d for shard in dataset.shards for d in dataset.documents(shard)]


def removed(dataset: Dataset) -> dict[str, dict[str, Any]]:
    """id -> evidence, with the reason."""
    found = {}
    for entry in dataset.files("removed"):
        for batch in dataset.batches(entry):
            for row in batch.to_pylist():
                found[row["id"]] = {"reason": row["reason"], **json.loads(row["evidence"])}
    return found


@pytest.fixture(scope="session")
def read_kept() -> Callable[[Dataset], list[Any]]:
    return kept


@pytest.fixture(scope="session")
def read_removed() -> Callable[[Dataset], dict[str, dict[str, Any]]]:
    return removed
