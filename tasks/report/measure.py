"""Bytes of text per source and language, before and after cleaning: the decay rate that a record count hides.

Raw bytes are those of the records as ingested (headers already taken off); usable bytes the UTF-8 of the text that
the last cleaning stage kept. Both are sums over shards, one part per shard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tasks.report.figures import CLEANING
from tasks.stage import PartWriter
from tasks.store.dataset import Dataset


@dataclass(slots=True)
class Bytes:
    """Bytes by source and by language (raw records have no language yet)."""

    by_source: Counter[str] = field(default_factory=Counter)
    by_language: Counter[str] = field(default_factory=Counter)


def datasets(inputs: Mapping[str, Dataset]) -> dict[str, Dataset]:
    """Which datasets hold the raw and the usable records."""
    found = {"raw": inputs["ingest"]} if "ingest" in inputs else {}
    cleaned = [stage for stage in CLEANING[1:] if stage in inputs]
    return {**found, "usable": inputs[cleaned[-1]]} if cleaned else found


def part(payload: tuple[str, dict[str, str], str], config: Any, writer: PartWriter) -> dict[str, Any]:
    """Sum one shard (runs in a worker)."""
    kind, reference, name = payload
    total = measure_shard(Dataset.load(reference), name, kind)
    return {"kind": kind, "source": dict(total.by_source), "language": dict(total.by_language)}


def measure_shard(dataset: Dataset, name: str, kind: str) -> Bytes:
    total = Bytes()
    axes = ["source"] if kind == "raw" else ["source", "language"]
    column = "content" if kind == "raw" else "text"
    for batch in dataset.batches(name, [column, *axes]):
        table = pa.table({axis: batch[axis] for axis in axes}).append_column("bytes", pc.binary_length(batch[column]))
        for axis in axes:
            sums = table.group_by(axis).aggregate([("bytes", "sum")])
            getattr(total, f"by_{axis}").update(
                dict(zip(sums[axis].to_pylist(), sums["bytes_sum"].to_pylist(), strict=True))
            )
    return total


def merge(results: Iterable[Mapping[str, Any]]) -> dict[str, Bytes]:
    totals: dict[str, Bytes] = {}
    for result in results:
        total = totals.setdefault(result["kind"], Bytes())
        total.by_source.update(result["source"])
        total.by_language.update(result["language"])
    return totals


def measure_all(inputs: Mapping[str, Dataset]) -> dict[str, Bytes]:
    """The same in this process, for a report outside a stage."""
    return merge(
        {"kind": kind, "source": total.by_source, "language": total.by_language}
        for kind, dataset in datasets(inputs).items()
        for shard in dataset.shards
        for total in [measure_shard(dataset, shard.name, kind)]
    )


def token_sums(shards: Dataset) -> dict[str, dict[str, Counter[str]]]:
    """Documents, tokens, held-out tokens and bytes by source and by language, from the sidecars of the token shards."""
    totals: dict[str, dict[str, Counter[str]]] = {"source": {}, "language": {}}
    for entry in shards.manifest.files:
        if not (entry.name.endswith(".parquet") and entry.name.startswith(("train/", "validation/"))):
            continue  # what tells splits apart lies beside them, in folders of its own
        held_out = entry.name.startswith("validation/")
        for batch in shards.batches(entry, ["source", "language", "num_tokens", "num_bytes"]):
            table = pa.Table.from_batches([batch])
            for axis, groups in totals.items():
                sums = table.group_by(axis).aggregate([("num_tokens", "sum"), ("num_bytes", "sum"), ([], "count_all")])
                for row in sums.to_pylist():
                    tokens = row["num_tokens_sum"]
                    groups.setdefault(row[axis], Counter(held_out=0)).update(
                        documents=row["count_all"],
                        tokens=tokens,
                        held_out=tokens if held_out else 0,
                        bytes=row["num_bytes_sum"],
                    )
    return totals
