"""From a training step to the documents in its batch, and from a document to everything it went into.

Nothing is stored for this beside the shards' sidecars: the order of samples is a pure function, so a step's batch is
computed again, not looked up.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow.parquet as pq

from flows.engine import MissingInput
from tasks.pieces import character_table, piece_names
from tasks.shards.files import TRAIN, token_files
from tasks.stage import Stage
from tasks.store.dataset import Dataset, current
from tasks.store.filesystem import Store
from training.config import TrainConfig
from training.data import TokenDataset

FATES = {"shard": "kept", "artifact": "kept", "removed": "dropped", "quarantine": "quarantined"}


def trained(store: Store, pipeline: str) -> tuple[Dataset, TokenDataset, TrainConfig]:
    """The current train dataset, the samples it read, and its resolved config. Raises MissingInput."""
    train, shards = current(store, pipeline, "train"), current(store, pipeline, "shards")
    if train is None or shards is None:
        raise MissingInput(f"store {store.url} holds no training run of pipeline {pipeline!r}: run `danlu run` first")
    made_from = Dataset.find(store, "shards", train.manifest.inputs["shards"]["key"]) or shards
    tokenizer = Dataset.find(store, "tokenizer", train.manifest.inputs["tokenizer"]["key"])
    config = TrainConfig.from_dict(train.manifest.facts["config"])
    return train, training_data(made_from, tokenizer, config), config


def documents_of_step(store: Store, pipeline: str, step: int) -> list[dict[str, Any]]:
    """The documents in the batch of `step` (counted from 1, as in the metrics), with the tokens of each in it."""
    train, data, config = trained(store, pipeline)
    if not 1 <= step <= config.steps:
        raise ValueError(f"step: expected 1 … {config.steps:,} (the length of the run), found {step}")
    first, rows = (step - 1) * config.global_batch_size, []
    replaced = replaced_samples(train)
    for sample in range(first, first + config.global_batch_size):
        component = data.component_of(sample)
        for span in data.documents_of(sample):
            rows.append(
                {
                    "step": step,
                    "sample": sample,
                    "component": component,
                    "document": span.id,
                    "source": span.source,
                    "language": span.language,
                    "tokens": [span.start, span.stop],
                    "replaced": sample in replaced,  # refused by a guard: training read another in its place
                }
            )
    return rows


def steps_of_document(data: TokenDataset, config: TrainConfig, document: str) -> list[int]:
    """The steps of the run, counted from 1, whose batch holds a token of the document."""
    samples = data.samples_of(document, stop=config.steps * config.global_batch_size)
    return sorted({sample // config.global_batch_size + 1 for sample in samples})


def replaced_samples(train: Dataset) -> set[int]:
    """The samples that the guards of the run replaced."""
    found: set[int] = set()
    for entry in train.files("log"):
        if entry.name.startswith("findings-"):
            with train.open(entry.name) as file:
                rows = [json.loads(line) for line in file.read().split(b"\n") if line]
            found.update(row["sample"] for row in rows if row["action"] == "replaced")
    return found


def journey_of_document(store: Store, pipeline: str, stages: tuple[Stage, ...], document: str) -> dict[str, Any]:
    """What became of a document at each stage, and the shards, steps and checkpoints it went into.

    Raises ValueError when no stage of the pipeline ever saw the id.
    """
    journey: dict[str, Any] = {"document": document, "stages": [], "shards": [], "steps": [], "checkpoints": []}
    for stage in stages:
        dataset = current(store, pipeline, stage.name)
        if dataset is not None and dataset.manifest.account.rows:
            journey["stages"] += [{"stage": stage.name, **found} for found in find_document(dataset, document)]
    journey["shards"] = [place["file"] for place in journey["stages"] if place["stage"] == "shards"]
    if not journey["stages"]:
        raise ValueError(f"document {document!r}: no stage of pipeline {pipeline!r} in {store.url} has seen that id")
    if current(store, pipeline, "train") is None:
        return journey
    train, data, config = trained(store, pipeline)
    journey["steps"] = steps_of_document(data, config, document)
    first = journey["steps"][0] if journey["steps"] else None
    saved = train.manifest.facts["checkpoints"]
    journey["checkpoints"] = [name for name in saved if first is not None and int(name.rsplit("-", 1)[-1]) >= first]
    return journey


def training_data(shards: Dataset, tokenizer: Dataset | None, config: TrainConfig) -> TokenDataset:
    """The samples that training read, under its mixture, skips and curriculum."""
    folder, stems = token_files(shards, TRAIN)
    table = None
    if config.data.needs_characters:
        if tokenizer is None:
            raise MissingInput("the tokenizer that this run's train.data was worked out with is no longer in the store")
        table = character_table(piece_names(tokenizer), config.data.frequency.characters)
    return TokenDataset.for_training(folder, stems, config, digest=shards.digest, characters=table)


def find_document(dataset: Dataset, document: str) -> list[dict[str, Any]]:
    """Where in one dataset a document is: kept (a shard, or the sequences of a token shard), removed, quarantined."""
    found = []
    tables = [f for f in dataset.manifest.files if f.name.endswith(".parquet") and f.role in FATES]
    for entry in sorted(tables, key=lambda f: f.name):
        with dataset.open(entry.name) as file:
            rows = pq.read_table(file, filters=[("id", "=", document)]).to_pylist()
        for row in rows:
            known = {k: row[k] for k in ("reason", "evidence", "detail", "language") if row.get(k) is not None}
            found.append({"fate": FATES[entry.role], "file": f"{dataset.folder}/{entry.name}", **known})
    return found
