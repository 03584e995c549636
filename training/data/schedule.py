"""Which component the n-th sequence of a run comes from, and which of that component's sequences it is.

Sequences go in blocks of 256. How many of a block each component gets is what the shares promise up to the block's
end, less what it had: the counts of a phase never leave its schedule by a whole sequence per component, whatever the
ramp. Within a block the components are shuffled by a hash of the block. Each phase and each change of the mixture
begins a row of blocks of its own, so nothing before it moves.

The counts at the block ends are tabled as far as a run has got (16 bytes x components a block; 0.5 s for the 190,000
blocks of 100 B tokens at 2,048), and with them any n is found at once, in both directions.

in    DataConfig, global batch size and sequence length
out   n <-> (component, cursor: how many sequences of that component came before)
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from training.data.config import DataConfig, PhaseConfig, Shares
from training.permutation import mix_many

BLOCK = 256  # sequences; the shares of any stretch are off by at most the spread of one block at either end
GROW = 1024  # blocks by which the table grows at least


@dataclass(frozen=True, slots=True)
class Segment:
    """Shares that go from `start` to `end` in a straight line over `length` sequences."""

    length: float
    start: np.ndarray  # float64[C]
    end: np.ndarray

    def expected(self, done: np.ndarray) -> np.ndarray:
        """float64[K, C]: sequences of each component in the first `done` (float64[K]) of this segment."""
        done = np.clip(done, 0.0, self.length)[:, None]
        if math.isinf(self.length):
            return self.start * done
        return self.start * done + (self.end - self.start) * (done * done / (2 * self.length))


def segments(
    phases: Sequence[PhaseConfig], names: Sequence[str], global_batch_size: int, seq_len: int
) -> list[Segment]:
    """The phases in sequences; the shares at the end of the last one stay for ever."""

    def vector(shares: Shares) -> np.ndarray:
        return np.array([shares.get(name, 0.0) for name in names], dtype=np.float64)

    rows = []
    for phase in phases:
        start = vector(phase.shares)
        end = vector(phase.end_shares) if phase.end_shares else start
        if length := phase.steps * global_batch_size or -(-phase.tokens // seq_len):
            rows.append(Segment(float(length), start, end))
    return [*rows, Segment(math.inf, end, end)]


class Era:
    """One segment of a mixture from sample `first` on, when each component had `before` sequences."""

    def __init__(self, first: int, before: np.ndarray, segment: Segment, key: bytes):
        self.first, self.before, self.segment = first, before, segment
        self.key = int.from_bytes(hashlib.blake2b(key + first.to_bytes(8, "little"), digest_size=8).digest(), "little")
        self.num_blocks = 0
        self.table = np.zeros((1, len(before)), np.int64)  # counts at the block ends, of this era alone
        self.plan = functools.lru_cache(maxsize=64)(self._make_plan)

    def reach(self, num_blocks: int) -> None:
        """Extend the table to at least so many blocks; it doubles. The last block of a segment may be short."""
        if num_blocks <= self.num_blocks:
            return
        stop = max(num_blocks, 2 * self.num_blocks, 16)
        edges = np.minimum(np.arange(self.num_blocks, stop + 1, dtype=np.float64) * BLOCK, self.segment.length)
        counts, rows = self.table[-1].tolist(), []
        for size, promised in zip(np.diff(edges).tolist(), self.segment.expected(edges[1:]).tolist(), strict=True):
            counts = [n + more for n, more in zip(counts, apportion(int(size), promised, counts), strict=True)]
            rows.append(counts)
        self.table = np.concatenate([self.table, np.array(rows, np.int64)])
        self.num_blocks = stop

    def _make_plan(self, block: int) -> tuple[np.ndarray, np.ndarray]:
        """(component, cursor), int64 each, of the sequences of a block."""
        self.reach(block + 1)
        begin, end = self.table[block], self.table[block + 1]
        labels = np.repeat(np.arange(len(begin)), end - begin)
        order = mix_many(np.arange(len(labels), dtype=np.uint64) ^ mix_many(np.array([self.key ^ block], np.uint64)))
        components = labels[np.argsort(order, kind="stable")]
        cursors = np.empty(len(labels), np.int64)
        for c in range(len(begin)):
            here = components == c
            cursors[here] = self.before[c] + begin[c] + np.arange(np.count_nonzero(here))
        return components, cursors

    def counts(self, index: int) -> np.ndarray:
        """int64[C]: sequences of each component before sample `index` ≥ first."""
        block, rest = divmod(index - self.first, BLOCK)
        self.reach(block + 1)
        inside = np.bincount(self.plan(block)[0][:rest], minlength=len(self.before))
        return self.before + self.table[block] + inside


def apportion(size: int, promised: Sequence[float], counts: Sequence[int]) -> list[int]:
    """How the next `size` sequences are divided: by what each component lacks, whole numbers by largest remainder."""
    lacks = [p - n for p, n in zip(promised, counts, strict=True)]
    given = [max(0, math.floor(lack)) for lack in lacks]
    left = size - sum(given)
    owed = sorted(range(len(given)), key=lambda c: (given[c] - lacks[c], c))
    for c in owed[: max(left, 0)]:
        given[c] += 1
    for _ in range(-left):  # components that are ahead get none, so the others may lack more than a block holds
        given[min((c for c in owed if given[c]), key=lambda c: lacks[c] - given[c])] -= 1
    return given


class Schedule:
    """The whole run's: eras of a mixture, one after the other."""

    def __init__(self, config: DataConfig, *, global_batch_size: int, seq_len: int, key: bytes):
        self.names = tuple(config.components) or ("all",)
        self.eras: list[Era] = []
        if not config.components:
            return
        history = [(0, config.initial_phases), *((c.from_step * global_batch_size, c.phases) for c in config.changes)]
        stops = [*(first for first, _ in history[1:]), math.inf]
        for (begin, phases), stop in zip(history, stops, strict=True):
            first: float = begin
            for segment in segments(phases, self.names, global_batch_size, seq_len):
                if first < stop:
                    before = self.counts(int(first)) if self.eras else np.zeros(len(self.names), np.int64)
                    self.eras.append(Era(int(first), before, segment, key))
                first += segment.length
        self.firsts = np.array([era.first for era in self.eras])

    def locate(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(component, cursor), int64 each, of the samples `indices` (int64, ≥ 0)."""
        if not self.eras:
            return np.zeros(len(indices), np.int64), indices
        components, cursors = np.empty(len(indices), np.int64), np.empty(len(indices), np.int64)
        for where, era, block in self._blocks(indices):
            places = indices[where] - era.first - block * BLOCK
            plan = era.plan(block)
            components[where], cursors[where] = plan[0][places], plan[1][places]
        return components, cursors

    def _blocks(self, indices: np.ndarray) -> Iterator[tuple[np.ndarray, Era, int]]:
        """Which of `indices` fall in each (era, block)."""
        eras = np.searchsorted(self.firsts, indices, side="right") - 1
        for e in np.unique(eras).tolist():
            inside = np.flatnonzero(eras == e)
            blocks = (indices[inside] - self.eras[e].first) // BLOCK
            for block in np.unique(blocks).tolist():
                yield inside[blocks == block], self.eras[e], block

    def counts(self, index: int) -> np.ndarray:
        """int64[C]: sequences of each component before sample `index`."""
        if not self.eras:
            return np.array([index], np.int64)
        return next(era for era in reversed(self.eras) if era.first <= index).counts(index)

    def index_of(self, component: int, cursor: int, stop: int) -> int | None:
        """The sample that holds this cursor of the component, if it is one of the first `stop`."""
        if not self.eras:
            return cursor if cursor < stop else None
        if cursor >= self.counts(stop)[component]:
            return None
        era = next(era for era in reversed(self.eras) if era.before[component] <= cursor and era.first < stop)
        era.reach(-(-(stop - era.first) // BLOCK))
        block = int(np.searchsorted(era.table[:, component], cursor - era.before[component], side="right")) - 1
        components, cursors = era.plan(block)
        place = int(np.flatnonzero((components == component) & (cursors == cursor))[0])
        return era.first + block * BLOCK + place

    def same_until(self, other: Schedule, stop: int) -> bool:
        """Whether both name the same component and cursor for every sample before `stop`."""
        ours, theirs = ([e for e in s.eras if e.first < stop] for s in (self, other))
        if self.names != other.names or len(ours) != len(theirs):
            return False
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            end = ours[i + 1].first if i + 1 < len(ours) else stop
            blocks = -(-(end - a.first) // BLOCK)
            a.reach(blocks)
            b.reach(blocks)
            if a.key != b.key or not np.array_equal(a.table[: blocks + 1], b.table[: blocks + 1]):
                return False
        return True
