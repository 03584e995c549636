"""How the dedup stages read: few columns of many rows, or many columns of few rows, never a whole shard of objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.dedup.lsh import sort_unique
from tasks.dedup.survivors import Catalogue
from tasks.stage import PartResult, PartWriter, StageRun
from tasks.store.dataset import Dataset

MATRIX = ".u32"  # ends the name of a file of uint32 rows, little-endian, one row a document
MATRIX_ROWS = 1 << 12  # rows read at once: 2 MiB of 128 values


def shard_batches(payload: dict, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The batches of the shard that a part of `StageRun.shard_parts` is for."""
    yield from Dataset.load(payload["dataset"]).batches(payload["shard"], columns=columns)


def write_sidecar(writer: PartWriter, kind: str, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> None:
    writer.table(kind, pa.Table.from_batches(list(batches), schema=schema))


def read_sidecars(run: StageRun, results: Sequence[PartResult], columns: list[str]) -> Iterator[pa.Table]:
    """Those columns of each part's sidecar, one table at a time, in order of the parts."""
    for result in results:
        [entry] = [file for file in result.files if file.role == "sidecar" and file.name.endswith(".parquet")]
        with run.store.open(f"{run.output.folder}/{entry.name}") as file:
            yield pq.read_table(file, columns=columns)


def matrix_rows(
    run: StageRun, results: Sequence[PartResult], documents: Catalogue, wanted: np.ndarray, width: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(numbers, values uint32 [M, width]) of the documents `wanted` (ascending numbers) from the parts' matrix files,
    at most MATRIX_ROWS at a time."""
    bounds = np.searchsorted(wanted, documents.starts)
    for result, start, low, high in zip(results, documents.starts, bounds[:-1], bounds[1:], strict=False):
        if low == high:
            continue
        [entry] = [file for file in result.files if file.name.endswith(MATRIX)]
        name = f"{run.output.folder}/{entry.name}"
        for first in range(low, high, MATRIX_ROWS):
            numbers = wanted[first : min(first + MATRIX_ROWS, high)]
            yield numbers, _read_rows(run, name, numbers - start, width)


def _read_rows(run: StageRun, name: str, rows: np.ndarray, width: int) -> np.ndarray:
    """Rows (ascending) of a matrix file."""
    if rows[-1] - rows[0] < 2 * len(rows) or not run.store.is_local:
        with run.store.open(name) as file:  # nearly all of a stretch: read the stretch
            file.seek(4 * width * int(rows[0]))
            stretch = file.read(4 * width * int(rows[-1] - rows[0] + 1))
        return np.frombuffer(stretch, "<u4").reshape(-1, width)[rows - rows[0]]
    return np.array(np.memmap(run.store.path(name), "<u4", "r").reshape(-1, width)[rows])


def columns_of(dataset: Dataset, shard: str, rows: Sequence[int] | np.ndarray) -> Iterator[tuple[np.ndarray, pa.Array]]:
    """(rows, texts) of some rows of a shard, ascending and distinct, a row group at a time; row groups without such a
    row are not read."""
    wanted = np.unique(np.asarray(rows, dtype=np.int64))
    with dataset.open(shard) as file:
        parquet, start = pq.ParquetFile(file), 0
        for group in range(parquet.num_row_groups):
            stop = start + parquet.metadata.row_group(group).num_rows
            inside = wanted[(wanted >= start) & (wanted < stop)]
            if len(inside):
                column = parquet.read_row_group(group, columns=["text"])["text"]
                yield inside, column.take(pa.array(inside - start)).combine_chunks()
            start = stop


def texts_of(dataset: Dataset, shard: str, rows: Sequence[int]) -> Iterator[tuple[int, str]]:
    """(row, text) of some rows of a shard, ascending; row groups without such a row are not read."""
    for inside, column in columns_of(dataset, shard, rows):
        yield from zip(inside.tolist(), column.to_pylist(), strict=True)


def reads_of(
    run: StageRun, documents: Catalogue, pairs: np.ndarray
) -> tuple[list[tuple[str, list[int]]], list[list[int]], tuple[str, ...]]:
    """What a part that compares pairs (row numbers, int64 [M, 2]) has to read.

    Returns (shard name, rows) per shard, the pairs as places in the order of those rows, and the shards' digests.
    """
    members = sort_unique(pairs.ravel())
    bounds = np.searchsorted(members, documents.starts)
    reads, digests = [], []
    for shard, start, low, high in zip(run.input.shards, documents.starts, bounds[:-1], bounds[1:], strict=False):
        if low < high:
            reads.append((shard.name, (members[low:high] - start).tolist()))
            digests.append(shard.sha256)
    return reads, np.searchsorted(members, pairs).tolist(), tuple(digests)
