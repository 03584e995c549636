"""Which of two duplicates stays, the same for every dedup stage, and what is remembered of each document to decide it.

The order is total and depends on the documents alone: source priority (higher first), length in characters (longer
first), id. So the set of survivors depends neither on the order or number of shards nor on who finished first.

The catalogue keeps about 60 bytes a document in memory (10^8 documents: 6 GB); texts stay on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.document import Document, Dropped, Kept, Outcome

Decisions = dict[str, dict[str, dict[str, Any]]]  # shard stem -> document id -> evidence


class SourceLossError(ValueError):
    """A source would lose so much of itself to deduplication that a fault is likelier than true duplicates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """One row per document of the input, in shard order."""

    ids: np.ndarray  # S32 [N]
    lengths: np.ndarray  # int64 [N], characters
    sources: np.ndarray  # int32 [N], index into source_names
    shards: np.ndarray  # int32 [N], index into shard_names
    rows: np.ndarray  # int64 [N], row within the shard
    source_names: tuple[str, ...]
    shard_names: tuple[str, ...]  # stems

    def __len__(self) -> int:
        return len(self.ids)

    def id(self, index: int) -> str:
        return self.ids[index].decode()

    def rank(self, priority: Mapping[str, int]) -> np.ndarray:
        """int64 [N]: the place of each document in survivor order, 0 first."""
        of_source = np.array([priority.get(name, 0) for name in self.source_names] or [0], dtype=np.int64)
        order = np.lexsort((self.ids, -self.lengths, -of_source[self.sources]))
        rank = np.empty(len(self), dtype=np.int64)
        rank[order] = np.arange(len(self))
        return rank


def catalogue(shard_names: Sequence[str], sidecars: Iterable[pa.Table]) -> Catalogue:
    """From one table per shard with the columns id, source, length."""
    names: dict[str, int] = {}
    ids, lengths, sources, counts = [], [], [], []
    for table in sidecars:
        ids.append(np.array(table["id"].to_pylist(), dtype="S32"))
        lengths.append(table["length"].to_numpy())
        encoded = table["source"].combine_chunks().dictionary_encode()
        codes = [names.setdefault(name, len(names)) for name in encoded.dictionary.to_pylist()]
        sources.append(np.array(codes or [0], dtype=np.int32)[encoded.indices.to_numpy()])
        counts.append(table.num_rows)
    return Catalogue(
        ids=np.concatenate([*ids, np.empty(0, dtype="S32")]),
        lengths=np.concatenate([*lengths, np.empty(0, dtype=np.int64)]),
        sources=np.concatenate([*sources, np.empty(0, dtype=np.int32)]),
        shards=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        rows=np.concatenate([*(np.arange(n) for n in counts), np.empty(0, dtype=np.int64)]),
        source_names=tuple(names),
        shard_names=tuple(shard_names),
    )


def greedy(edges: Sequence[tuple[int, int]], rank: np.ndarray, unsettled: np.ndarray) -> tuple[dict[int, int], set]:
    """Decide documents from verified pairs (survivor candidate, document), both as row numbers.

    A document goes when one of its better-ranked partners is sure to stay; the best-ranked such partner is named. It
    is in doubt while that hangs on a partner in doubt, or while `unsettled[document]` says that pairs with
    better-ranked documents are still to come. Returns ({dropped: kept}, in doubt).
    """
    partners: dict[int, list[int]] = {}
    for better, worse in edges:
        partners.setdefault(worse, []).append(better)
    dropped: dict[int, int] = {}
    doubt: set[int] = set()

    def in_doubt(index: int) -> bool:
        return index in doubt or (index not in partners and bool(unsettled[index]))

    for document in sorted(partners, key=lambda index: rank[index]):
        candidates = [p for p in partners[document] if p not in dropped]
        sure = [p for p in candidates if not in_doubt(p)]
        if sure:
            dropped[document] = min(sure, key=lambda index: rank[index])
        elif candidates or unsettled[document]:
            doubt.add(document)
    return dropped, doubt


def guard_sources(
    documents: Catalogue, dropped: Iterable[int], max_source_loss: float, min_documents: int, stage: str
) -> None:
    """Raise SourceLossError when a source of at least `min_documents` would lose more than `max_source_loss`."""
    total = np.bincount(documents.sources, minlength=len(documents.source_names))
    gone = documents.sources[np.fromiter(dropped, dtype=np.int64)]
    lost = np.bincount(gone, minlength=len(documents.source_names))
    for name, num_lost, num_total in zip(documents.source_names, lost, total, strict=True):
        if num_total >= min_documents and num_lost > max_source_loss * num_total:
            raise SourceLossError(
                f"{stage}: source {name!r} would lose {num_lost:,} of {num_total:,} documents "
                f"({num_lost / num_total:.1%}), more than {stage}.max_source_loss allows ({max_source_loss:.1%}). "
                f"Look at what they duplicate; if the loss is right, raise {stage}.max_source_loss or leave the "
                f"source out"
            )


def decisions(documents: Catalogue, evidence: Mapping[int, dict[str, Any]]) -> Decisions:
    """Evidence by row number as evidence by shard and id: the payloads of the shards."""
    by_shard: Decisions = {}
    for index in sorted(evidence):
        shard = documents.shard_names[documents.shards[index]]
        by_shard.setdefault(shard, {})[documents.id(index)] = evidence[index]
    return by_shard


def apply(
    documents: Iterable[Document], decided: Mapping[str, dict[str, Any]] | None, reason: str
) -> Iterator[Outcome]:
    """One outcome per document of a shard: dropped for `reason` with its evidence, or kept."""
    for document in documents:
        evidence = (decided or {}).get(document.id)
        yield (
            Kept(document=document)
            if evidence is None
            else Dropped(document=document, reason=reason, evidence=evidence)
        )
