"""The number of workers reaches no byte of what deduplication writes."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks import spread
from tasks.dedup import exact, minhash, semantic
from tasks.dedup.encoders import USE
from tasks.dedup.paragraphs import ParagraphConfig
from tasks.document import Document, Kept
from tasks.stage import Part, PartWriter, Stage, StageRun, run_stage
from tasks.store.filesystem import Store

WORDS = ["river", "stone", "market", "winter", "garden", "letter", "engine", "copper", "bridge", "silver", "forest"]
NEWS = (
    "市政府昨日召开会议，研究部署今年的防汛工作。会议指出，各区要提高认识，落实责任，加强对水库、河道和低洼地区的巡查，"
)
NOTICE = "Readers of this library are asked to keep their voices low and to bring every book back on time."


def texts() -> list[str]:
    """Exact copies, near copies, rewordings and a paragraph that three documents hold."""
    generator, made = random.Random(3), list[str]()
    for number in range(16):
        words = generator.choices(WORDS, k=120)
        made.append(" ".join(words) + (f"\n\n{NOTICE}" if number < 3 else ""))
        if number % 3 == 0:
            words[generator.randrange(120)] = "changed"
            made.append(" ".join(words))
        if number % 8 == 0:
            made.append("  ".join(made[-1].split(" ")))
    body = NEWS * 3
    return [*made, body, body.replace("昨日召开会议", "昨天召开会议").replace("各区要", "各区应")]


def write(documents: list[Document], config: object, writer: PartWriter) -> None:
    for document in documents:
        writer.put(Kept(document=document))


def give(run: StageRun, documents: list[Document]) -> None:
    parts = [Part(name=f"s{i}", step="given", inputs=(str(i),), payload=documents[i::4], settings={}) for i in range(4)]
    run.parts(write, parts)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One Ray session for all numbers of workers, which are then calls in flight on its four CPUs."""
    from ray.cluster_utils import Cluster

    spread.shutdown()
    with tempfile.TemporaryDirectory(prefix="ray-") as home:
        monkeypatch.setenv("RAY_TMPDIR", home)
        head = {"num_cpus": 4, "object_store_memory": 80 << 20, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        try:
            yield
        finally:
            spread.shutdown()
            cluster.shutdown()


@pytest.mark.slow
def test_one_two_and_four_workers_write_the_same_bytes_in_every_stage(tmp_path: Path, make_document, cluster):
    documents = [
        make_document(text, language="zh-Hans" if "市" in text else "en", name=str(i)) for i, text in enumerate(texts())
    ]
    paragraphs = ParagraphConfig(min_chars=50, min_documents=2)
    chain = [
        (exact.STAGE, exact.ExactConfig(paragraphs=paragraphs)),
        (minhash.STAGE, minhash.MinHashConfig()),
        (semantic.STAGE, semantic.SemanticConfig(encoders=(USE,), template_policy="drop")),
    ]
    given = Stage(
        name="filter",
        module="tasks.document",
        config=dict,
        inputs=(),
        run=lambda run: give(run, documents),
        summary="",
    )
    found: dict[str, tuple] = {}
    removed: list[int] = []
    for workers in (0, 1, 2, 4):
        store = Store(str(tmp_path / str(workers)))
        dataset = run_stage(given, store=store, pipeline="t", config={}, inputs={}, workers=0).dataset
        for stage, config in chain:
            inputs = {stage.inputs[0]: dataset}
            done = run_stage(stage, store=store, pipeline="t", config=config, inputs=inputs, workers=workers)
            dataset = done.dataset
            bytes_of = [(file.name, file.sha256) for file in dataset.manifest.files]
            assert found.setdefault(stage.name, (dataset.digest, bytes_of)) == (dataset.digest, bytes_of)
            removed.append(dataset.manifest.account.total().dropped.total())
    assert all(removed[:3]) and removed == removed[:3] * 4
