"""Decide who goes: buckets propose pairs, signatures screen them, true Jaccard decides, in as many rounds as the
largest buckets need. Pairs whose Jaccard is known from before are not read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernels import minhash
from tasks.dedup import sidecars, verify
from tasks.dedup.index import Pairs, pair_keys
from tasks.dedup.lsh import Bands, sort_unique
from tasks.dedup.survivors import Catalogue, elect
from tasks.stage import PartResult, StageRun

PROPOSED = 1 << 19  # proposals gathered before they are screened: 4 MiB
SCREENED = 1 << 13  # pairs screened at once: up to 8 MiB of signatures


@dataclass(frozen=True, slots=True)
class Decided:
    """The documents that go, by number, ascending."""

    documents: np.ndarray  # int64 [D]
    kept: np.ndarray  # int64 [D], the survivor that it is a copy of
    similarity: np.ndarray  # float64 [D], true Jaccard to it
    estimated: np.ndarray  # float64 [D], by signatures

    @classmethod
    def none(cls) -> Decided:
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0))

    def joined(self, other: Decided) -> Decided:
        documents = np.concatenate([self.documents, other.documents])
        order = np.argsort(documents)
        rest = ((self.kept, other.kept), (self.similarity, other.similarity), (self.estimated, other.estimated))
        return Decided(documents[order], *(np.concatenate(both)[order] for both in rest))

    def evidence(self, documents: Catalogue) -> dict[str, np.ndarray]:
        """What is stored with each document that goes, as columns."""
        return {
            "kept_id": documents.ids[self.kept],
            "similarity": self.similarity,
            "estimated": self.estimated,
        }


class Signatures:
    """The signatures of the documents, in the files that the parts wrote; read where pairs need them."""

    def __init__(self, run: StageRun, results: Sequence[PartResult], documents: Catalogue, num_perm: int):
        self.run, self.results, self.documents, self.num_perm = run, results, documents, num_perm

    def rows(self, numbers: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(numbers, signatures uint32 [M, P]) of some documents (ascending numbers), a few MiB at a time."""
        yield from sidecars.matrix_rows(self.run, self.results, self.documents, numbers, self.num_perm)

    def agreement(self, pairs: np.ndarray) -> np.ndarray:
        """float32 [M]: the estimated Jaccard of pairs of numbers int64 [M, 2]; cheapest for pairs in order."""
        estimated = np.empty(len(pairs), dtype=np.float32)
        for start in range(0, len(pairs), SCREENED):
            some = pairs[start : start + SCREENED]
            members = sort_unique(some.ravel())
            values, filled = np.empty((len(members), self.num_perm), dtype=np.uint32), 0
            for _, found in self.rows(members):
                values[filled : filled + len(found)] = found
                filled += len(found)
            estimated[start : start + SCREENED] = minhash.agreement(values, np.searchsorted(members, some))
        return estimated


class KnownPairs:
    """True Jaccard: looked up where two texts met before, else computed and remembered."""

    def __init__(self, run: StageRun, documents: Catalogue, digests: np.ndarray, known: Pairs, new: np.ndarray):
        self.run, self.documents, self.digests, self.known, self.new = run, documents, digests, known, new
        self.num_known, self.num_read, self.num_old_read, self.num_calls = 0, 0, 0, 0
        self._keys: list[np.ndarray] = []
        self._values: list[np.ndarray] = []

    def jaccard(self, pairs: np.ndarray) -> np.ndarray:
        """float64 [M] of pairs of numbers int64 [M, 2], each asked for once in a run."""
        keys = pair_keys(self.digests[pairs[:, 0]], self.digests[pairs[:, 1]])
        values = self.known.find(keys)
        unknown = np.isnan(values)
        values[unknown] = verify.true_jaccard(self.run, self.documents, pairs[unknown], self.num_calls)
        self._keys.append(keys[unknown])
        self._values.append(values[unknown])
        self.num_calls += 1
        self.num_known += int((~unknown).sum())
        self.num_read += int(unknown.sum())
        self.num_old_read += int((~self.new[pairs[unknown]].any(axis=1)).sum())
        return values

    def all(self) -> Pairs:
        """Those known before and those of this run."""
        keys = np.concatenate([np.empty((0, 2), np.uint64), *self._keys])
        return self.known.joined(keys, np.concatenate([np.empty(0), *self._values]))


def find_duplicates(
    run: StageRun, documents: Catalogue, spilled: Bands, signatures: Signatures, pairs: KnownPairs
) -> Decided:
    """Who goes among the documents whose bands are spilled."""
    config = run.config
    rank = documents.rank(config.source_priority, _sharing(spilled, len(documents)))
    gone = np.zeros(len(documents), dtype=bool)
    seen = np.empty(0, dtype=np.int64)  # pairs already compared, as better * N + worse
    similar, values = np.empty(0, dtype=np.int64), np.empty(0)  # those of them that are duplicates, ascending
    dropped = kept = seen  # after the last round nothing is unsettled: its word is final
    num, proposed, number = max(len(documents), 1), 0, 0
    least = config.threshold - config.estimate_margin
    while spilled.left:
        likely = [seen[:0]]
        for keys, count in _proposals(spilled.round(rank, gone), num):
            proposed += count
            likely.append(keys[signatures.agreement(_pairs(keys, num)) >= least])
        keys = np.setdiff1d(sort_unique(np.concatenate(likely)), seen, assume_unique=True)
        found = pairs.jaccard(_pairs(keys, num))
        alike = found >= config.threshold
        similar, values = np.concatenate([similar, keys[alike]]), np.concatenate([values, found[alike]])
        seen = np.sort(np.concatenate([seen, keys]))
        dropped, kept, _ = elect(_pairs(similar, num), rank, spilled.unsettled)
        gone[dropped] = True
        number += 1
    run.output.facts.update(
        pairs_proposed=proposed,
        pairs_known_before=pairs.num_known,
        pairs_verified=pairs.num_read,
        pairs_verified_without_new=pairs.num_old_read,
        pairs_similar=len(similar),
        rounds=number,
    )
    order, by_key = np.argsort(dropped), np.argsort(similar)
    dropped, kept = dropped[order], kept[order]
    values = values[by_key][np.searchsorted(similar[by_key], kept * num + dropped)]
    estimated = signatures.agreement(np.stack([kept, dropped], axis=1)).astype(np.float64)
    return Decided(dropped, kept, values, estimated)


def _pairs(keys: np.ndarray, num: int) -> np.ndarray:
    """int64 [M, 2] (better, worse) of pairs as better * num + worse."""
    return np.stack(np.divmod(keys, num), axis=1)


def _sharing(spilled: Bands, num: int) -> np.ndarray:
    """The documents, ascending, that share a bucket with another."""
    shared = np.zeros(num, dtype=bool)
    for band in range(spilled.bands):
        for _, numbers in spilled.shared(band):
            shared[numbers] = True
    return np.flatnonzero(shared)


def _proposals(candidates: Iterator[np.ndarray], num: int) -> Iterator[tuple[np.ndarray, int]]:
    """Distinct pairs as keys, ascending, and how many proposals they stand for: several bands propose the same."""
    pending, count = list[np.ndarray](), 0
    for pairs in candidates:
        pending.append(sort_unique(pairs[:, 0] * num + pairs[:, 1]))
        count += len(pairs)
        if sum(map(len, pending)) >= PROPOSED:
            yield sort_unique(np.concatenate(pending)), count
            pending, count = [], 0
    if pending:
        yield sort_unique(np.concatenate(pending)), count
