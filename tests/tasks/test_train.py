"""The train stage between its neighbours: links the shards, trains for real, publishes what is reproducible."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.pieces import MODEL_FILE
from tasks.stage import Stage, StageRun, run_stage
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store
from tasks.tokenizer.model import EOS_ID
from tasks.train import STAGE, with_more_of_short_tokens
from tasks.trained import load_model, load_state
from tests.conftest import tokenizer_model
from training.config import ModelConfig, TrainConfig
from training.data import TokenDataset
from training.data.config import ComponentConfig, DataConfig, PhaseConfig, ShortTokensConfig, SkipConfig
from training.indexed import IndexedWriter

VOCAB_SIZE = 97
MODEL = ModelConfig(hidden_size=32, num_layers=2, num_heads=4, num_kv_heads=2, intermediate_size=67, max_seq_len=32)
CONFIG = TrainConfig(
    model=MODEL,
    backend="torch",
    device="cpu",
    seq_len=16,
    global_batch_size=8,
    micro_batch_size=4,
    steps=12,
    warmup_steps=3,
    lr=1e-2,
    checkpoint_interval_steps=4,
    eval_interval_steps=6,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Given:
    seed: int = 0


def write_shards(run: StageRun) -> None:
    """Two training pairs and one for validation, as the shards stage names them."""
    folder, tokens = run.scratch(), {"train": 0, "validation": 0}
    for number, (split, name) in enumerate((("train", "b"), ("train", "a"), ("validation", "a"))):
        writer, rng = IndexedWriter(folder / f"{number}"), np.random.default_rng(run.config.seed + number)
        for _ in range(20):
            writer.add((rng.integers(3, 97) + np.arange(30)).astype(np.int32) % VOCAB_SIZE)
        writer.close()
        kinds = [["web", "en"], ["law", "zh-Hans"]]
        rows = [(f"{split}{number}-{i}", *kinds[i % 4 == 0], 30) for i in range(20)]
        sidecar = pa.table(dict(zip(("id", "source", "language", "num_tokens"), zip(*rows, strict=True), strict=True)))
        pq.write_table(sidecar, folder / f"{number}.parquet")
        tokens[split] += writer.num_tokens
        for suffix in (".bin", ".idx", ".parquet"):
            run.output.add_file(f"{split}/{name}{suffix}", folder / f"{number}{suffix}")
    run.output.facts = {
        "vocab_size": VOCAB_SIZE,
        "eos_id": EOS_ID,
        "splits": {split: {"tokens": n} for split, n in tokens.items()},
    }


def write_tokenizer(run: StageRun) -> None:
    run.output.add_file(MODEL_FILE, tokenizer_model(VOCAB_SIZE))


def train(store: Store, config: TrainConfig, seed: int = 0) -> tuple[Dataset, bool]:
    inputs = {}
    for name, function in (("shards", write_shards), ("tokenizer", write_tokenizer)):
        stage = Stage(name=name, module="tasks.document", config=Given, inputs=(), run=function, summary="")
        result = run_stage(stage, store=store, pipeline="t", config=Given(seed=seed), inputs={}, workers=0)
        inputs[name] = result.dataset
    result = run_stage(STAGE, store=store, pipeline="t", config=config, inputs=inputs, workers=0)
    return result.dataset, result.cached


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(str(tmp_path_factory.mktemp("store")))


def test_artifacts_facts_and_logs_of_a_run(store):
    dataset, cached = train(store, CONFIG)
    assert not cached
    assert [f.name for f in dataset.files("artifact")] == ["checkpoint/model.safetensors", "checkpoint/state.json"]
    logs = {f.name for f in dataset.files("log")}
    assert {"metrics.jsonl", "events.jsonl", "checkpoint/optimizer.safetensors"} <= logs
    facts = dataset.manifest.facts
    assert facts["ln_vocab_size"] == math.log(VOCAB_SIZE)
    assert abs(facts["first_loss"] / facts["ln_vocab_size"] - 1) < 0.03
    assert facts["last_loss"] < facts["first_loss"] - 0.3
    assert (facts["steps"], facts["tokens"], facts["samples"]) == (12, 12 * 8 * 16, 96)
    assert facts["checkpoints"] == ["step-00000008", "step-00000012"]
    assert load_model(dataset).num_parameters() == facts["num_parameters"]
    state = load_state(dataset)
    assert state["dataset_digest"] != state["tokenizer_digest"]
    assert train(store, dataclasses.replace(CONFIG, stall_timeout_seconds=99))[1], "watching is no part of the key"


def test_another_store_gives_the_same_digest_and_other_data_another(store, tmp_path: Path):
    first, _ = train(store, CONFIG)
    again, cached = train(Store(str(tmp_path / "other")), CONFIG)
    assert not cached
    assert again.digest == first.digest
    assert train(Store(str(tmp_path / "other")), CONFIG, seed=5)[0].digest != first.digest


def test_a_change_that_begins_later_goes_on_from_the_earlier_run_and_ends_as_if_started_so(store, tmp_path: Path):
    train(store, CONFIG)  # leaves checkpoints at steps 8 and 12
    skipping = DataConfig(skip=(SkipConfig(documents=("train0-3", "train1-7"), from_step=8, reason="a loss spike"),))
    config = dataclasses.replace(CONFIG, data=skipping)
    continued, _ = train(store, config)
    [event] = [row for row in rows_of(continued, "events.jsonl") if row["kind"] == "continued"]
    assert event["step"] == 8
    assert [row["step"] for row in rows_of(continued, "metrics.jsonl") if row["kind"] == "step"] == list(range(1, 13))
    fresh, _ = train(Store(str(tmp_path / "other")), config)
    assert not [row for row in rows_of(fresh, "events.jsonl") if row["kind"] == "continued"]
    assert continued.digest == fresh.digest
    assert continued.digest != train(store, CONFIG)[0].digest


def test_a_mixture_is_read_and_what_came_of_it_is_in_the_facts(tmp_path: Path):
    components = {"law": ComponentConfig(sources=("law",)), "web": ComponentConfig()}
    phases = (PhaseConfig(steps=6, shares={"web": 1.0}), PhaseConfig(shares={"law": 0.5, "web": 0.5}))
    data = DataConfig(components=components, phases=phases)
    dataset, _ = train(Store(str(tmp_path)), dataclasses.replace(CONFIG, data=data))
    law, web = dataset.manifest.facts["mixture"]
    assert (law["component"], law["samples"] + web["samples"]) == ("law", 96)
    assert abs(law["samples"] - 24) < 12  # half of 48; the run ends within a block of 256
    assert law["epochs"] == law["samples"] / ((law["tokens"] - 1) // 16)


def test_components_of_short_tokens_get_more_sequences_and_the_step_stays_as_large(open_tokens):
    data = DataConfig(
        components={"a": ComponentConfig(sources=("a",)), "b": ComponentConfig()},
        phases=(PhaseConfig(shares={"a": 0.5, "b": 0.5}),),
        short_tokens=ShortTokensConfig(below_chars_per_token=2.0, factor=1.8),
    )
    table = np.zeros((2, 200), np.int16)
    table[0, :100], table[0, 100:] = 1, 3  # tokens of source a are below 100 and hold a character each
    raised = with_more_of_short_tokens(open_tokens(data), data, table)
    assert raised.phases[0].shares == pytest.approx({"a": 1.8 / 2.8, "b": 1 / 2.8})
    assert not raised.short_tokens.below_chars_per_token, "applied once"


@pytest.fixture
def open_tokens(tmp_path: Path) -> Callable[[DataConfig], TokenDataset]:
    """Two sources of 50 tokens each, ids below 100 and from 100 on."""
    writer = IndexedWriter(tmp_path / "x")
    writer.add(np.arange(50, dtype=np.int32))
    writer.add(np.arange(100, 150, dtype=np.int32))
    writer.close()
    columns = {"id": ["1", "2"], "source": ["a", "b"], "language": ["en"] * 2, "num_tokens": [50, 50]}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    return lambda config: TokenDataset(tmp_path, ["x"], digest="d", seq_len=8, seed=1, config=config)


def rows_of(dataset: Dataset, name: str) -> list[dict]:
    with dataset.open(name) as file:
        return [json.loads(line) for line in file.read().splitlines()]
