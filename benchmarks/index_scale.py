"""The MinHash index at scale: synthetic signatures, the very code that a night runs, figures on this machine.

    python benchmarks/index_scale.py [--documents 1000000] [--night 1000000] [--queries 1000000] [--folder DIR]

The index grows in nights of `--night` documents up to `--documents`; then one more night of `--queries` documents is
timed. A tenth of each night's documents copy an older one with a tenth of their signature redrawn. Measured: spilling
band keys (`lsh.Bands`), look-up and merge into the next index (`incremental.grow_bands`), finding and renaming
components. Left out: making signatures, the catalogue (76 bytes a document), reading and verifying pairs' texts.

Every night is checked. `planted` counts the copies, `meet` those that share a band with their original (theory: all but
8 in a million), `found` those of these that the index puts into their original's component, and `others` the
components that are missing or too many after that: both must be exact, or the run fails.

Memory is anonymous memory (mapped index pages are the page cache's). Disk: 216 bytes a document for the index, and
288 bytes for each document of a night; 10^8 documents in nights of 10^7 need 30 GB free and 6 GB of memory.
"""

from __future__ import annotations

import argparse
import resource
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


def night(first: int, num: int, bands: int, rows: int) -> Iterator[tuple[np.ndarray, ...]]:
    """By chunk of a night that begins with document `first`: numbers, signatures, and of the first COPIES * CHUNK rows
    of the chunk (none in the very first) the originals and whether copy and original share a band."""
    for start in range(first, first + num, CHUNK):
        chunk = start // CHUNK
        generator = np.random.default_rng([1, chunk])
        signatures, originals, meet = drawn(chunk), np.empty(0, np.int64), np.empty(0, np.int64)
        if chunk:
            older = int(generator.integers(chunk))
            copied = np.arange(int(COPIES * CHUNK), int(2 * COPIES * CHUNK))  # rows that are no copies themselves
            redrawn = generator.random((len(copied), NUM_PERM)) < REDRAWN
            before = drawn(older)[copied]
            signatures[: len(copied)] = np.where(redrawn, signatures[: len(copied)], before)
            originals = older * CHUNK + copied
            same = signatures[: len(copied), : bands * rows] == before[:, : bands * rows]
            meet = same.reshape(-1, bands, rows).all(axis=2).any(axis=1).astype(np.int64)
        yield np.arange(start, start + CHUNK), signatures, originals, meet


class Grown:
    """An index of synthetic documents: bands on disk, components in memory."""

    def __init__(self, folder: Path):
        self.folder, self.num, self.components = folder, 0, np.empty(0, dtype=np.int64)
        self.bands: Path | None = None
        self.joined = 0  # copies that share a band with their original: as many documents are in another's component

    def band(self, band: int) -> tuple[np.ndarray, np.ndarray]:
        """Mapped; the file goes once the mapping does, so that two whole indexes never lie side by side."""
        if self.bands is None:
            return incremental.no_band(band)
        path = self.bands / f"band-{band:03d}.bin"
        mapped = map_band(path, "r")
        path.unlink()
        return mapped

    def add(self, num: int) -> dict[str, float]:
        """One night: CPU seconds by step, and what became of the planted copies."""
        before, self.num = self.num, self.num + num
        spill, target = Path(tempfile.mkdtemp(dir=self.folder)), Path(tempfile.mkdtemp(dir=self.folder))
        spilled, took, pairs = Bands(spill, *bands_and_rows(0.8, NUM_PERM, 0.99)), {"keys": 0.0}, []
        for numbers, signatures, originals, meet in night(before, num, spilled.bands, spilled.rows):
            started = time.process_time()
            spilled.add(numbers, signatures)
            took["keys"] += time.process_time() - started
            pairs.append(np.stack([numbers[: len(originals)], originals, meet], axis=1))
        matched = Match(np.arange(before), np.concatenate([np.arange(before), np.full(num, -1)]))
        started = time.process_time()
        met = incremental.grow_bands(self.band, matched, spilled, self.num, target)
        took["merge"], started = time.process_time() - started, time.process_time()
        chosen = incremental.affected(matched, self.components, met)
        members = np.flatnonzero(chosen)
        self._spill_again(spilled, members[: len(members) - num])
        took["read"], started = time.process_time() - started, time.process_time()
        self.components = incremental.components(matched, self.components, chosen, members, spilled)
        took["components"] = time.process_time() - started
        shutil.rmtree(spill)
        if self.bands is not None:
            self.bands.rmdir()
        self.bands = target
        return {**took, "compared": len(members), **self._check(np.concatenate(pairs))}

    def _check(self, pairs: np.ndarray) -> dict[str, float]:
        """What became of (copy, original, share a band); a copy's original is no copy, so components are stars."""
        met = pairs[pairs[:, 2] == 1]
        self.joined += len(met)
        found = int((self.components[met[:, 0]] == self.components[met[:, 1]]).sum())
        num_components = sum(  # a component is named by its lowest number
            int((self.components[start : start + CHUNK] == np.arange(start, min(start + CHUNK, self.num))).sum())
            for start in range(0, self.num, CHUNK)
        )
        others = num_components - (self.num - self.joined)
        return {"planted": len(pairs), "meet": len(met), "found": found, "others": others}

    def _spill_again(self, spilled: Bands, numbers: np.ndarray) -> None:
        """The band keys of old documents, from their signatures drawn again."""
        for chunk in np.unique(numbers // CHUNK):
            inside = numbers[numbers // CHUNK == chunk]
            for _, signatures, *_ in night(int(chunk) * CHUNK, CHUNK, spilled.bands, spilled.rows):
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
        print("CPU seconds by step; wall seconds since the start; peak memory of the night, and of the process")
        print(HEAD, flush=True)
        started = time.monotonic()
        while grown.num < arguments.documents:
            report(grown, min(arguments.night, arguments.documents - grown.num), memory, started)
        report(grown, arguments.queries, memory, started)


HEAD = (
    "  documents        new   keys  merge   read  comp.    wall   compared   planted      meet     found others"
    "  memory MB  RSS MB  bytes/doc"
)


def report(grown: Grown, num: int, memory: AnonymousMemory, started: float) -> None:
    """One night as a line of the table; raises when a planted copy or a component is not as it must be."""
    memory.peak = 0
    row = grown.add(num)
    size = sum(path.stat().st_size for path in grown.bands.iterdir()) if grown.bands else 0
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3  # with mapped files, which the kernel may take back
    print(
        f"{grown.num:>11,} {num:>10,} {row['keys']:>6.1f} {row['merge']:>6.1f} {row['read']:>6.1f} "
        f"{row['components']:>6.1f} {time.monotonic() - started:>7.0f} {row['compared']:>10,} {row['planted']:>9,} "
        f"{row['meet']:>9,} {row['found']:>9,} {row['others']:>6,} {memory.peak / 1e6:>10,.0f} {rss:>7,.0f} "
        f"{size / grown.num:>10.1f}",
        flush=True,
    )
    if row["found"] != row["meet"] or row["others"]:
        raise AssertionError(
            f"of {row['meet']:,} copies {row['found']:,} are found, {row['others']:,} other components"
        )


if __name__ == "__main__":
    main()
