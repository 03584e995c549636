"""Records as Parquet rows, and back.

A shard of the ingest stage has the columns of `RawRecord`, every later one those of `Document`, in the order of the
dataclass. `metrics` and `languages` are map<string, double> with sorted keys, `origin` a struct of file, record and
offset. Rows are written in small row groups, so that no reader needs a whole shard in memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.document import Document, Dropped, Origin, Quarantined, RawRecord
from tasks.store.filesystem import named_full_disk
from tasks.store.manifest import FileEntry

ORIGIN = pa.struct([("file", pa.string()), ("record", pa.int64()), ("offset", pa.int64())])
RAW_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("content", pa.large_binary()),
        ("media_type", pa.string()),
        ("declared_charset", pa.string()),
        ("source", pa.string()),
        ("url", pa.string()),
        ("licence", pa.string()),
        ("origin", ORIGIN),
    ]
)
DOCUMENT_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("text", pa.large_string()),
        ("source", pa.string()),
        ("url", pa.string()),
        ("licence", pa.string()),
        ("language", pa.string()),
        ("script", pa.string()),
        ("languages", pa.map_(pa.string(), pa.float64())),
        ("encoding", pa.string()),
        ("encoding_method", pa.string()),
        ("encoding_confidence", pa.float64()),
        ("media_type", pa.string()),
        ("metrics", pa.map_(pa.string(), pa.float64())),
        ("origin", ORIGIN),
    ]
)
REMOVED_SCHEMA = DOCUMENT_SCHEMA.append(pa.field("reason", pa.string())).append(pa.field("evidence", pa.string()))
QUARANTINE_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("content", pa.large_binary()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("source", pa.string()),
        ("url", pa.string()),
        ("licence", pa.string()),
        ("language", pa.string()),
        ("origin", ORIGIN),
    ]
)
ROW_GROUP_ROWS = 1000
ROW_GROUP_BYTES = 8 << 20
MAX_QUARANTINE_BYTES = 64 << 20


def to_row(item: RawRecord | Document | Dropped | Quarantined) -> dict[str, Any]:
    """One record as a row of its schema."""
    if isinstance(item, Dropped):
        evidence = json.dumps(item.evidence, ensure_ascii=False, sort_keys=True)
        return {**to_row(item.document), "reason": item.reason, "evidence": evidence}
    row = {name: getattr(item, name) for name in schema_of(item).names}
    row["origin"] = {"file": item.origin.file, "record": item.origin.record, "offset": item.origin.offset}
    if isinstance(item, Document):
        row["metrics"], row["languages"] = sorted(item.metrics.items()), sorted(item.languages.items())
    if isinstance(item, Quarantined) and len(item.content) > MAX_QUARANTINE_BYTES:
        digest = hashlib.sha256(item.content).hexdigest()
        row["content"] = item.content[:MAX_QUARANTINE_BYTES]
        row["detail"] = (
            f"{item.detail} (first {MAX_QUARANTINE_BYTES:,} of {len(item.content):,} bytes, SHA-256 {digest})"
        )
    return row


def schema_of(item: RawRecord | Document | Dropped | Quarantined) -> pa.Schema:
    if isinstance(item, RawRecord):
        return RAW_SCHEMA
    if isinstance(item, Document):
        return DOCUMENT_SCHEMA
    return REMOVED_SCHEMA if isinstance(item, Dropped) else QUARANTINE_SCHEMA


def size_of(row: dict[str, Any]) -> int:
    """About how many bytes a row holds."""
    return len(row.get("content") or b"") + 3 * len(row.get("text") or "") + 200


def from_batch(batch: pa.RecordBatch) -> Iterator[Document | RawRecord]:
    """The records of one batch; its columns say which kind they are."""
    kind = RawRecord if "content" in batch.schema.names else Document
    for row in batch.to_pylist():
        row["origin"] = Origin(**row["origin"])
        if kind is Document:
            row["metrics"], row["languages"] = dict(row["metrics"]), dict(row["languages"])
            yield Document(**{name: row[name] for name in DOCUMENT_SCHEMA.names})
        else:
            yield RawRecord(**row)


class TableWriter:
    """Rows into one local Parquet file, row group by row group."""

    def __init__(self, path: Path, schema: pa.Schema):
        self.path, self.schema, self.rows, self.bytes = path, schema, 0, 0
        self._writer = pq.ParquetWriter(path, schema, compression="zstd", compression_level=3)
        self._pending: list[dict[str, Any]] = []
        self._pending_tables: list[pa.Table] = []
        self._pending_rows = self._pending_bytes = 0  # rows: of the tables

    def write(self, row: dict[str, Any]) -> None:
        size = size_of(row)
        self._pending.append(row)
        self._pending_bytes += size
        self.rows += 1
        self.bytes += size
        if len(self._pending) >= ROW_GROUP_ROWS or self._pending_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def write_columns(self, rows: pa.Table, max_bytes: int | None = None) -> int:
        """Rows of documents as columns, until the file holds `max_bytes`; returns how many were written.

        Row groups end where those of `write` would. One file is written by one of the two.
        """
        sizes = 3 * pc.utf8_length(rows["text"]).to_numpy().astype(np.int64) + 200  # as `size_of` has it
        done = 0
        while done < rows.num_rows and (max_bytes is None or self.bytes < max_bytes):
            ends = np.cumsum(sizes[done : done + ROW_GROUP_ROWS - self._pending_rows])
            stop = int(np.searchsorted(ends, ROW_GROUP_BYTES - self._pending_bytes)) + 1
            if max_bytes is not None:
                stop = min(stop, int(np.searchsorted(ends, max_bytes - self.bytes)) + 1)
            stop = min(stop, len(ends))
            self._pending_tables.append(rows.slice(done, stop))
            self._pending_rows += stop
            self._pending_bytes += int(ends[stop - 1])
            self.rows += stop
            self.bytes += int(ends[stop - 1])
            done += stop
            if self._pending_rows >= ROW_GROUP_ROWS or self._pending_bytes >= ROW_GROUP_BYTES:
                self._flush()
        return done

    def _flush(self) -> None:
        tables = self._pending_tables
        if self._pending:
            tables = [pa.Table.from_pylist(self._pending, schema=self.schema)]
        if tables:
            try:
                self._writer.write_table(pa.concat_tables(tables).combine_chunks().cast(self.schema))
            except OSError as error:
                raise named_full_disk(error, self.path) from error
        self._pending, self._pending_tables, self._pending_rows, self._pending_bytes = [], [], 0, 0

    def close(self) -> None:
        self._flush()
        try:
            self._writer.close()
        except OSError as error:
            raise named_full_disk(error, self.path) from error


def entry_of(path: Path, name: str, role: str, rows: int, sha256: str) -> FileEntry:
    return FileEntry(name=name, role=role, bytes=path.stat().st_size, sha256=sha256, rows=rows)
