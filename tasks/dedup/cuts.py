"""What the decisions about paragraphs mean for each document: its cuts, its evidence, the counts.

in    Catalogue, Removals
out   Cuts by shard, which name each span that goes and who keeps it
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.dedup.shared_paragraphs import Removals
from tasks.dedup.survivors import Catalogue

REMOVED = pa.schema(
    [("id", pa.string()), ("start", pa.int64()), ("end", pa.int64()), ("kept_id", pa.string()), ("hash", pa.string())]
)

Cuts = dict[str, list[list[Any]]]  # document id -> [start, end, kept id, hash], ascending


def whole_evidence(documents: Catalogue, removals: Removals) -> dict[int, dict[str, Any]]:
    """Evidence for documents that go whole; the kept id is the document that holds most of their characters."""
    held: dict[int, Counter[int]] = defaultdict(Counter)
    counts: Counter[int] = Counter()
    inside = removals.whole[removals.records["document"]]
    for record, holder in zip(removals.records[inside], removals.holders[inside], strict=True):
        held[int(record["document"])][int(holder)] += int(record["end"] - record["start"])
        counts[int(record["document"])] += 1
    return {
        index: {
            "kept_id": documents.id(min(chars, key=lambda holder: (-chars[holder], documents.id(holder)))),
            "removed_paragraphs": counts[index],
            "removed_paragraph_chars": chars.total(),
            "chars": int(documents.lengths[index]),
        }
        for index, chars in sorted(held.items())
    }


def cuts_by_shard(documents: Catalogue, removals: Removals) -> dict[str, Cuts]:
    """Shard stem -> the cuts of its documents."""
    by_shard: dict[str, Cuts] = {}
    places = documents.shard_of(removals.records["document"].astype(np.int64)).tolist()
    for record, holder, place in zip(removals.records, removals.holders, places, strict=True):
        index, shard = int(record["document"]), documents.shard_names[place]
        digest = f"{int(record['high']):016x}{int(record['low']):016x}"
        span = [int(record["start"]), int(record["end"]), documents.id(int(holder)), digest]
        by_shard.setdefault(shard, {}).setdefault(documents.id(index), []).append(span)
    return by_shard


def removed_table(cuts: Cuts) -> pa.Table:
    """The sidecar of one shard: one row per span, by document and start."""
    rows = [(id_, *removed) for id_, spans in sorted(cuts.items()) for removed in spans]
    columns = zip(*rows, strict=True) if rows else ((),) * len(REMOVED)
    return pa.Table.from_arrays(
        [pa.array(column, f.type) for column, f in zip(columns, REMOVED, strict=True)], schema=REMOVED
    )


def paragraph_facts(documents: Catalogue, removals: Removals) -> dict[str, Any]:
    """Counts for the manifest; `removed` are the paragraphs cut from documents that stay."""
    cut_ones = removals.records[~removals.whole[removals.records["document"]]]
    num_chars = cut_ones["end"] - cut_ones["start"]
    by_source = np.bincount(
        documents.sources[cut_ones["document"]], weights=num_chars, minlength=len(documents.source_names)
    )
    return {
        "compared": removals.num_compared,
        "shared": removals.num_shared,
        "removed": len(cut_ones),
        "removed_chars": int(num_chars.sum()),
        "removed_chars_by_source": {
            name: int(count) for name, count in zip(documents.source_names, by_source, strict=True) if count
        },
        "documents_cut": len(np.unique(cut_ones["document"])),
        "documents_gone_whole": int(removals.whole.sum()),
        "passes": removals.passes,
    }
