"""A small token dataset and a small run, for tests that train for real."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.training.forked_ranks import Ranks
from training.config import ModelConfig, RunSpec, TrainConfig
from training.indexed import IndexedWriter

TINY_MODEL: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 32,
    "num_layers": 2,
    "num_heads": 4,
    "num_kv_heads": 2,
    "intermediate_size": 67,  # odd: the slices of ZeRO are padded
    "max_seq_len": 32,
}


def write_tokens(stem: Path, *, num_documents: int, seed: int) -> None:
    """Documents that count upwards from a random start: something to learn."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    rows: dict[str, list[Any]] = {name: [] for name in ("id", "source", "language", "num_tokens")}
    writer = IndexedWriter(stem)
    for _ in range(num_documents):
        start, length = rng.integers(3, 97), rng.integers(20, 60)
        writer.add(((start + np.arange(length)) % 94 + 3).astype(np.int32))
        rows["num_tokens"].append(int(length))
        for name in ("id", "source", "language"):
            rows[name].append(f"{stem.name}{len(rows[name])}" if name == "id" else "any")
    writer.close()
    pq.write_table(pa.table(rows), stem.with_name(f"{stem.name}.parquet"))


def write_splits(folder: Path) -> Path:
    write_tokens(folder / "train" / "a", num_documents=40, seed=1)
    write_tokens(folder / "validation" / "a", num_documents=12, seed=2)
    return folder


@pytest.fixture(scope="session")
def token_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_splits(tmp_path_factory.mktemp("tokens"))


def small_spec(tokens: Path, work_dir: Path, *, model: dict[str, Any] | None = None, **changes: Any) -> RunSpec:
    """A run of 20 steps on the token files in `tokens`: an epoch is about 100 sequences, a step takes 8."""
    settings: dict[str, Any] = {
        "seq_len": 16,
        "global_batch_size": 8,
        "micro_batch_size": 2,
        "steps": 20,
        "warmup_steps": 4,
        "lr": 1e-2,
        "checkpoint_interval_steps": 10,
        "eval_interval_steps": 10,
        "eval_batches": 1,
        "stop_grace_seconds": 60,
        "device": "cpu",
    }
    return RunSpec(
        train=TrainConfig(model=ModelConfig(**(TINY_MODEL | (model or {}))), **(settings | changes)),
        work_dir=str(work_dir),
        data_folder=str(tokens),
        train_stems=("train/a",),
        validation_stems=("validation/a",),
        dataset_digest="d" * 64,
        tokenizer_digest="t" * 64,
    )


@pytest.fixture
def make_spec(token_folder: Path, tmp_path: Path) -> Callable[..., RunSpec]:
    """make_spec(name, steps=…, model={…}) -> RunSpec in a folder of its own."""
    return lambda name="run", **changes: small_spec(token_folder, tmp_path / name, **changes)


@pytest.fixture(scope="session")
def ranks() -> Iterator[Ranks]:
    """ranks.run(spec, Kill(...)): real ranks without the launcher, at a second each."""
    with Ranks() as server:
        yield server
