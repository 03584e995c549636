"""Choose the documents of a dataset that a person looks at, and read just those.

A document's place in the order of review is a keyed hash of its id: a sample of N is the N first, so it depends on
neither workers nor shards, a larger sample contains the smaller one, and another seed gives an independent one.
Choosing streams the id column and holds N places a reason; texts are read for the chosen alone, by row group.

in    a finished Dataset: removed/<reason>/, quarantine/<reason>/, shards/
out   Record, Place
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.document import UNKNOWN_LANGUAGE
from tasks.store.dataset import Dataset
from tasks.store.manifest import FileEntry

KEPT, DROPPED, QUARANTINED = "kept", "dropped", "quarantined"
CHANGED = "changed"  # a reason to look at a kept document: the stage made another text of it
BELOW = "below"  # another: it is nearly a duplicate of one that was kept too
ROLES = {"removed": DROPPED, "quarantine": QUARANTINED}
MAX_CHARS = 200_000  # of a text, MAX_BYTES of a quarantined record: no reviewer reads further
MAX_BYTES = 4096


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a chosen row lies; places sort in the order of review."""

    order: int
    id: str
    file: str = field(compare=False)
    row: int = field(compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One document and what the stage decided about it."""

    id: str
    outcome: str  # kept, dropped, quarantined
    reason: str  # "kept", "changed" or "below" for a kept one
    source: str
    language: str
    origin: str  # file, record number, byte offset
    text: str  # cut to MAX_CHARS; empty where only bytes are known
    content: bytes | None  # of a record that is not yet text, cut to MAX_BYTES
    num_bytes: int  # of the whole content; 0 for a text
    evidence: dict[str, Any]
    metrics: dict[str, float]


def orders(seed: int) -> Callable[[str], int]:
    """The keyed hash: id -> 64-bit place in the order of review."""
    keyed = hashlib.blake2b(key=b"danlu review %d" % seed, digest_size=8)

    def order(id_: str) -> int:
        digest = keyed.copy()
        digest.update(id_.encode())
        return int.from_bytes(digest.digest(), "big")

    return order


def reasons_of(dataset: Dataset) -> dict[str, tuple[str, list[FileEntry]]]:
    """Reason -> (outcome, files) of what the stage did not keep, most frequent first."""
    groups: dict[str, tuple[str, list[FileEntry]]] = {}
    for role, outcome in ROLES.items():
        for entry in dataset.files(role):
            groups.setdefault(entry.name.split("/")[1], (outcome, []))[1].append(entry)
    return dict(sorted(groups.items(), key=lambda item: (-num_rows(item[1][1]), item[0])))


def num_rows(files: Iterable[FileEntry]) -> int:
    return sum(entry.rows for entry in files)


def tables_of(dataset: Dataset) -> list[FileEntry]:
    """The Parquet shards of kept records."""
    return [entry for entry in dataset.shards if entry.name.endswith(".parquet")]


def choose(dataset: Dataset, files: Iterable[FileEntry], number: int, seed: int) -> list[Place]:
    """The first `number` of all rows of `files` in the order of review."""
    order = orders(seed)
    places = (Place(order(id_), id_, name, row) for name, row, id_ in _ids(dataset, files))
    return heapq.nsmallest(number, places)


def locate(dataset: Dataset, files: Iterable[FileEntry], ids: Iterable[str]) -> dict[str, Place]:
    """Where the rows with these ids are; ids that are not there are left out. Reads id columns only."""
    wanted = pa.array(sorted(set(ids)), pa.string())
    found: dict[str, Place] = {}
    for entry in files if len(wanted) else ():
        start = 0
        for batch in dataset.batches(entry, ["id"]):
            for row in pc.indices_nonzero(pc.is_in(batch["id"], value_set=wanted)).to_pylist():
                id_ = batch["id"][row].as_py()
                found[id_] = Place(0, id_, entry.name, start + row)
            start += batch.num_rows
        if len(found) == len(wanted):
            break
    return found


def read(dataset: Dataset, places: Iterable[Place], outcome: str, reason: str) -> dict[str, Record]:
    """The records at these places by id, in the order of review."""
    by_file: defaultdict[str, list[Place]] = defaultdict(list)
    ordered = sorted(places)
    for place in ordered:
        by_file[place.file].append(place)
    found = {
        row["id"]: _record(row, outcome, reason)
        for name, chosen in sorted(by_file.items())
        for row in _rows(dataset, name, [place.row for place in chosen])
    }
    return {place.id: found[place.id] for place in ordered}


def _ids(dataset: Dataset, files: Iterable[FileEntry]) -> Iterator[tuple[str, int, str]]:
    for entry in files:
        row = 0
        for batch in dataset.batches(entry, ["id"]):
            for id_ in batch["id"].to_pylist():
                yield entry.name, row, id_
                row += 1


def _rows(dataset: Dataset, name: str, rows: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Some rows of a file, one row group in memory at a time; groups without one are not read."""
    wanted = sorted(rows)
    with dataset.open(name) as file:
        parquet, start = pq.ParquetFile(file), 0
        for group in range(parquet.num_row_groups):
            stop = start + parquet.metadata.row_group(group).num_rows
            if inside := [row - start for row in wanted if start <= row < stop]:
                yield from parquet.read_row_group(group).take(pa.array(inside)).to_pylist()
            start = stop


def _record(row: Mapping[str, Any], outcome: str, reason: str) -> Record:
    origin, content = row["origin"], row.get("content")
    evidence = json.loads(row.get("evidence") or "{}")
    if row.get("detail"):
        evidence["detail"] = row["detail"]
    return Record(
        id=row["id"],
        outcome=outcome,
        reason=reason,
        source=row["source"],
        language=row.get("language") or UNKNOWN_LANGUAGE,
        origin=f"{origin['file']}, record {origin['record']}, byte {origin['offset']:,}",
        text=(row.get("text") or "")[:MAX_CHARS],
        content=None if content is None else content[:MAX_BYTES],
        num_bytes=len(content or b""),
        evidence=evidence,
        metrics=dict(row.get("metrics") or ()),
    )
