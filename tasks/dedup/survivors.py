"""Which of two duplicates stays, the same for every dedup stage, and what is remembered of each document to decide it.

The order is total and depends on the documents alone: source priority (higher first), length in characters (longer
first), id. So the set of survivors depends neither on the order or number of shards nor on who finished first.

The catalogue keeps 12 bytes a document in memory and, in a mapped file, 32 (10^8 documents: 1.2 and 3.2 GB); texts stay
on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.document import Document, Dropped, Kept, Outcome

SURE, DOUBT, GONE, OPEN = range(4)  # what is known of a document: it stays; it may go; it goes; nothing yet

Decisions = dict[str, dict[str, dict[str, Any]]]  # shard stem -> document id -> evidence


class SourceLossError(ValueError):
    """A source would lose so much of itself to deduplication that a fault is likelier than true duplicates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """One row per document of the input, in shard order; a document's number is its row."""

    ids: np.ndarray  # S32 [N], mapped from a file where `catalogue` was given a folder
    lengths: np.ndarray  # int64 [N], characters
    sources: np.ndarray  # int32 [N], index into source_names
    starts: np.ndarray  # int64 [num shards + 1], the number of each shard's first document
    source_names: tuple[str, ...]
    shard_names: tuple[str, ...]  # stems

    def __len__(self) -> int:
        return len(self.ids)

    def id(self, index: int) -> str:
        return self.ids[index].decode()

    def shard_of(self, numbers: np.ndarray) -> np.ndarray:
        """int64 [M]: the place of each document's shard in shard_names."""
        return np.searchsorted(self.starts, numbers, side="right") - 1

    def rank(self, priority: Mapping[str, int], among: np.ndarray | None = None) -> np.ndarray:
        """int64 [N]: the place of each document in survivor order, 0 first; N for those that are not `among` these."""
        chosen = np.arange(len(self)) if among is None else among
        of_source = np.array([priority.get(name, 0) for name in self.source_names] or [0], dtype=np.int64)
        keys = (self.ids[chosen], -self.lengths[chosen], -of_source[self.sources[chosen]])
        rank = np.full(len(self), len(self), dtype=np.int64)
        rank[chosen[np.lexsort(keys)]] = np.arange(len(chosen))
        return rank


def catalogue(shard_names: Sequence[str], sidecars: Iterable[pa.Table], folder: Path | None = None) -> Catalogue:
    """From one table per shard with the columns id, source, length; ids go to a file in `folder` where one is given."""
    names: dict[str, int] = {}
    ids, lengths, sources, counts = OnDisk(folder, "ids", "S32"), [], [], []
    for table in sidecars:
        ids.append(_fixed(table["id"]))
        lengths.append(table["length"].to_numpy())
        encoded = table["source"].combine_chunks().dictionary_encode()
        codes = [names.setdefault(name, len(names)) for name in encoded.dictionary.to_pylist()]
        sources.append(np.array(codes or [0], dtype=np.int32)[encoded.indices.to_numpy()])
        counts.append(table.num_rows)
    return Catalogue(
        ids=ids.array(),
        lengths=np.concatenate([*lengths, np.empty(0, dtype=np.int64)]),
        sources=np.concatenate([*sources, np.empty(0, dtype=np.int32)]),
        starts=np.concatenate(([0], np.cumsum(np.array(counts, dtype=np.int64)))),
        source_names=tuple(names),
        shard_names=tuple(shard_names),
    )


def _fixed(column: pa.ChunkedArray) -> np.ndarray:
    """S32 of a column of ids; those of 32 digits, as all are, cost no Python object each."""
    text = column.combine_chunks().cast(pa.string())
    _, bounds, data = text.buffers()
    offsets = np.frombuffer(bounds, np.int32, len(text) + 1, 4 * text.offset) if len(text) else np.zeros(1, np.int32)
    if len(text) and (np.diff(offsets) == 32).all():
        return np.frombuffer(data, "S32", len(text), int(offsets[0]))
    return np.array(text.to_pylist(), dtype="S32")


