"""A small store in which every stage ran for real through `run_stage`, on documents with hostile text."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from tasks.document import Document, Dropped, Kept, Origin, Quarantined, RawRecord, document_id
from tasks.stage import Part, Stage, run_stage
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store

SCRIPT = "<script>document.title='owned'</script>"
TEXTS = {
    "web": [
        "The furnace burns day and night. " * 8,
        "The furnace burns day and night! " * 8,
        SCRIPT,
        "short",
        "Ein Ofen brennt. " * 9,
    ],
    "大书 <b>": ["炉火纯青，百炼成钢。" * 20, "爐火純青，百煉成鋼。" * 20, "left\u202eright\u0000 \ud800 text " * 4],
    "bad": [],
}
BROKEN = b"\xff\xfe<script>alert(1)</script>\x00\x80"


@dataclass(frozen=True, kw_only=True, slots=True)
class NoConfig:
    min_chars: int = 20
    note: str = SCRIPT


def raw_records() -> list[RawRecord]:
    records = []
    for source, texts in [*TEXTS.items(), ("bad", [None])]:
        for number, text in enumerate(texts):
            content = BROKEN if text is None else text.encode("utf-8", "surrogatepass")
            identity = document_id(source, "a.txt", number, content)
            records.append(
                RawRecord(
                    id=identity,
                    content=content,
                    media_type="text/plain",
                    declared_charset=None,
                    source=source,
                    url=None,
                    licence=None,
                    origin=Origin(file=f"{SCRIPT}.txt", record=number, offset=0),
                )
            )
    return records


def ingest(run):
    def part(payload, config, writer):
        for record in raw_records():
            writer.put(Kept(document=record))

    run.parts(part, [Part(name="all", step="read", inputs=(), payload=None)])


def decode(records, config):
    for r in records:
        if r.content == BROKEN:
            yield Quarantined(
                id=r.id, content=r.content, reason="no_codec", detail=SCRIPT, source=r.source, origin=r.origin
            )
        else:
            text = r.content.decode("utf-8", "surrogatepass").encode("utf-8", "replace").decode()
            yield Kept(document=Document(id=r.id, text=text, source=r.source, origin=r.origin))


def language(documents, config):
    for d in documents:
        d.language = (
            "zh-Hans" if "百炼" in d.text else "zh-Hant" if "百煉" in d.text else "de" if "Ofen" in d.text else "en"
        )
        yield Kept(document=d)


def drop_short(documents, config):
    for d in documents:
        short = len(d.text) < config.min_chars or SCRIPT in d.text
        yield Dropped(document=d, reason="too_short", evidence={"chars": len(d.text)}) if short else Kept(document=d)


def dedup(documents, config):
    seen: dict[str, str] = {}
    for d in documents:
        kept = seen.setdefault(d.text[:30], d.id)
        if kept == d.id:
            yield Kept(document=d)
        else:
            yield Dropped(document=d, reason="near_duplicate", evidence={"kept_id": kept, "jaccard": 0.9312345})


def tokenizer(run):
    run.output.add_file("tokenizer.model", b"model")
    run.output.facts = {"vocab_size": 512, "algorithm": "unigram", "bytes_per_token": {"en": 3.9, "zh-Hans": 2.1}}


def shards(run):
    documents = [d for s in run.inputs["minhash_dedup"].shards for d in run.inputs["minhash_dedup"].documents(s)]
    table = pa.table(
        {
            "id": [d.id for d in documents],
            "source": [d.source for d in documents],
            "language": [d.language for d in documents],
            "num_tokens": [len(d.text) // 3 for d in documents],
            "num_bytes": [len(d.text.encode()) for d in documents],
        }
    )

    def part(payload, config, writer):
        writer.table("train", table, role="sidecar")

    run.parts(part, [Part(name="train-00000", step="pack", inputs=(), payload=None)])


def train(run):
    lines = []
    for step in range(1, 301):
        noise = math.sin(step * 12.9898) * 0.08
        line = {"kind": "step", "step": step, "loss": 2.1 + 4.1 * math.exp(-step / 60) + noise}
        line["lr"] = 3e-4 * min(1, step / 30) * (1 - step / 400)
        line["grad_norm"] = 0.8 + abs(noise) * (60 if step == 120 else 3)
        lines.append({**line, "tokens_per_second": 8000 + 900 * noise})
        if step % 50 == 0:
            lines.append({"kind": "validation", "step": step, "loss": 2.3 + 4.1 * math.exp(-step / 60)})
    events = [{"kind": "start", "step": 0, "time": 1.5, "ranks": 2}, {"kind": "finished", "step": 300, "time": 9.5}]
    for name, rows in (("metrics", lines), ("events", events)):
        run.output.add_file(f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode(), role="log")
    run.output.facts = {"num_parameters": 1_234_567, "final_loss": 2.13}


def evaluate(run):
    row = {"num_documents": 9, "num_tokens": 4210, "num_skipped": 0}
    row |= {"perplexity": 9.97, "bits_per_byte": 1.234, "loss": 2.3}
    names = {"overall": {"name": "all"}, "by_source": {"name": "web"}, "by_language": {"name": "en"}}
    names["by_source_and_language"] = {"source": "web", "language": "en"}
    report = {"note": "Scored whole.", **{table: [{**row, **name}] for table, name in names.items()}}
    run.output.add_file("evaluation.json", json.dumps(report).encode())
    sample = {"label": "greedy, seed 1", "prompt": "The furnace ", "text": f"burns {SCRIPT}\u202e on"}
    run.output.add_file("samples.json", json.dumps([sample]).encode())


def run_synthetic(store: Store, names: tuple[str, ...] | None = None) -> dict[str, Dataset]:
    """Run the stages called `names` (all by default); their datasets by stage."""

    def mapped(process):
        return lambda run: run.map_shards(process)

    stages = {
        "ingest": ((), ingest), "decode": (("ingest",), mapped(decode)), "language": (("decode",), mapped(language)),
        "filter": (("language",), mapped(drop_short)), "minhash_dedup": (("filter",), mapped(dedup)),
        "tokenizer": (("minhash_dedup",), tokenizer), "shards": (("minhash_dedup", "tokenizer"), shards),
        "train": (("shards",), train), "evaluate": (("train",), evaluate),
    }  # fmt: skip
    datasets: dict[str, Dataset] = {}
    for name, (inputs, function) in stages.items():
        if names is not None and name not in names:
            continue
        stage = Stage(name=name, module="tasks.document", config=NoConfig, inputs=inputs, run=function, summary="")
        given = {i: datasets[i] for i in inputs}
        datasets[name] = run_stage(
            stage, store=store, pipeline="test", config=NoConfig(), inputs=given, workers=0
        ).dataset
    return datasets


@pytest.fixture(scope="session")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    return run_synthetic(Store(str(tmp_path_factory.mktemp("store"))))


@pytest.fixture(scope="session")
def data_stages_only(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    names = ("ingest", "decode", "language", "filter", "minhash_dedup")
    return run_synthetic(Store(str(tmp_path_factory.mktemp("partial"))), names)


@pytest.fixture()
def hostile() -> str:
    return SCRIPT


@pytest.fixture()
def folder(tmp_path: Path) -> Path:
    return tmp_path
