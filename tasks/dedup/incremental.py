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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasks.dedup.index import Index, as_digests, as_ids, map_band
from tasks.dedup.lsh import Bands, tied
from tasks.dedup.survivors import Catalogue

CHUNK = 1 << 20  # documents of a band that are merged at once: 12 MiB and the sort's copies


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
        keys, numbers = spilled.sorted(band)
        old = band_of(band)
        at = np.searchsorted(old[0], keys)
        at = at[at < len(old[0])] if len(at) else at
        hit = old[0][at] == keys[: len(at)]  # keys ascend, so what lies beyond the end is at the end
        met.append(np.unique(old[1][at[hit]]).astype(np.int64))
        target = map_band(folder / f"band-{band:03d}.bin", "w+", num_comparable)
        start = 0
        for merged_keys, merged_numbers in merged(old[0], old[1], matched.places, keys, numbers):
            stop = start + len(merged_keys)
            target[0][start:stop], target[1][start:stop] = merged_keys, merged_numbers
            start = stop
        if start != num_comparable:
            raise AssertionError(f"band {band} holds {start:,} documents, not {num_comparable:,}")
    return np.unique(np.concatenate(met))


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
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    labels = np.arange(len(members))  # each names a component by the lowest place in it
    for band in range(spilled.bands):
        keys, numbers = spilled.sorted(band)
        places = tied(keys)
        first = np.ones(len(places), dtype=bool)
        first[1:] = keys[places[1:]] != keys[places[:-1]]
        of_bucket = labels[np.searchsorted(members, numbers[places])]
        leader = of_bucket[np.maximum.accumulate(np.where(first, np.arange(len(places)), 0))]
        apart = of_bucket != leader
        if not apart.any():
            continue
        nodes, edges = np.unique(np.stack([of_bucket[apart], leader[apart]]), return_inverse=True)
        edges = edges.reshape(2, -1)
        graph = coo_array((np.ones(edges.shape[1], dtype=bool), (edges[0], edges[1])), shape=(len(nodes), len(nodes)))
        _, joined = connected_components(graph, directed=False)
        _, named = np.unique(joined, return_index=True)  # nodes ascend, so the first of a component is its lowest
        names = np.arange(len(members))
        names[nodes] = nodes[named[joined]]
        labels = names[labels]
    return members[labels]


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
