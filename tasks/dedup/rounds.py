"""Decide who goes: buckets propose pairs, signatures screen them, true Jaccard decides, in as many rounds as the
largest buckets need. Pairs whose Jaccard is known from before are not read again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernels import minhash
from tasks.dedup import verify
from tasks.dedup.index import Pairs, pair_keys
from tasks.dedup.lsh import Bands
from tasks.dedup.survivors import Catalogue, greedy
from tasks.stage import StageRun


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

    def evidence(self, documents: Catalogue) -> dict[int, dict[str, Any]]:
        """What is stored with each document that goes."""
        return {
            int(document): {
                "kept_id": documents.id(int(kept)),
                "similarity": round(float(similarity), 6),
                "estimated": round(float(estimated), 6),
            }
            for document, kept, similarity, estimated in zip(
                self.documents, self.kept, self.similarity, self.estimated, strict=True
            )
        }


class Signatures:
    """Signatures of some documents in a local file: 4 bytes a value, read where a pair needs them."""

    def __init__(self, folder: Path, num_perm: int):
        self.path, self.num_perm = folder / "signatures.u32", num_perm
        self._numbers: list[np.ndarray] = [np.empty(0, dtype=np.int64)]

    def add(self, numbers: np.ndarray, values: np.ndarray) -> None:
        with open(self.path, "ab") as file:
            values.tofile(file)
        self._numbers.append(numbers)

    def close(self) -> None:
        """No more are added."""
        numbers = np.concatenate(self._numbers)
        self.order = np.argsort(numbers)
        self.numbers = numbers[self.order]
        shape = (len(numbers), self.num_perm)
        self.values = np.memmap(self.path, np.uint32, "r", shape=shape) if len(numbers) else np.empty(shape, np.uint32)

    def agreement(self, pairs: np.ndarray) -> np.ndarray:
        """float32 [M]: the estimated Jaccard of pairs of numbers int64 [M, 2]."""
        if not len(pairs):
            return np.empty(0, dtype=np.float32)
        return minhash.agreement(self.values, self.order[np.searchsorted(self.numbers, pairs)])


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
    rank, num = documents.rank(config.source_priority), max(len(documents), 1)
    signatures.close()
    gone = np.zeros(len(documents), dtype=bool)
    seen = np.empty(0, dtype=np.int64)  # pairs already compared, as better * N + worse
    similar: dict[tuple[int, int], float] = {}
    proposed, number = 0, 0
    while spilled.left:
        likely = [seen[:0]]
        for candidates in spilled.round(rank, gone):
            proposed += len(candidates)
            near = signatures.agreement(candidates) >= config.threshold - config.estimate_margin
            likely.append(np.unique(candidates[near, 0] * num + candidates[near, 1]))
        keys = np.setdiff1d(np.unique(np.concatenate(likely)), seen, assume_unique=True)
        asked = np.stack(np.divmod(keys, num), axis=1)
        values = pairs.jaccard(asked)
        alike = values >= config.threshold
        for better, worse, value in zip(*asked[alike].T.tolist(), values[alike].tolist(), strict=True):
            similar[better, worse] = value
        seen = np.union1d(seen, keys)
        dropped, _ = greedy(list(similar), rank, spilled.unsettled)
        gone[list(dropped)] = True
        number += 1
    run.output.facts.update(
        pairs_proposed=proposed,
        pairs_known_before=pairs.num_known,
        pairs_verified=pairs.num_read,
        pairs_verified_without_new=pairs.num_old_read,
        pairs_similar=len(similar),
        rounds=number,
    )
    dropped, _ = greedy(list(similar), rank, np.zeros(len(documents), dtype=bool))
    chosen = np.array(sorted((worse, better) for worse, better in dropped.items()), dtype=np.int64).reshape(-1, 2)
    values = np.array([similar[better, worse] for worse, better in chosen.tolist()], dtype=np.float64)
    estimated = signatures.agreement(chosen[:, ::-1]).astype(np.float64)
    return Decided(chosen[:, 0], chosen[:, 1], values, estimated)
