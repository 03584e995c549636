"""Token files whose documents are of several sources, interleaved; every token is a number of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from training.data import TokenDataset
from training.data.config import DataConfig
from training.indexed import IndexedWriter

EOS = 2
SOURCES = {"web": ("en", 0.7), "law": ("zh", 0.2), "git": ("code", 0.1)}


def write_mixed(folder: Path, num_documents: int = 600) -> None:
    """train/a and train/b, documents of 2 to 40 tokens."""
    (folder / "train").mkdir(parents=True)
    rng, number = np.random.default_rng(5), 1000
    for name in ("a", "b"):
        writer, rows = IndexedWriter(folder / "train" / name), []
        for i in range(num_documents // 2):
            length = int(rng.integers(2, 41))
            writer.add(np.append(np.arange(number, number + length - 1), EOS).astype(np.int32))
            number += length
            source = rng.choice(list(SOURCES), p=[share for _, share in SOURCES.values()])
            row = {"id": f"{name}{i}", "source": str(source), "language": SOURCES[source][0], "num_tokens": length}
            rows.append(row)
        writer.close()
        table = pa.Table.from_pylist(rows)
        table = table.set_column(3, "num_tokens", table["num_tokens"].cast(pa.int32()))
        pq.write_table(table, folder / "train" / f"{name}.parquet")


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    write_mixed(folder)
    return folder


@pytest.fixture(scope="session")
def open_mixed(mixed: Path) -> Callable[..., TokenDataset]:
    """open_mixed(DataConfig, num_steps=…) -> the dataset of `mixed`, in steps of 12 sequences of 8 tokens."""

    def make(config: DataConfig, **changes: Any) -> TokenDataset:
        settings: dict[str, Any] = {"digest": "d", "seq_len": 8, "seed": 1, "global_batch_size": 12}
        return TokenDataset.discover(mixed, "train", config=config, **(settings | changes))

    return make
