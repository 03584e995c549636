"""Locality-sensitive hashing: which pairs of signatures are worth comparing.

Band k of a signature is `rows` consecutive values; two documents meet in a bucket where one band is equal, which two
sets of Jaccard s do with probability 1 - (1 - s^rows)^bands. Buckets only propose: the caller verifies.

Memory is bounded by one band: signatures stream in once and their band keys are spilled to one file per band, which
is then sorted alone (16 bytes a document and band). A bucket is worked off in rounds: its best-ranked `LEADERS`
members are paired with all others and leave; documents found to be duplicates meanwhile leave too. So 10^5 copies of
one licence cost a multiple of 10^5 comparisons, not their square, and no bucket is ever cut short.

ref   Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, chapter 3; datasketch's choice of bands and rows
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

LEADERS = 8
MAX_PAIRS = 1 << 18  # pairs handed over at once: 4 MiB


@functools.cache
def bands_and_rows(threshold: float, num_perm: int, false_negative_weight: float) -> tuple[int, int]:
    """What datasketch's MinHashLSH would choose. Since false positives are verified away, misses weigh far more."""
    from datasketch.lsh import _optimal_param  # loads scipy, 0.5 s

    bands, rows = _optimal_param(threshold, num_perm, 1 - false_negative_weight, false_negative_weight)
    return int(bands), int(rows)


def candidate_probability(similarity: float, bands: int, rows: int) -> float:
    """The S-curve: how likely two sets of that Jaccard are to meet in a bucket."""
    return 1 - (1 - similarity**rows) ** bands


def band_keys(signatures: np.ndarray, bands: int, rows: int) -> np.ndarray:
    """uint64 [N, bands] of uint32 signatures [N, P]. Two bands that collide cost one comparison, nothing else."""
    keys = np.zeros((len(signatures), bands), dtype=np.uint64)
    banded = signatures[:, : bands * rows].reshape(len(signatures), bands, rows)
    for row in range(rows):
        keys = (keys ^ banded[:, :, row].astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(29)
    return keys


def tied(keys: np.ndarray) -> np.ndarray:
    """The places in ascending `keys` whose key is not the only one of its value."""
    equal = np.zeros(len(keys) + 1, dtype=bool)
    equal[1:-1] = keys[1:] == keys[:-1]
    return np.flatnonzero(equal[:-1] | equal[1:])


def order_by(keys: np.ndarray, ties: np.ndarray) -> np.ndarray:
    """The order by `keys`, and by `ties` where keys are equal. Few are, so that only these are sorted by both: NumPy's
    vectorised sort of one key takes a fifth of the time of `lexsort` over two."""
    order = np.argsort(keys)
    ordered = keys[order]
    places = tied(ordered)
    members = order[places]
    order[places] = members[np.lexsort((ties[members], ordered[places]))]
    return order


class Bands:
    """The spilled bands: what is still to be paired in each."""

    def __init__(self, folder: Path, bands: int, rows: int):
        self.folder, self.bands, self.rows = folder, bands, rows
        self.unsettled = np.empty(0, dtype=bool)  # [N] after a round: may still meet a better-ranked document

    def add(self, documents: np.ndarray, signatures: np.ndarray) -> None:
        """Spill the bands of `documents` (row numbers)."""
        keys = band_keys(signatures, self.bands, self.rows)
        for band in range(self.bands):
            table = np.empty((len(documents), 2), dtype=np.uint64)
            table[:, 0], table[:, 1] = keys[:, band], documents
            with open(self._path(band), "ab") as file:
                table.tofile(file)

    def round(self, rank: np.ndarray, gone: np.ndarray) -> Iterator[np.ndarray]:
        """Pairs int64 [M, 2] (better-ranked, other) of this round, band by band; `gone` are out of the game.

        Afterwards `unsettled` says who may still meet a better-ranked document, and `left` whether any pair is left.
        """
        unsettled = np.zeros(len(rank), dtype=bool)
        for band in range(self.bands):
            keys, documents = self._read(band)
            keys, documents = keys[~gone[documents]], documents[~gone[documents]]
            order = order_by(keys, rank[documents])
            keys, documents = keys[order], documents[order]
            starts, sizes = _groups(keys)
            yield from _lead(documents, starts, sizes)
            stay = np.zeros(len(keys), dtype=bool)  # the rest of each bucket that has more than leaders and one other
            large = sizes > LEADERS + 1
            for start, size in zip(starts[large], sizes[large], strict=True):
                stay[start + LEADERS : start + size] = True
                unsettled[documents[start + LEADERS + 1 : start + size]] = True
            np.stack([keys[stay], documents[stay].astype(np.uint64)], axis=1).tofile(self._path(band))
        self.unsettled = unsettled

    def sorted(self, band: int) -> tuple[np.ndarray, np.ndarray]:
        """What is spilled of a band: keys uint64 and documents int64, by both."""
        keys, documents = self._read(band)
        order = order_by(keys, documents)
        return keys[order], documents[order]

    def _read(self, band: int) -> tuple[np.ndarray, np.ndarray]:
        path = self._path(band)
        table = np.fromfile(path, dtype=np.uint64).reshape(-1, 2) if path.exists() else np.empty((0, 2), np.uint64)
        return np.ascontiguousarray(table[:, 0]), table[:, 1].astype(np.int64)

    @property
    def left(self) -> bool:
        return any(self._path(band).exists() and self._path(band).stat().st_size for band in range(self.bands))

    def _path(self, band: int) -> Path:
        return self.folder / f"band-{band:03d}.u64"


def _groups(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts and sizes of runs of equal keys, in order."""
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))) if len(keys) else np.empty(0, np.int64)
    return starts, np.diff(np.append(starts, len(keys)))


def _lead(documents: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> Iterator[np.ndarray]:
    """Each group's first LEADERS members with all members behind them, in chunks of about MAX_PAIRS."""
    pending, count = [], 0
    for start, size in zip(starts[sizes > 1], sizes[sizes > 1], strict=True):
        for leader in range(start, start + min(size - 1, LEADERS)):
            others = documents[leader + 1 : start + size]
            pending.append(np.stack([np.full(len(others), documents[leader]), others], axis=1))
            count += len(others)
            if count >= MAX_PAIRS:
                yield np.concatenate(pending)
                pending, count = [], 0
    if pending:
        yield np.concatenate(pending)
