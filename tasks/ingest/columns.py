"""Parquet: rows in batches, one row group at a time, only the columns that matter.

A row group that cannot be decoded costs that row group: its raw bytes go to quarantine and the next is read. Text is
taken as bytes, so that one row with bytes that are not UTF-8 costs that row, not its batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.document import Outcome
from tasks.ingest.config import SourceConfig
from tasks.ingest.jsonl import (
    LICENCE_FIELDS,
    NAME_FIELDS,
    BadRecord,
    licence_of,
    media_type_of_record,
    text_field,
    text_of,
)
from tasks.ingest.outcomes import Outcomes

BATCH_ROWS = 64
EVIDENCE_BYTES = 1 << 20  # of a damaged file or row group


def open_table(file: IO[bytes], source: SourceConfig) -> tuple[pq.ParquetFile, str]:
    """A Parquet file (`file` can seek) and its column of text. Raises BadRecord, or what pyarrow raises."""
    table = pq.ParquetFile(file, page_checksum_verification=True)
    column = text_field(dict.fromkeys(table.schema_arrow.names), source)
    _check_type(table.schema_arrow.field(column))
    return table, column


def read_parquet(file: IO[bytes], outcomes: Outcomes, first: int = 0, end: int | None = None) -> Iterator[Outcome]:
    """The rows of a Parquet file, of its row groups [first, end)."""
    try:
        table, column = open_table(file, outcomes.source)
    except BadRecord as bad:
        yield outcomes.quarantined(_bytes_at(file, 0, EVIDENCE_BYTES), bad.reason, f"{bad} (a whole Parquet file)")
        return
    except (pa.ArrowException, OSError, ValueError) as error:
        yield outcomes.quarantined(_bytes_at(file, 0, EVIDENCE_BYTES), "bad_parquet", f"not readable: {error}")
        return
    columns = [column, *(n for n in _other_columns(outcomes.source) if n in table.schema_arrow.names and n != column)]
    for index in range(first, table.num_row_groups if end is None else end):
        next_record = outcomes.num_records + table.metadata.row_group(index).num_rows
        yield from _row_group(table, index, column, columns, file, outcomes)
        outcomes.num_records = next_record  # rows that were lost keep their numbers


def _other_columns(source: SourceConfig) -> tuple[str, ...]:
    return (source.url_field, source.licence_field or "", *LICENCE_FIELDS, *NAME_FIELDS, "media_type", "lang")


def _check_type(field: pa.Field) -> None:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if not any(test(kind) for test in _TEXT_TYPES):
        raise BadRecord("no_text", f"column {field.name!r} holds {field.type}, expected text")


_TEXT_TYPES = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
)


def _row_group(
    table: pq.ParquetFile, index: int, column: str, columns: list[str], file: IO[bytes], outcomes: Outcomes
) -> Iterator[Outcome]:
    start, size = _extent(table, index)
    done = 0
    try:
        for batch in table.iter_batches(BATCH_ROWS, row_groups=[index], columns=columns):
            rows = _rows(batch, column)  # decoded before any is given out: a batch counts whole or not at all
            for row in rows:
                yield _outcome_of(row, column, start, outcomes)
            done += len(rows)
    except (pa.ArrowException, OSError) as error:
        expected = table.metadata.row_group(index).num_rows
        detail = f"row group {index}: {expected - done:,} of {expected:,} rows cannot be decoded: {error}"
        yield outcomes.quarantined(
            _bytes_at(file, start, min(size, EVIDENCE_BYTES)), "bad_row_group", detail, offset=start
        )


def _extent(table: pq.ParquetFile, index: int) -> tuple[int, int]:
    """Where the bytes of a row group lie: offset, size."""
    group = table.metadata.row_group(index)
    chunks = [group.column(i) for i in range(group.num_columns)]
    offsets = [c.dictionary_page_offset or c.data_page_offset for c in chunks]
    return min(offsets, default=0), sum(max(0, c.total_compressed_size) for c in chunks)


def _rows(batch: pa.RecordBatch, column: str) -> list[dict[str, Any]]:
    names = [name for name in batch.schema.names if name != column]
    rows = []
    values = batch.column(column)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    texts = values.cast(pa.large_binary())
    others = {name: _plain(batch.column(name)) for name in names}
    for i in range(batch.num_rows):
        rows.append({column: texts[i].as_py(), **{name: others[name][i] for name in names}})
    return rows


def _plain(values: pa.Array) -> list[Any]:
    """Python values; None for text that is not UTF-8."""
    try:
        return values.to_pylist()
    except UnicodeDecodeError:
        return [v.as_buffer().to_pybytes().decode("utf-8", "replace") if v.is_valid else None for v in values]


def _outcome_of(row: Mapping[str, Any], column: str, offset: int, outcomes: Outcomes) -> Outcome:
    content, source, limit = row[column], outcomes.source, outcomes.config.max_record_bytes
    url = text_of(row.get(source.url_field))
    if content is None:
        return outcomes.quarantined(b"", "no_text", f"column {column!r} is null", offset=offset, url=url)
    if len(content) > limit:
        detail = f"{len(content):,} bytes, above max_record_bytes ({limit:,}); the beginning is kept here"
        return outcomes.quarantined(content[:limit], "too_long", detail, offset=offset, url=url)
    media_type = media_type_of_record(row, content)
    if not content.strip():
        return outcomes.dropped(content, "empty_text", {"bytes": len(content)}, offset=offset, url=url)
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return outcomes.quarantined(
            content, "bad_utf8", f"column {column!r}: not UTF-8: {error}", offset=offset, url=url
        )
    licence = licence_of(row, source)
    return outcomes.kept(content, media_type, offset=offset, declared_charset="utf-8", url=url, licence=licence)


def _bytes_at(file: IO[bytes], offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)
