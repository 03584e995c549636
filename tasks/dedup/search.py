"""Which vectors are near each other: exhaustive inner-product search by FAISS, in blocks.

One thread, fixed blocks, vectors in survivor order: the result depends on the set of vectors alone. FAISS's sums may
differ from ours in the last bits, so it proposes a little below the threshold and a float64 product, rounded, decides.
"""

from __future__ import annotations

from dataclasses import dataclass

import faiss
import numpy as np

BLOCK = 1024
MARGIN = 1e-4


@dataclass(frozen=True, slots=True)
class PairList:
    """Pairs of row numbers, better[k] < worse[k], and their cosine."""

    better: np.ndarray  # int64 [M]
    worse: np.ndarray  # int64 [M]
    similarity: np.ndarray  # float64 [M]

    def __len__(self) -> int:
        return len(self.better)

    def take(self, chosen: np.ndarray) -> PairList:
        return PairList(self.better[chosen], self.worse[chosen], self.similarity[chosen])


@dataclass(frozen=True, slots=True)
class Pairs:
    """What a search found."""

    near: PairList  # at or above the threshold
    below: PairList  # the nearest of those from `screen` to the threshold
    above_screen: int
    above_threshold: int  # before the cut to `max_partners`


def near_pairs(vectors: np.ndarray, threshold: float, screen: float, max_partners: int, num_below: int = 0) -> Pairs:
    """All pairs of unit vectors float32 [N, D] with cosine >= threshold, at most `max_partners` (the nearest, then
    the first) per later vector; pairs >= screen are counted, and the `num_below` nearest below the threshold named."""
    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(vectors.shape[1])
    near, below = [_NONE], _NONE
    above_screen = above_threshold = 0
    for start in range(0, len(vectors), BLOCK):
        block = vectors[start : start + BLOCK]
        index.add(block)  # a vector meets those before it, and those of its own block
        limits, scores, others = index.range_search(block, screen - MARGIN)
        rows = start + np.repeat(np.arange(len(block)), limits[1:].astype(np.int64) - limits[:-1].astype(np.int64))
        before = others < rows
        rows, others, scores = rows[before], others[before], scores[before]
        above_screen += int((scores >= screen).sum())
        likely = scores >= threshold - MARGIN
        found = _exact(vectors, others[likely], rows[likely])
        found = found.take(found.similarity >= threshold)
        above_threshold += len(found)
        near.append(_partners(found, max_partners))
        if num_below:
            rest = np.flatnonzero(scores < threshold + MARGIN)
            rest = rest[np.lexsort((others[rest], rows[rest], -scores[rest]))[: 2 * num_below]]
            found = _exact(vectors, others[rest], rows[rest])
            found = found.take((found.similarity < threshold) & (found.similarity >= screen))
            below = _nearest(_joined([below, found]), num_below)
    return Pairs(_joined(near), below, above_screen, above_threshold)


_NONE = PairList(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64))


def _exact(vectors: np.ndarray, better: np.ndarray, worse: np.ndarray) -> PairList:
    cosines = np.einsum("ij,ij->i", vectors[worse], vectors[better], dtype=np.float64)
    return PairList(better, worse, np.round(cosines, 6))


def _partners(pairs: PairList, number: int) -> PairList:
    """The `number` nearest, then first, of each later row."""
    pairs = pairs.take(np.lexsort((pairs.better, -pairs.similarity, pairs.worse)))
    first = np.searchsorted(pairs.worse, pairs.worse)  # where the partners of the same row begin
    return pairs.take(np.arange(len(pairs)) - first < number)


def _nearest(pairs: PairList, number: int) -> PairList:
    return pairs.take(np.lexsort((pairs.better, pairs.worse, -pairs.similarity))[:number])


def _joined(parts: list[PairList]) -> PairList:
    columns = ([getattr(part, name) for part in parts] for name in ("better", "worse", "similarity"))
    return PairList(*(np.concatenate(column) for column in columns))
