"""Which documents a run must compare anew, given the index of a run before; for all others that run's word stands.

Buckets connect documents to components, and what becomes of a document depends on its component alone: on who is in
its buckets, how they rank, and how alike they are. So a run compares the components that a new document enters or that
a document has left, and takes over every decision in the others. The result is that of a full run, byte for byte,
given the same survivor priority; a longer new copy displaces an old survivor, as it would have in the full run.

Work: new documents are looked up in the old bands by binary search; each band is copied in one sequential pass into
the next index. A bucket of many documents (a page template that two million pages share) makes one large component,
which is walked again whenever a new document enters it; its known pairs are not read again.

A document is the same as before when its id and the digest of its text are: by shard where a shard is unchanged, by
row where a shard changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasks.dedup.index import Index, as_digests, as_ids
from tasks.dedup.lsh import Bands, sort_unique, tied
from tasks.dedup.survivors import Catalogue

CHUNK = 1 << 16  # documents of a band that are merged at once
NO_KEYS, NO_NUMBERS = np.empty(0, np.uint64), np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Match:
    """How the documents of an index and those of a run correspond."""

    places: np.ndarray  # int64 [documents of the index]: number in the run, -1 when gone
    origins: np.ndarray  # int64 [documents of the run]: number in the index, -1 when new

    @property
    def new(self) -> np.ndarray:
        return np.flatnonzero(self.origins < 0)

    @property
    def gone(self) -> np.ndarray:
        return np.flatnonzero(self.places < 0)


def match(index: Index | None, shards: list[tuple[str, int]], documents: Catalogue, digests: np.ndarray) -> Match:
    """Match documents; `digests` uint64 [N, 2] of their texts, `shards` the (SHA-256, rows) of the run."""
    places = np.full(len(index) if index else 0, -1, dtype=np.int64)
    origins = np.full(len(documents), -1, dtype=np.int64)
    if index is None:
        return Match(places, origins)
    starts, start = dict[tuple[str, int], int](), 0
    for shard in index.shards:
        starts[shard], start = start, start + shard[1]
    start = 0
    for shard in shards:
        if (old := starts.pop(shard, None)) is not None:
            places[old : old + shard[1]] = np.arange(start, start + shard[1])
            origins[start : start + shard[1]] = np.arange(old, old + shard[1])
        start += shard[1]
    gone, new = np.flatnonzero(places < 0), np.flatnonzero(origins < 0)
    if len(gone) and len(new):
        ids = as_ids(index.column("documents", "id"))[gone]
        before = as_digests(index.column("documents", "digest"))[gone]
        _, left, right = np.intersect1d(ids, documents.ids[new], return_indices=True)
        same = (before[left] == digests[new[right]]).all(axis=1)
        places[gone[left[same]]], origins[new[right[same]]] = new[right[same]], gone[left[same]]
    return Match(places, origins)


def no_band(band: int) -> tuple[np.ndarray, np.ndarray]:
    """The bands of no index."""
    return np.empty(0, np.uint64), np.empty(0, np.uint32)


def grow_bands(
    band_of: Callable[[int], tuple[np.ndarray, np.ndarray]],
    matched: Match,
    spilled: Bands,
    num_comparable: int,
    folder: Path,
) -> np.ndarray:
    """Merge the spilled bands of the new documents into the index's (`band_of`); the files go to `folder`, one a band.

    Returns the numbers, in the index, of documents that share a bucket with a new one: of each such bucket, the first.
    """
    met = [np.empty(0, dtype=np.int64)]
    for band in range(spilled.bands):
        old, path = band_of(band), folder / f"band-{band:03d}.bin"
        start, begin = 0, 0
        with open(path, "wb") as key_file, open(path, "r+b") as number_file:
            number_file.seek(8 * num_comparable)
            for keys, numbers in itertools.chain(spilled.sorted(band), [(NO_KEYS, NO_NUMBERS)]):
                end = int(np.searchsorted(old[0], keys[-1], side="right")) if len(keys) else len(old[0])
                met.append(_met(old[0][begin:end], old[1][begin:end], keys))
                parts = merged(old[0][begin:end], old[1][begin:end], matched.places, keys, numbers)
                for merged_keys, merged_numbers in parts:
                    key_file.write(np.ascontiguousarray(merged_keys, "<u8").data)
                    number_file.write(merged_numbers.astype("<u4").data)
                    start += len(merged_keys)
                begin = end
        if start != num_comparable:
            raise AssertionError(f"band {band} holds {start:,} documents, not {num_comparable:,}")
    return sort_unique(np.concatenate(met))


def _met(old_keys: np.ndarray, old_numbers: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The first old document of each bucket that one of `keys` (ascending) falls in."""
    at = np.searchsorted(old_keys, keys)
    at = at[at < len(old_keys)]
    hit = old_keys[at] == keys[: len(at)]  # keys ascend, so what lies beyond the end is at the end
    return sort_unique(old_numbers[at[hit]].astype(np.int64))


