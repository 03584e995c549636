"""Which paragraphs go because another document holds them, over the whole corpus.

Of a paragraph that at least `min_documents` documents hold, the best document in survivor order keeps it and the
others lose it. A document that would lose more than `max_removed` of itself, or keep less than `min_chars_left`, goes
whole; then it keeps nothing for others, so what only it held first passes on to the next holder. That is decided in
survivor order, each document against those before it that stay; passes over the shared hashes reach the same answer
(after k passes the first k documents are right), and three or four are enough in practice.

Memory: hashes are spilled to files by their first bits, 32 bytes a paragraph, and each file is sorted alone; beside
that a few numbers per document and the spans that go. Texts are never in memory together.

in    sidecars of comparable units (row, start, end, hash), survivor rank
out   Removals
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks.dedup import sidecars
from tasks.dedup.paragraphs import ParagraphConfig, comparable_units
from tasks.stage import PartWriter

UNITS = pa.schema([("row", pa.int32()), ("start", pa.int32()), ("end", pa.int32()), ("hash", pa.binary(16))])
RECORD = np.dtype([("high", "<u8"), ("low", "<u8"), ("document", "<i8"), ("start", "<i4"), ("end", "<i4")])
FILE_BYTES = 64 << 20  # of one spilled file; sorting it takes some three times that
MAX_FILES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Removals:
    """What goes, one entry per paragraph, by document and start."""

    records: np.ndarray  # RECORD [M]: what goes from which document (row number)
    holders: np.ndarray  # int64 [M]: the document that keeps it
    whole: np.ndarray  # bool [N]: documents that go whole
    num_compared: int
    num_shared: int  # records of paragraphs that enough documents hold
    passes: int


def units_shard(payload: dict, config: ParagraphConfig, writer: PartWriter) -> None:
    """Step "paragraphs": the sidecar `paragraphs` of one shard."""
    found, start = [], 0
    for batch in sidecars.shard_batches(payload, ["language", "text"]):
        rows = zip(batch["language"].to_pylist(), batch["text"].to_pylist(), strict=True)
        units = [
            (start + row, *unit)
            for row, (language, text) in enumerate(rows)
            if language not in config.skip_languages
            for unit in comparable_units(text, config)
        ]
        columns = zip(*units, strict=True) if units else ((),) * len(UNITS)
        arrays = [pa.array(column, f.type) for column, f in zip(columns, UNITS, strict=True)]
        found.append(pa.RecordBatch.from_arrays(arrays, schema=UNITS))
        start += batch.num_rows
    writer.table("paragraphs", pa.Table.from_batches(found, schema=UNITS))


def records_of(table: pa.Table, first_document: int) -> np.ndarray:
    """RECORD [M] of one shard's sidecar; `first_document` is the row number of its first document."""
    records = np.empty(table.num_rows, dtype=RECORD)
    hashes = np.frombuffer(b"".join(table["hash"].to_pylist()), dtype=">u8").reshape(-1, 2)
    records["high"], records["low"] = hashes[:, 0], hashes[:, 1]
    records["document"] = table["row"].to_numpy() + first_document
    records["start"], records["end"] = table["start"].to_numpy(), table["end"].to_numpy()
    return records


class SpilledParagraphs:
    """Records in files by hash prefix."""

    def __init__(self, folder: Path, num_records: int):
        self.folder, self.num_compared = folder, 0
        wanted = max(1, num_records * RECORD.itemsize // FILE_BYTES)
        self.bits = min(wanted, MAX_FILES).bit_length()

    def add(self, records: np.ndarray) -> None:
        prefix = records["high"] >> np.uint64(64 - self.bits)
        order = np.argsort(prefix, kind="stable")
        values, starts = np.unique(prefix[order], return_index=True)
        for value, part in zip(values, np.split(records[order], starts)[1:], strict=True):
            with open(self.folder / f"{int(value):04d}.records", "ab") as file:
                part.tofile(file)
        self.num_compared += len(records)

    def keep_shared(self, rank: np.ndarray, min_documents: int) -> int:
        """Keep only paragraphs of at least `min_documents` documents, each file sorted by hash, rank and start."""
        kept = 0
        for path in self.paths():
            records = np.fromfile(path, dtype=RECORD)
            records = records[
                np.lexsort((records["start"], rank[records["document"]], records["low"], records["high"]))
            ]
            groups = group_numbers(records)
            new = np.ones(len(records), dtype=bool)  # another document than the record before
            new[1:] = (groups[1:] != groups[:-1]) | (records["document"][1:] != records["document"][:-1])
            shared = np.bincount(groups, weights=new)[groups] >= min_documents
            records[shared].tofile(path)
            kept += int(shared.sum())
        return kept

    def paths(self) -> list[Path]:
        return sorted(self.folder.glob("*.records"))

    def shared(self) -> Iterator[np.ndarray]:
        for path in self.paths():
            yield np.fromfile(path, dtype=RECORD)


def group_numbers(records: np.ndarray) -> np.ndarray:
    """int64 [M]: which run of equal hashes each record is in, from 0."""
    changes = np.zeros(len(records), dtype=np.int64)
    changes[1:] = (records["high"][1:] != records["high"][:-1]) | (records["low"][1:] != records["low"][:-1])
    return np.cumsum(changes)


def copies(records: np.ndarray, whole: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(places, holders): which of the sorted `records` another document holds that stays and ranks better."""
    if not len(records):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    groups = group_numbers(records)
    alive = np.flatnonzero(~whole[records["document"]])
    first = np.full(groups[-1] + 1, len(records), dtype=np.int64)  # where each group's holder is
    np.minimum.at(first, groups[alive], alive)
    place = first[groups]
    behind = np.flatnonzero(place < np.arange(len(records)))
    holders = records["document"][place[behind]]
    others = records["document"][behind] != holders
    return behind[others], holders[others]


def find_removals(
    spilled: SpilledParagraphs, rank: np.ndarray, lengths: np.ndarray, config: ParagraphConfig
) -> Removals:
    """Decide every paragraph; `lengths` in characters, by row number."""
    num_shared = spilled.keep_shared(rank, config.min_documents)
    whole, passes = np.zeros(len(lengths), dtype=bool), 0
    while True:
        lost = np.zeros(len(lengths), dtype=np.int64)
        found, holders = [np.empty(0, dtype=RECORD)], [np.empty(0, dtype=np.int64)]
        for records in spilled.shared():
            places, kept_by = copies(records, whole)
            found.append(records[places])
            holders.append(kept_by)
            np.add.at(lost, found[-1]["document"], found[-1]["end"] - found[-1]["start"])
        too_much = (lost > config.max_removed * lengths) | ((lost > 0) & (lengths - lost < config.min_chars_left))
        passes += 1
        if (too_much == whole).all():
            break
        whole = too_much
    removed, kept_by = np.concatenate(found), np.concatenate(holders)
    order = np.lexsort((removed["start"], removed["document"]))
    return Removals(
        records=removed[order],
        holders=kept_by[order],
        whole=whole,
        num_compared=spilled.num_compared,
        num_shared=num_shared,
        passes=passes,
    )
