"""How the dedup stages read: few columns of many rows, or many columns of few rows, never a whole shard of objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.dedup.survivors import Catalogue
from tasks.stage import Part, PartResult, PartWriter, StageRun
from tasks.store.dataset import Dataset


def shard_parts(run: StageRun, step: str, settings: dict[str, Any]) -> list[Part]:
    """One part per shard of the input; `settings` is what of the config the step depends on."""
    reference = run.input.reference()
    return [
        Part(
            name=shard.stem,
            step=step,
            inputs=(shard.sha256,),
            payload={"dataset": reference, "shard": shard.name},
            settings=settings,
        )
        for shard in run.input.shards
    ]


def shard_batches(payload: dict, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The batches of the shard that a part of `shard_parts` is for."""
    yield from Dataset.load(payload["dataset"]).batches(payload["shard"], columns=columns)


def write_sidecar(writer: PartWriter, kind: str, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> None:
    writer.table(kind, pa.Table.from_batches(list(batches), schema=schema))


def read_sidecars(run: StageRun, results: Sequence[PartResult], columns: list[str]) -> Iterator[pa.Table]:
    """Those columns of each part's sidecar, one table at a time, in order of the parts."""
    for result in results:
        [entry] = [file for file in result.files if file.role == "sidecar"]
        with run.store.open(f"{run.output.folder}/{entry.name}") as file:
            yield pq.read_table(file, columns=columns)


def rows_of(
    run: StageRun, results: Sequence[PartResult], documents: Catalogue, wanted: np.ndarray, column: str
) -> Iterator[tuple[np.ndarray, pa.ChunkedArray]]:
    """(numbers, values) of `column` for the documents `wanted` (ascending numbers), a row group of a sidecar at a time;
    row groups without such a document are not read."""
    for shard in np.unique(documents.shards[wanted]):
        numbers = wanted[documents.shards[wanted] == shard]
        rows = documents.rows[numbers]
        [entry] = [file for file in results[shard].files if file.role == "sidecar"]
        with run.store.open(f"{run.output.folder}/{entry.name}") as file:
            parquet, start = pq.ParquetFile(file), 0
            for group in range(parquet.num_row_groups):
                stop = start + parquet.metadata.row_group(group).num_rows
                inside = (rows >= start) & (rows < stop)
                if inside.any():
                    values = parquet.read_row_group(group, columns=[column])[column]
                    yield numbers[inside], values.take(rows[inside] - start)
                start = stop


def texts_of(dataset: Dataset, shard: str, rows: Sequence[int]) -> Iterator[tuple[int, str]]:
    """(row, text) of some rows of a shard, ascending; row groups without such a row are not read."""
    wanted = np.unique(np.asarray(rows, dtype=np.int64))
    with dataset.open(shard) as file:
        parquet, start = pq.ParquetFile(file), 0
        for group in range(parquet.num_row_groups):
            stop = start + parquet.metadata.row_group(group).num_rows
            inside = wanted[(wanted >= start) & (wanted < stop)]
            if len(inside):
                column = parquet.read_row_group(group, columns=["text"])["text"]
                for row in inside:
                    yield int(row), column[int(row) - start].as_py()
            start = stop


def reads_of(
    run: StageRun, documents: Catalogue, pairs: np.ndarray
) -> tuple[list[tuple[str, list[int]]], list[list[int]], tuple[str, ...]]:
    """What a part that compares pairs (row numbers, int64 [M, 2]) has to read.

    Returns (shard name, rows) per shard, the pairs as places in the order of those rows, and the shards' digests.
    """
    members, places = np.unique(pairs, return_inverse=True)
    by_shard: dict[int, list[int]] = {}
    for member in members:
        by_shard.setdefault(int(documents.shards[member]), []).append(int(documents.rows[member]))
    shards = run.input.shards
    reads = [(shards[shard].name, rows) for shard, rows in sorted(by_shard.items())]
    return reads, places.reshape(-1, 2).tolist(), tuple(shards[shard].sha256 for shard in sorted(by_shard))