def merged(
    old_keys: np.ndarray, old_numbers: np.ndarray, places: np.ndarray, keys: np.ndarray, numbers: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Old and new entries of a band by key and number, in chunks that cut no bucket; the gone are left out."""
    begin, start = 0, 0
    while begin < len(old_keys) or start < len(keys):
        end, stop = len(old_keys), len(keys)
        if begin + CHUNK < end:
            limit = old_keys[begin + CHUNK]
            end, stop = int(np.searchsorted(old_keys, limit)), int(np.searchsorted(keys, limit))
            if end == begin:  # one bucket larger than a chunk
                end = int(np.searchsorted(old_keys, limit, side="right"))
                stop = int(np.searchsorted(keys, limit, side="right"))
        moved = places[old_numbers[begin:end]]
        stay = moved >= 0
        yield _merge_two(old_keys[begin:end][stay], moved[stay], keys[start:stop], numbers[start:stop])
        begin, start = end, stop


def _merge_two(
    old_keys: np.ndarray, old_numbers: np.ndarray, keys: np.ndarray, numbers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Two ascending lists of keys as one; numbers ascend where keys are equal."""
    if not len(old_keys):
        return keys, numbers
    new = np.zeros(len(old_keys) + len(keys), dtype=bool)
    new[np.searchsorted(old_keys, keys) + np.arange(len(keys))] = True
    both_keys, both_numbers = np.empty(len(new), dtype=np.uint64), np.empty(len(new), dtype=np.int64)
    both_keys[new], both_numbers[new] = keys, numbers
    both_keys[~new], both_numbers[~new] = old_keys, old_numbers
    places = tied(both_keys)
    both_numbers[places] = both_numbers[places][np.lexsort((both_numbers[places], both_keys[places]))]
    return both_keys, both_numbers


def affected(matched: Match, components: np.ndarray, met: np.ndarray) -> np.ndarray:
    """bool [N]: the new documents, and the old ones of each component that one entered or left.

    `components` int64 [documents of the index], `met` numbers in the index that share a bucket with a new document.
    """
    touched = np.zeros(len(components), dtype=bool)
    touched[components[met]] = True
    touched[components[matched.gone]] = True
    chosen = matched.origins < 0
    again = matched.places[touched[components]]
    chosen[again[again >= 0]] = True
    return chosen


def connect(spilled: Bands, members: np.ndarray) -> np.ndarray:
    """int64 [len(members)]: the component of each of `members` (ascending numbers), named by its lowest number."""
    shared = np.zeros(int(members[-1]) + 1 if len(members) else 0, dtype=bool)
    for band in range(spilled.bands):
        for _, numbers in spilled.shared(band):
            shared[numbers] = True
    nodes = np.flatnonzero(shared)  # who shares a bucket with another; all others are components of their own
    labels = np.arange(len(nodes))  # each names a component by the lowest place in it
    place = np.cumsum(shared, dtype=np.uint32) - 1  # of a number in `nodes`
    for band in range(spilled.bands):
        for keys, numbers in spilled.sorted(band):
            labels = _joined(labels, keys, place[numbers])
    named = members.copy()
    named[np.searchsorted(members, nodes)] = nodes[labels]
    return named


def _joined(labels: np.ndarray, keys: np.ndarray, places: np.ndarray) -> np.ndarray:
    """`labels` once the buckets of ascending `keys` have joined what they hold; `places` of the entries in `labels`."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    first = np.ones(len(keys), dtype=bool)
    first[1:] = keys[1:] != keys[:-1]
    of_bucket = labels[places]
    leader = of_bucket[np.maximum.accumulate(np.where(first, np.arange(len(places)), 0))]
    apart = of_bucket != leader
    if not apart.any():
        return labels
    ends = np.stack([of_bucket[apart], leader[apart]])
    nodes = sort_unique(ends.ravel())
    edges = np.searchsorted(nodes, ends)
    graph = coo_array((np.ones(edges.shape[1], dtype=bool), (edges[0], edges[1])), shape=(len(nodes), len(nodes)))
    _, joined = connected_components(graph, directed=False)
    _, named = np.unique(joined, return_index=True)  # nodes ascend, so the first of a component is its lowest
    names = np.arange(len(labels))
    names[nodes] = nodes[named[joined]]
    return names[labels]


def components(
    matched: Match, before: np.ndarray, chosen: np.ndarray, members: np.ndarray, spilled: Bands
) -> np.ndarray:
    """int64 [N]: the component of each document of the run, from the index's (`before`) where nothing changed, else
    from the spilled buckets of `members`."""
    labels = np.arange(len(chosen))
    same = np.flatnonzero(~chosen)
    labels[same] = matched.places[before[matched.origins[same]]]
    labels[members] = connect(spilled, members)
    lowest = np.arange(len(chosen))
    np.minimum.at(lowest, labels, np.arange(len(chosen)))  # numbers change from run to run
    return lowest[labels]
