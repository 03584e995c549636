"""What a part of a stage writes through: outcomes one by one or as columns, sidecars, files.

A document that a stage judges by its text is an object (`put`). A stage that only picks rows hands over whole Arrow
batches with the rows that go (`put_columns`): the same files, byte for byte, at a tenth of the time.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.document import Dropped, Kept, Outcome
from tasks.store.account import Account
from tasks.store.filesystem import Store, sha256_file
from tasks.store.manifest import FileEntry
from tasks.store.tables import DOCUMENT_SCHEMA, REMOVED_SCHEMA, TableWriter, entry_of, schema_of, to_row

SHARD_BYTES = 64 << 20  # a part rolls to a further shard beyond this much text


class PartWriter:
    """Writes what one part makes; nothing is visible under its final name before it is whole."""

    def __init__(self, store: Store, folder: str, name: str):
        self.store, self.folder, self.name = store, folder, name
        self.shard_bytes = SHARD_BYTES
        self.account = Account()
        self.files: list[FileEntry] = []
        self._stack = contextlib.ExitStack()
        self._tables: dict[str, tuple[TableWriter, Path]] = {}  # folder of the dataset -> open table
        self._num_shards = 0

    def put(self, outcome: Outcome) -> None:
        """Write one outcome and count it."""
        item = outcome.document if isinstance(outcome, Kept | Dropped) else outcome
        language = getattr(item, "language", "und")
        counts = self.account.counts(item.source, language)
        counts.read += 1
        if isinstance(outcome, Kept):
            counts.kept += 1
            self._write("shards", outcome.document)
        elif isinstance(outcome, Dropped):
            counts.dropped[outcome.reason] += 1
            self._write(f"removed/{outcome.reason}", outcome)
        else:
            counts.quarantined[outcome.reason] += 1
            self._write(f"quarantine/{outcome.reason}", outcome)

    def put_columns(self, batch: pa.RecordBatch, gone: np.ndarray, reason: str, evidence: Sequence[str]) -> None:
        """Write documents as columns and count them: those at the rows `gone` (ascending) are dropped for `reason`.

        `evidence` is JSON, one for each of `gone`.
        """
        stays = np.ones(batch.num_rows, dtype=bool)
        stays[gone] = False
        table = pa.Table.from_batches([batch]).select(DOCUMENT_SCHEMA.names)
        kept, dropped = table.filter(pa.array(stays)), table.take(pa.array(gone))
        for source, language, num in _counted(kept):
            self.count_input(source, language, num)
        for source, language, num in _counted(dropped):
            self.count_input(source, language, num, dropped=reason)
        self._write_columns("shards", kept, DOCUMENT_SCHEMA)
        reasons, texts = pa.array([reason] * len(gone), pa.string()), pa.array(evidence, pa.string())
        removed = dropped.append_column("reason", reasons).append_column("evidence", texts)
        self._write_columns(f"removed/{reason}", removed, REMOVED_SCHEMA)

    def count_input(self, source: str, language: str, n: int = 1, *, dropped: str | None = None) -> None:
        """Count records of a stage that writes no outcomes: kept, or dropped for a reason."""
        counts = self.account.counts(source, language)
        counts.read += n
        if dropped is None:
            counts.kept += n
        else:
            counts.dropped[dropped] += n

    def table(self, kind: str, table: pa.Table, role: str = "sidecar", dictionary: bool | list[str] = True) -> None:
        """Write a table as `<kind>/<part>.parquet`; `dictionary` names the columns whose values repeat."""
        name = f"{kind}/{self.name}.parquet"
        with self.store.temporary(self._path(name)) as path:
            pq.write_table(
                table, path, compression="zstd", compression_level=3, row_group_size=10_000, use_dictionary=dictionary
            )
            self._publish(path, name, role, table.num_rows)

    def file(self, name: str, data: bytes | Path, role: str = "artifact", rows: int = 0) -> None:
        """Write any other file of the dataset."""
        with self.store.temporary(self._path(name)) as path:
            if isinstance(data, bytes):
                path.write_bytes(data)
            else:
                shutil.copyfile(data, path)
            self._publish(path, name, role, rows)

    def finish(self) -> None:
        """Publish the tables that are still open."""
        for kind in sorted(self._tables):
            self._close(kind)

    def abandon(self) -> None:
        """Remove what is unpublished."""
        self._stack.close()

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def _write(self, kind: str, item: Any) -> None:
        table = self._open(kind, schema_of(item))
        table.write(to_row(item))
        if kind == "shards" and table.bytes >= self.shard_bytes:
            self._close(kind)

    def _write_columns(self, kind: str, rows: pa.Table, schema: pa.Schema) -> None:
        while rows.num_rows:
            table = self._open(kind, schema)
            written = table.write_columns(rows, self.shard_bytes if kind == "shards" else None)
            if kind == "shards" and table.bytes >= self.shard_bytes:
                self._close(kind)
            rows = rows.slice(written)

    def _open(self, kind: str, schema: pa.Schema) -> TableWriter:
        if kind not in self._tables:
            path = self._stack.enter_context(self.store.temporary(self._path(f"{kind}/x")))
            self._tables[kind] = (TableWriter(path, schema), path)
        return self._tables[kind][0]

    def _close(self, kind: str) -> None:
        table, path = self._tables.pop(kind)
        table.close()
        name = f"{kind}/{self.name}.parquet"
        if kind == "shards":
            if self._num_shards:
                name = f"{kind}/{self.name}~{self._num_shards:04d}.parquet"
            self._num_shards += 1
        role = {"shards": "shard", "removed": "removed", "quarantine": "quarantine"}[kind.split("/")[0]]
        self._publish(path, name, role, table.rows)

    def _publish(self, path: Path, name: str, role: str, rows: int) -> None:
        entry = entry_of(path, name, role, rows, sha256_file(path))
        self.store.publish(path, self._path(name))
        self.files.append(entry)


def _counted(table: pa.Table) -> list[tuple[str, str, int]]:
    """(source, language, documents) of what a table holds."""
    counts = table.group_by(["source", "language"]).aggregate([([], "count_all")]).to_pydict()
    return list(zip(counts["source"], counts["language"], counts["count_all"], strict=True))