class OnDisk:
    """An array that grows chunk by chunk: in a file of `folder`, mapped at the end, so that its pages are the kernel's
    to take back; in memory where there is no folder."""

    def __init__(self, folder: Path | None, name: str, dtype: str, width: int = 1):
        self.path = folder / f"{name}.bin" if folder else None
        self.dtype, self.shape = np.dtype(dtype), (-1, width) if width > 1 else (-1,)
        self._chunks: list[np.ndarray] = []
        if self.path:
            self.path.touch()

    def append(self, values: np.ndarray) -> None:
        if self.path is None:
            self._chunks.append(values.astype(self.dtype))
            return
        with open(self.path, "ab") as file:
            np.ascontiguousarray(values, self.dtype).tofile(file)

    def array(self) -> np.ndarray:
        """All of it, read-only where it is mapped."""
        if self.path is None:
            return np.concatenate([*self._chunks, np.empty(0, self.dtype).reshape(self.shape)])
        if not self.path.stat().st_size:
            return np.empty(0, self.dtype).reshape(self.shape)
        return np.memmap(self.path, self.dtype, "r").reshape(self.shape)


def elect(pairs: np.ndarray, rank: np.ndarray, unsettled: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Decide documents from verified pairs int64 [M, 2] (survivor candidate, document), both as row numbers.

    A document goes when one of its better-ranked partners is sure to stay; the best-ranked such partner is named. It
    is in doubt while that hangs on a partner in doubt, or while `unsettled[document]` says that pairs with
    better-ranked documents are still to come. Returns (dropped, kept, in doubt): row numbers; who goes ascends in rank.
    """
    pairs = pairs[np.lexsort(rank[pairs].T)]  # by the rank of the document, then of the candidate
    state = np.where(unsettled, DOUBT, SURE).astype(np.uint8)
    state[pairs[:, 1]] = OPEN
    left = pairs  # of documents that are open; a pass for each link of the longest chain of likeness
    while len(left):
        starts = _firsts(left[:, 1])
        documents, known = left[starts, 1], state[left[:, 0]]
        sure, doubt, still = (np.logical_or.reduceat(known == which, starts) for which in (SURE, DOUBT, OPEN))
        state[documents[sure]] = GONE
        settled = ~sure & ~still
        state[documents[settled]] = np.where(doubt | unsettled[documents], DOUBT, SURE)[settled]
        left = left[state[left[:, 1]] == OPEN]
    naming = pairs[(state[pairs[:, 1]] == GONE) & (state[pairs[:, 0]] == SURE)]
    naming = naming[_firsts(naming[:, 1])]
    documents = pairs[_firsts(pairs[:, 1]), 1]
    return naming[:, 1], naming[:, 0], documents[state[documents] == DOUBT]


def _firsts(values: np.ndarray) -> np.ndarray:
    """Where each run of equal values begins."""
    new = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return np.flatnonzero(new)


def greedy(edges: Sequence[tuple[int, int]], rank: np.ndarray, unsettled: np.ndarray) -> tuple[dict[int, int], set]:
    """`elect` of pairs in a list: ({dropped: kept}, in doubt)."""
    pairs = np.array(edges, dtype=np.int64).reshape(-1, 2)
    dropped, kept, doubt = elect(pairs, rank, unsettled)
    return dict(zip(dropped.tolist(), kept.tolist(), strict=True)), set(doubt.tolist())


def guard_sources(
    documents: Catalogue, dropped: Iterable[int] | np.ndarray, max_source_loss: float, min_documents: int, stage: str
) -> None:
    """Raise SourceLossError when a source of at least `min_documents` would lose more than `max_source_loss`."""
    total = np.bincount(documents.sources, minlength=len(documents.source_names))
    numbers = dropped if isinstance(dropped, np.ndarray) else np.fromiter(dropped, dtype=np.int64)
    gone = documents.sources[numbers]
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
    numbers = sorted(evidence)
    for index, place in zip(numbers, documents.shard_of(np.array(numbers, dtype=np.int64)).tolist(), strict=True):
        shard = documents.shard_names[place]
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
