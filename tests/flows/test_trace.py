"""From a step to its documents and back, for a run with a mixture, a skipped document and a replaced sample."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.trace import documents_of_step, steps_of_document, trained, training_data
from tasks.pieces import MODEL_FILE
from tasks.stage import Stage, StageRun, run_stage
from tasks.store.dataset import Dataset, current
from tasks.store.filesystem import Store
from tasks.tokenizer.model import EOS_ID
from tasks.train import STAGE
from tests.conftest import tokenizer_model
from training.config import ModelConfig, TrainConfig
from training.data.config import ComponentConfig, DataConfig, PhaseConfig, SkipConfig
from training.guards import GuardConfig
from training.indexed import IndexedWriter

VOCAB_SIZE, STEPS, SKIPPED_FROM = 97, 12, 3
DATA = DataConfig(
    components={"law": ComponentConfig(sources=("law",)), "web": ComponentConfig()},
    phases=(PhaseConfig(shares={"law": 0.5, "web": 0.5}),),
    skip=(SkipConfig(documents=("law5",), from_step=SKIPPED_FROM),),
)
CONFIG = TrainConfig(
    model=ModelConfig(hidden_size=32, num_layers=1, num_heads=2, num_kv_heads=2, intermediate_size=64, max_seq_len=16),
    backend="torch",
    device="cpu",
    seq_len=16,
    global_batch_size=8,
    micro_batch_size=4,
    steps=STEPS,
    eval_interval_steps=0,
    data=DATA,
    guards=GuardConfig(max_repeated_tokens=12, max_repeated_share=None, min_entropy_bits=None, max_surprise=None),
    bad_samples="replace",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Given:
    pass


def write_shards(run: StageRun) -> None:
    """Sixty documents, every other of them law; web7 repeats one token."""
    folder, rng = run.scratch(), np.random.default_rng(0)
    writer, sources = IndexedWriter(folder / "a"), ["law" if i % 2 else "web" for i in range(60)]
    for number in range(60):
        ids = rng.integers(3, VOCAB_SIZE, 20) if number != 14 else np.full(20, 5)
        writer.add(ids.astype(np.int32))
    writer.close()
    ids = [f"{source}{number // 2}" for number, source in enumerate(sources)]
    columns = {"id": ids, "source": sources, "language": ["en"] * 60, "num_tokens": pa.array([20] * 60, pa.int32())}
    pq.write_table(pa.table(columns), folder / "a.parquet")
    for suffix in ("bin", "idx", "parquet"):
        run.output.add_file(f"train/a.{suffix}", folder / f"a.{suffix}")
    splits = {"train": {"tokens": 1200}, "validation": {"tokens": 0}}
    run.output.facts = {"vocab_size": VOCAB_SIZE, "eos_id": EOS_ID, "splits": splits}


def write_tokenizer(run: StageRun) -> None:
    run.output.add_file(MODEL_FILE, tokenizer_model(VOCAB_SIZE))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store, inputs = Store(str(tmp_path_factory.mktemp("store"))), {}
    for name, function in (("shards", write_shards), ("tokenizer", write_tokenizer)):
        stage = Stage(name=name, module="tasks.document", config=Given, inputs=(), run=function, summary="")
        made = run_stage(stage, store=store, pipeline="t", config=Given(), inputs={}, workers=0)
        inputs[name] = made.dataset
    run_stage(STAGE, store=store, pipeline="t", config=CONFIG, inputs=inputs, workers=0)
    return store


def shards_of(store: Store) -> Dataset:
    found = current(store, "t", "shards")
    assert found is not None
    return found


def test_each_step_names_its_documents_and_each_document_its_steps(store):
    steps: dict[str, set[int]] = {}
    for step in range(1, STEPS + 1):
        rows = documents_of_step(store, "t", step)
        assert len({row["sample"] for row in rows}) == 8
        assert all(row["component"] == row["source"] for row in rows)
        for row in rows:
            steps.setdefault(row["document"], set()).add(step)
    _, data, config = trained(store, "t")
    for document in ("law5", "law6", "web7", "web20"):
        assert steps_of_document(data, config, document) == sorted(steps.get(document, ()))
    plain = training_data(shards_of(store), None, dataclasses.replace(config, data=dataclasses.replace(DATA, skip=())))
    unskipped = steps_of_document(plain, config, "law5")
    assert unskipped[-1] > SKIPPED_FROM, "it would have been read again"
    assert sorted(steps.get("law5", ())) == [step for step in unskipped if step <= SKIPPED_FROM]


def test_a_sample_that_a_guard_replaced_is_marked(store):
    marked = [row for step in range(1, STEPS + 1) for row in documents_of_step(store, "t", step) if row["replaced"]]
    found = Path(store.path("work/train"))
    [log] = found.glob("*/findings-00000.jsonl")
    findings = [json.loads(line) for line in log.read_text().splitlines()]
    assert {row["sample"] for row in marked} == {finding["sample"] for finding in findings}
    assert "web7" in {document["id"] for finding in findings for document in finding["documents"]}
