"""Locality-sensitive hashing: which pairs of signatures are worth comparing.

Band k of a signature is `rows` consecutive values; two documents meet in a bucket where one band is equal, which two
sets of Jaccard s do with probability 1 - (1 - s^rows)^bands. Buckets only propose: the caller verifies.

Memory is bounded by a piece of one band: signatures stream in once, their band keys are spilled to one file per band in
runs grouped by the key's first byte, and read back a few groups at a time (12 bytes a document and band on disk). Only
a bucket is never cut: it is in memory whole.

A bucket is worked off in rounds: its best-ranked `LEADERS` members are paired with all others and leave; documents
found to be duplicates meanwhile leave too. So 10^5 copies of one licence cost a multiple of 10^5 comparisons, not their
square, and no bucket is ever cut short.

ref   Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, chapter 3; datasketch's choice of bands and rows
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

LEADERS = 8
MAX_PAIRS = 1 << 16  # pairs handed over at once: 1 MiB
SPILL_DOCUMENTS = 1 << 15  # whose keys are gathered before they are written: 4.7 MB at 18 bands
PIECE_DOCUMENTS = 1 << 16  # entries of a band sorted at once: 12 bytes each, and about 60 while they are sorted
PREFIXES = 256  # groups of a run: 10^8 documents make 390,000 entries each
ENTRY = np.dtype([("key", "<u8"), ("number", "<u4")])


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
    return np.flatnonzero(_is_tied(keys))


def sort_unique(values: np.ndarray) -> np.ndarray:
    """Ascending, distinct: what `np.unique` gives, which hashes integers first, 3 to 6 times slower here."""
    ordered = np.sort(values)
    new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def order_by(keys: np.ndarray, ties: np.ndarray) -> np.ndarray:
    """The order by `keys`, and by `ties` where keys are equal. Few are, so that only these are sorted by both: NumPy's
    vectorised sort of one key takes a fifth of the time of `lexsort` over two."""
    order = np.argsort(keys)
    ordered = keys[order]
    places = tied(ordered)
    members = order[places]
    order[places] = members[np.lexsort((ties[members], ordered[places]))]
    return order


class Spill:
    """The entries of one band on disk, records of (key, number); read back in pieces of bounded size, ascending.

    Each run on disk is grouped by the first byte of the key, so that a piece is a few groups of every run.
    """

    def __init__(self, path: Path):
        self.path = path
        self._runs: list[np.ndarray] = []  # int64 [PREFIXES + 1]: where in the file each group begins, in records
        self._ascends = True  # one run, sorted by key and number
        self.num = 0

    def append(self, keys: np.ndarray, numbers: np.ndarray) -> None:
        """Add a run: uint64 keys and their documents."""
        prefixes = (keys >> np.uint64(56)).astype(np.uint8)
        order = np.argsort(prefixes, kind="stable")  # a radix sort
        with open(self.path, "ab") as file:
            _records(keys[order], numbers[order]).tofile(file)
        self._runs.append(self.num + _bounds(np.bincount(prefixes, minlength=PREFIXES)))
        self.num += len(keys)
        self._ascends = False

    def pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(keys uint64, numbers int64) by both; a piece holds whole buckets, about PIECE_DOCUMENTS entries.

        Afterwards the file is sorted, so the next time costs no sorting.
        """
        if self._ascends:
            yield from self._read()
        else:
            yield from self._rewrite(self._read())

    def filtered(self, kept: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """`pieces`, each without the entries that `kept(keys, numbers)` (bool) leaves out, which are then forgotten."""

        def some() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for keys, numbers in self._read():
                stay = kept(keys, numbers)
                yield keys[stay], numbers[stay]

        yield from self._rewrite(some())

    def _rewrite(self, pieces: Iterator[tuple[np.ndarray, np.ndarray]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        counts = np.zeros(PREFIXES, dtype=np.int64)
        target = self.path.with_suffix(".new")
        with open(target, "wb") as file:
            for keys, numbers in pieces:
                counts += np.bincount((keys >> np.uint64(56)).astype(np.uint8), minlength=PREFIXES)
                _records(keys, numbers).tofile(file)
                yield keys, numbers
        target.replace(self.path)
        self._runs, self._ascends, self.num = [_bounds(counts)], True, int(counts.sum())

    def _read(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if not self.num:
            return
        sizes = np.sum([np.diff(run) for run in self._runs], axis=0)
        with open(self.path, "rb") as file:
            for low, high in _ranges(sizes, PIECE_DOCUMENTS):
                found = []
                for run in self._runs:
                    file.seek(int(run[low]) * ENTRY.itemsize)
                    found.append(np.fromfile(file, ENTRY, int(run[high] - run[low])))
                entries = np.concatenate(found) if len(found) > 1 else found[0]
                keys, numbers = np.ascontiguousarray(entries["key"]), entries["number"].astype(np.int64)
                if not self._ascends:
                    order = order_by(keys, numbers)
                    keys, numbers = keys[order], numbers[order]
                yield keys, numbers


def _records(keys: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    entries = np.empty(len(keys), dtype=ENTRY)
    entries["key"], entries["number"] = keys, numbers
    return entries


def _bounds(counts: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(counts)))


def _ranges(sizes: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of `sizes` whose sum is at most `most`, or which are one alone."""
    low, total = 0, 0
    for place, size in enumerate(sizes):
        if total and total + size > most:
            yield low, place
            low, total = place, 0
        total += size
    if total:
        yield low, len(sizes)


class Bands:
    """The spilled bands: what is still to be paired in each."""

    def __init__(self, folder: Path, bands: int, rows: int):
        self.folder, self.bands, self.rows = folder, bands, rows
        self.unsettled = np.empty(0, dtype=bool)  # [N] after a round: may still meet a better-ranked document
        self._spills = [Spill(folder / f"band-{band:03d}.entries") for band in range(bands)]
        self._pending: list[tuple[np.ndarray, np.ndarray]] = []
        self._num_pending = 0
        self._only_shared = [False] * bands

    def add(self, documents: np.ndarray, signatures: np.ndarray) -> None:
        """Spill the bands of `documents` (row numbers)."""
        for start in range(0, len(documents), SPILL_DOCUMENTS):
            some = slice(start, start + SPILL_DOCUMENTS)
            self._pending.append((documents[some], band_keys(signatures[some], self.bands, self.rows)))
            self._num_pending += len(documents[some])
            if self._num_pending >= SPILL_DOCUMENTS:
                self._spill()

    def _spill(self) -> None:
        if self._pending:
            documents = np.concatenate([some for some, _ in self._pending])
            for band, spill in enumerate(self._spills):
                spill.append(np.concatenate([keys[:, band] for _, keys in self._pending]), documents)
            self._pending, self._num_pending = [], 0

    def sorted(self, band: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """What is spilled of a band: keys uint64 and documents int64, by both, in pieces that cut no bucket."""
        self._spill()
        yield from self._spills[band].pieces()

    def shared(self, band: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """`sorted` without the buckets of one document, which are forgotten: no more may be added."""
        self._spill()
        if self._only_shared[band]:
            yield from self._spills[band].pieces()
        else:
            yield from self._spills[band].filtered(lambda keys, _: _is_tied(keys))
            self._only_shared[band] = True

    def round(self, rank: np.ndarray, gone: np.ndarray) -> Iterator[np.ndarray]:
        """Pairs int64 [M, 2] (better-ranked, other) of this round, band by band; `gone` are out of the game.

        Afterwards `unsettled` says who may still meet a better-ranked document, and `left` whether any pair is left.
        """
        self._spill()
        unsettled = np.zeros(len(rank), dtype=bool)
        for spill in self._spills:
            found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

            def rest(keys: np.ndarray, documents: np.ndarray, found: list = found) -> np.ndarray:
                """Which entries stay for the next round: of each bucket that has more than leaders and one other, those
                behind the leaders."""
                order = np.flatnonzero(~gone[documents])
                order = order[order_by(keys[order], rank[documents[order]])]
                starts, sizes = _groups(keys[order])
                found.append((documents[order], starts, sizes))
                place = np.arange(len(order)) - np.repeat(starts, sizes)
                large = np.repeat(sizes > LEADERS + 1, sizes)
                unsettled[documents[order[large & (place > LEADERS)]]] = True
                stay = np.zeros(len(keys), dtype=bool)
                stay[order[large & (place >= LEADERS)]] = True
                return stay

            for _ in spill.filtered(rest):
                yield from _lead(*found.pop())
        self.unsettled = unsettled

    @property
    def left(self) -> bool:
        self._spill()
        return any(spill.num for spill in self._spills)


def _is_tied(keys: np.ndarray) -> np.ndarray:
    """bool: whose key, of ascending `keys`, is not the only one of its value."""
    equal = np.zeros(len(keys) + 1, dtype=bool)
    equal[1:-1] = keys[1:] == keys[:-1]
    return equal[:-1] | equal[1:]


def _groups(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts and sizes of runs of equal keys, in order."""
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))) if len(keys) else np.empty(0, np.int64)
    return starts, np.diff(np.append(starts, len(keys)))


def _lead(documents: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> Iterator[np.ndarray]:
    """Each group's first LEADERS members with all members behind them, in chunks of at most MAX_PAIRS."""
    for place in range(LEADERS):
        leads = sizes > place + 1
        leaders, counts = starts[leads] + place, sizes[leads] - place - 1
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        for low in range(0, total, MAX_PAIRS):
            high = min(low + MAX_PAIRS, total)
            first, last = np.searchsorted(ends, (low, high - 1), side="right")
            some = counts[first : last + 1].copy()
            some[0] = ends[first] - low
            some[-1] -= ends[last] - high
            group = np.repeat(np.arange(first, last + 1), some)
            others = leaders[group] + 1 + np.arange(low, high) - (ends - counts)[group]
            yield np.stack([documents[leaders[group]], documents[others]], axis=1)
