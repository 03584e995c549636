"""The MinHash index at scale: synthetic signatures, the very code that a night runs, figures on this machine.

    python benchmarks/index_scale.py [--documents 1000000] [--night 1000000] [--queries 1000000] [--folder DIR]

The index grows in nights of `--night` documents up to `--documents`; then one more night of `--queries` documents is
timed. A tenth of each night's documents copy an older one with a tenth of their signature redrawn. Measured: spilling
band keys (`lsh.Bands`), look-up and merge into the next index (`incremental.grow_bands`), finding and renaming
components. Left out: making signatures, the catalogue (76 bytes a document), reading and verifying pairs' texts.

Memory is anonymous memory (mapped index pages are the page cache's). Disk: 216 bytes a document for the index, and
288 bytes for each document of a night; 10^8 documents need 25 GB free and about half an hour on two cores.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tasks.dedup import incremental
from tasks.dedup.incremental import Match
from tasks.dedup.index import map_band
from tasks.dedup.lsh import Bands, bands_and_rows

CHUNK, NUM_PERM = 50_000, 128
COPIES, REDRAWN = 0.1, 0.1  # share of documents that copy an older one; share of a copy's values drawn anew


class AnonymousMemory:
    """The highest anonymous memory of this process since `reset`, sampled 20 times a second."""

    def __init__(self) -> None:
        self.peak = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.peak = max(self.peak, self.now())
            time.sleep(0.05)

    @staticmethod
    def now() -> int:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))


def drawn(chunk: int) -> np.ndarray:
    """The signatures of one chunk of unlike documents, uint32 [CHUNK, NUM_PERM]."""
    return np.random.default_rng(chunk).integers(0, 1 << 32, (CHUNK, NUM_PERM), dtype=np.uint32)


def night(first: int, num: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(numbers, signatures, originals) by chunk of a night that begins with document `first`; originals of the first
    COPIES * CHUNK rows of a chunk, none in the very first."""
    for start in range(first, first + num, CHUNK):
        chunk = start // CHUNK
        generator = np.random.default_rng([1, chunk])
        signatures, originals = drawn(chunk), np.empty(0, np.int64)
        if chunk:
            older = int(generator.integers(chunk))
            rows = np.arange(int(COPIES * CHUNK), int(2 * COPIES * CHUNK))  # rows that are no copies themselves
            redrawn = generator.random((len(rows), NUM_PERM)) < REDRAWN
            signatures[: len(rows)] = np.where(redrawn, signatures[: len(rows)], drawn(older)[rows])
            originals = older * CHUNK + rows
        yield np.arange(start, start + CHUNK), signatures, originals


class Grown:
    """An index of synthetic documents: bands on disk, components in memory."""

    def __init__(self, folder: Path):
        self.folder, self.num, self.components = folder, 0, np.empty(0, dtype=np.int64)
        self.bands: Path | None = None

    def band(self, band: int) -> tuple[np.ndarray, np.ndarray]:
        """Mapped; the file goes once the mapping does, so that two whole indexes never lie side by side."""
        if self.bands is None:
            return incremental.no_band(band)
        path = self.bands / f"band-{band:03d}.bin"
        mapped = map_band(path, "r")
        path.unlink()
        return mapped

    def add(self, num: int) -> dict[str, float]:
        """One night; seconds by step, and the share of copies that are in their original's component."""
        before, self.num = self.num, self.num + num
        spill, target = Path(tempfile.mkdtemp(dir=self.folder)), Path(tempfile.mkdtemp(dir=self.folder))
        spilled, took, copies = Bands(spill, *bands_and_rows(0.8, NUM_PERM, 0.99)), {"keys": 0.0}, []
        for numbers, signatures, originals in night(before, num):
            started = time.monotonic()
            spilled.add(numbers, signatures)
            took["keys"] += time.monotonic() - started
            copies.append(np.stack([numbers[: len(originals)], originals], axis=1))
        origins = np.concatenate([np.arange(before), np.full(num, -1)])
        matched = Match(np.arange(before), origins)
        started = time.monotonic()
        met = incremental.grow_bands(self.band, matched, spilled, self.num, target)
        took["look up, merge"] = time.monotonic() - started
        started = time.monotonic()
        chosen = incremental.affected(matched, self.components, met)
        members = np.flatnonzero(chosen)
        self._spill_again(spilled, members[: len(members) - num])
        took["read affected"] = time.monotonic() - started
        started = time.monotonic()
        self.components = incremental.components(matched, self.components, chosen, members, spilled)
        took["components"] = time.monotonic() - started
        shutil.rmtree(spill)
        if self.bands is not None:
            self.bands.rmdir()
        self.bands = target
        pairs = np.concatenate(copies)
        found = float((self.components[pairs[:, 0]] == self.components[pairs[:, 1]]).mean()) if len(pairs) else 1.0
        return {**took, "compared": float(len(members)), "found": found}

    def _spill_again(self, spilled: Bands, numbers: np.ndarray) -> None:
        """The band keys of old documents, from their signatures drawn again."""
        for chunk in np.unique(numbers // CHUNK):
            inside = numbers[numbers // CHUNK == chunk]
            for _, signatures, _ in night(int(chunk) * CHUNK, CHUNK):
                spilled.add(inside, signatures[inside - int(chunk) * CHUNK])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--night", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--folder", help="where there is room on disk; default the system's temporary folder")
    arguments = parser.parse_args()
    if any(n % CHUNK for n in (arguments.documents, arguments.night, arguments.queries)):
        parser.error(f"numbers of documents must be multiples of {CHUNK:,}")
    memory = AnonymousMemory()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        grown = Grown(Path(folder))
        print("   documents        new  keys s  merge s  read s  comp. s   compared   found  memory MB  bytes/document")
        while grown.num < arguments.documents:
            report(grown, min(arguments.night, arguments.documents - grown.num), memory)
        report(grown, arguments.queries, memory)


def report(grown: Grown, num: int, memory: AnonymousMemory) -> None:
    memory.peak = 0
    row = grown.add(num)
    size = sum(path.stat().st_size for path in grown.bands.iterdir()) if grown.bands else 0
    print(
        f"{grown.num:>12,} {num:>10,} {row['keys']:>7.1f} {row['look up, merge']:>8.1f} {row['read affected']:>7.1f} "
        f"{row['components']:>8.1f} {int(row['compared']):>10,} {row['found']:>7.4f} {memory.peak / 1e6:>10,.0f} "
        f"{size / grown.num:>15.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
