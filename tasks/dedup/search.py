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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Pairs of row numbers, better[k] < worse[k], and how many there were in all."""

    better: np.ndarray  # int64 [M]
    worse: np.ndarray  # int64 [M]
    similarity: np.ndarray  # float64 [M]
    above_screen: int
    above_threshold: int  # before the cut to `max_partners`


def near_pairs(vectors: np.ndarray, threshold: float, screen: float, max_partners: int) -> Pairs:
    """All pairs of unit vectors float32 [N, D] with cosine >= threshold, at most `max_partners` (the nearest, then
    the first) per later vector; pairs >= screen are counted."""
    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(vectors.shape[1])
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    above_screen = above_threshold = 0
    for start in range(0, len(vectors), BLOCK):
        block = vectors[start : start + BLOCK]
        index.add(block)  # a vector meets those before it, and those of its own block
        limits, scores, others = index.range_search(block, screen - MARGIN)
        rows = start + np.repeat(np.arange(len(block)), limits[1:].astype(np.int64) - limits[:-1].astype(np.int64))
        before = others < rows
        rows, others, scores = rows[before], others[before], scores[before]
        above_screen += int((scores >= screen).sum())
        near = scores >= threshold - MARGIN
        rows, others = rows[near], others[near]
        exact = np.round(np.einsum("ij,ij->i", vectors[rows], vectors[others], dtype=np.float64), 6)
        rows, others, exact = (part[exact >= threshold] for part in (rows, others, exact))
        above_threshold += len(rows)
        order = np.lexsort((others, -exact, rows))
        rows, others, exact = rows[order], others[order], exact[order]
        first = np.searchsorted(rows, rows)  # where the partners of the same row begin
        keep = np.arange(len(rows)) - first < max_partners
        found.append((others[keep], rows[keep], exact[keep]))
    better, worse, similarity = (
        np.concatenate([part[k] for part in found]) if found else np.empty(0, dtype=kind)
        for k, kind in enumerate((np.int64, np.int64, np.float64))
    )
    return Pairs(
        better=better,
        worse=worse,
        similarity=similarity,
        above_screen=above_screen,
        above_threshold=above_threshold,
    )
