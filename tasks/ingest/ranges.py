"""Cut a large file into ranges that can be read apart, with the records, numbers and offsets of the whole file.

JSON lines are cut behind a newline, Parquet between row groups. Only files as they lie there: a packed stream can be
read from its beginning alone, and the records of an archive end where only its reader knows. The newlines before each
cut are counted while the file is hashed, so cuts are a function of the content, and cost no further pass.

in    the chunks of a file, as they are hashed
out   Cut    where a range begins, and how many records lie before it
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple

import pyarrow as pa

from tasks.ingest.columns import open_table
from tasks.ingest.config import SourceConfig
from tasks.ingest.jsonl import MAX_FIRST_LINE, BadRecord, is_json_lines
from tasks.ingest.sniff import SNIFF_BYTES, container_of
from tasks.ingest.stream import CHUNK_BYTES, Event
from tasks.ingest.unpack import compression_of

MIN_LAST = 0.5  # of a range: a shorter rest stays with the range before it


class Cut(NamedTuple):
    """A place where a file may be cut: a byte offset of JSON lines, a row group of Parquet."""

    at: int
    records: int  # before it


class Range(NamedTuple):
    """A range of a file, in the unit of its cuts; `end` is None for the last."""

    start: Cut
    end: int | None


def ranges_of(cuts: Sequence[Cut]) -> list[Range]:
    """The ranges between the cuts of a file; [] when it is read as a whole."""
    starts = [Cut(0, 0), *cuts]
    return [Range(start, after.at) for start, after in zip(starts, cuts, strict=False)] + (
        [Range(starts[-1], None)] if cuts else []
    )


class LineCuts:
    """Fed a file of JSON lines chunk by chunk, finds a cut behind the first newline `every` bytes after the last."""

    def __init__(self, every: int):
        self.every = every
        self.cuts: list[Cut] = []
        self._position = self._records = 0
        self._due = every

    def feed(self, chunk: bytes) -> None:
        start = 0
        while (newline := chunk.find(b"\n", max(start, self._due - 1 - self._position))) >= 0:
            self._records += chunk.count(b"\n", start, newline + 1)
            start = newline + 1
            self.cuts.append(Cut(self._position + start, self._records))
            self._due = self._position + start + self.every
        self._records += chunk.count(b"\n", start)
        self._position += len(chunk)

    def finish(self) -> tuple[Cut, ...]:
        """The cuts of the whole file, whose end has been fed."""
        if self.cuts and self._position - self.cuts[-1].at < MIN_LAST * self.every:
            self.cuts.pop()
        return tuple(self.cuts)


def line_cuts(first: bytes, name: str, source: SourceConfig, every: int) -> LineCuts | None:
    """What finds the cuts of a file that begins with `first`; None for a file that is not plain JSON lines."""
    if compression_of(first[:16]) or container_of(first[:SNIFF_BYTES]):
        return None
    return LineCuts(every) if is_json_lines(first[:MAX_FIRST_LINE], name, source) else None


def row_group_cuts(file: IO[bytes], source: SourceConfig, every: int) -> tuple[Cut, ...]:
    """The cuts of a Parquet file, ranges of about `every` packed bytes; none where it is not readable."""
    try:
        table, _ = open_table(file, source)
    except (BadRecord, pa.ArrowException, OSError, ValueError):
        return ()  # reading it as a whole says what is wrong
    cuts, size, rows, metadata = [], 0, 0, table.metadata
    for index in range(metadata.num_row_groups):
        if size >= every:
            cuts.append(Cut(index, rows))
            size = 0
        group = metadata.row_group(index)
        size += sum(max(0, group.column(i).total_compressed_size) for i in range(group.num_columns))
        rows += group.num_rows
    if cuts and size < MIN_LAST * every:
        cuts.pop()
    return tuple(cuts)


def events_between(file: IO[bytes], start: int, end: int | None) -> Iterator[Event]:
    """The bytes [start, end) of an open file, in chunks."""
    file.seek(start)
    left = (1 << 62) if end is None else end - start
    while left and (chunk := file.read(min(CHUNK_BYTES, left))):
        left -= len(chunk)
        yield chunk
