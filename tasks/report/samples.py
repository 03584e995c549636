"""Which lost records the report shows, and the partner of a dropped duplicate.

Ids are hashes, so the smallest ids of a reason are a fair sample that every run agrees on. Choosing reads the id
column alone; the texts are read for the chosen rows. A duplicate's evidence names the id that was kept: that text is
looked up in the same stage's shards and shown beside it, which is the only way to judge a threshold.

in    datasets with removed/<reason>/*.parquet and quarantine/<reason>/*.parquet
out   a few records per stage and reason, text made fit to look at (text.py)
"""

from __future__ import annotations

import heapq
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tasks.report.text import visible, visible_bytes
from tasks.store.dataset import Dataset
from tasks.store.manifest import FileEntry

IS_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One lost record as it is shown."""

    id: str
    source: str
    language: str
    origin: str  # file, record number and byte offset
    text: str
    evidence: list[tuple[str, str]]
    partner_id: str | None = None  # of a duplicate: the document that was kept
    partner_text: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """The sample of one stage and reason."""

    stage: str
    name: str
    count: int  # all records lost for this reason
    samples: list[Sample]


def dropped(dataset: Dataset, per_reason: int, max_chars: int) -> list[Reason]:
    """Samples of what the stage dropped, per reason, most frequent first."""
    chosen = {reason: choose(dataset, files, per_reason) for reason, files in by_reason(dataset, "removed").items()}
    rows = {
        reason: [row for name, ids in picks.items() for row in read(dataset, name, ids)]
        for reason, picks in chosen.items()
    }
    evidence = {row["id"]: json.loads(row["evidence"] or "{}") for found in rows.values() for row in found}
    partners = {key: partner_of(values, key) for key, values in evidence.items()}
    texts = find_texts(dataset, {partner for partner in partners.values() if partner})
    result = []
    for reason, found in rows.items():
        samples = [
            Sample(
                id=row["id"],
                source=row["source"],
                language=row["language"],
                origin=place(row["origin"]),
                text=visible(row["text"], max_chars),
                evidence=[(key, shown(value)) for key, value in evidence[row["id"]].items()],
                partner_id=partners[row["id"]],
                partner_text=visible(texts[partner], max_chars) if (partner := partners[row["id"]]) in texts else None,
            )
            for row in sorted(found, key=lambda row: row["id"])
        ]
        result.append(
            Reason(stage=dataset.stage, name=reason, count=count(dataset, "removed", reason), samples=samples)
        )
    return sorted(result, key=lambda item: (-item.count, item.name))


def quarantined(dataset: Dataset, per_reason: int, max_bytes: int) -> list[Reason]:
    """Samples of what the stage could not read, per reason, bytes shown as escapes."""
    result = []
    for reason, files in by_reason(dataset, "quarantine").items():
        rows = [row for name, ids in choose(dataset, files, per_reason).items() for row in read(dataset, name, ids)]
        samples = [
            Sample(
                id=row["id"],
                source=row["source"],
                language=row["language"],
                origin=place(row["origin"]),
                text=visible_bytes(row["content"] or b"", max_bytes) or "(no bytes)",
                evidence=[("detail", visible(row["detail"] or "", 1000))],
            )
            for row in sorted(rows, key=lambda row: row["id"])
        ]
        result.append(
            Reason(stage=dataset.stage, name=reason, count=count(dataset, "quarantine", reason), samples=samples)
        )
    return sorted(result, key=lambda item: (-item.count, item.name))


def by_reason(dataset: Dataset, role: str) -> dict[str, list[FileEntry]]:
    """Files of `removed/<reason>/…` by reason."""
    groups: defaultdict[str, list[FileEntry]] = defaultdict(list)
    for entry in dataset.files(role):
        groups[entry.name.split("/")[1]].append(entry)
    return dict(sorted(groups.items()))


def count(dataset: Dataset, role: str, reason: str) -> int:
    return sum(entry.rows for entry in by_reason(dataset, role)[reason])


def choose(dataset: Dataset, files: Iterable[FileEntry], number: int) -> dict[str, set[str]]:
    """The `number` smallest ids over `files`, by file."""
    ids = (
        (key, entry.name)
        for entry in files
        for batch in dataset.batches(entry, ["id"])
        for key in batch["id"].to_pylist()
    )
    picks: defaultdict[str, set[str]] = defaultdict(set)
    for key, name in heapq.nsmallest(number, ids):
        picks[name].add(key)
    return picks


def read(dataset: Dataset, name: str, ids: set[str]) -> list[dict]:
    """The rows of one file with these ids."""
    rows = []
    for batch in dataset.batches(name):
        rows += batch.filter(pc.is_in(batch["id"], value_set=pa.array(sorted(ids), pa.string()))).to_pylist()
    return rows


def find_texts(dataset: Dataset, ids: set[str]) -> dict[str, str]:
    """Texts of kept documents by id; an id that is not among them is left out."""
    found: dict[str, str] = {}
    wanted = pa.array(sorted(ids), pa.string())
    for shard in dataset.shards if ids else ():
        here = {
            i
            for batch in dataset.batches(shard, ["id"])
            for i in pc.filter(batch["id"], pc.is_in(batch["id"], value_set=wanted)).to_pylist()
        }
        if not here:
            continue
        for batch in dataset.batches(shard, ["id", "text"]):
            for row in batch.filter(pc.is_in(batch["id"], value_set=wanted)).to_pylist():
                found[row["id"]] = row["text"]
        if len(found) == len(ids):
            break
    return found


def partner_of(evidence: dict, own_id: str) -> str | None:
    """The id of the document kept in place of this one, whatever the stage calls it."""
    ids = [
        value for value in evidence.values() if isinstance(value, str) and IS_ID.fullmatch(value) and value != own_id
    ]
    return ids[0] if ids else None


def place(origin: dict) -> str:
    return visible(f"{origin['file']}, record {origin['record']}, byte {origin['offset']:,}", 400)


def shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else visible(str(value), 400)
