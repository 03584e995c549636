"""Pairs of which both stayed, just below the limit: of the duplicates that a stage missed, most are among these.

    minhash_dedup    who met in a bucket and has a true Jaccard below `threshold` by at most `WIDTH`: the index knows
    semantic_dedup   what the stage left in `near/`: pairs that its rules kept, and the nearest below the threshold

Each document is named once, with its nearest partner; it is the one of the two that would have gone. What no bucket or
search brought together is not here, so the share of these that are duplicates is no miss rate of the whole.

Trade-off: of a bucket's members each is paired with the `MAX_STEP` next to it; the buckets that reach further are those
of mass-produced pages, where a sample shows no more. 10^6 documents take some seconds.

in    a finished Dataset of minhash_dedup or semantic_dedup
out   NearPair by document id
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from tasks.dedup import index, survivors
from tasks.dedup.semantic_pairs import NEAR_FOLDER
from tasks.store.dataset import Dataset

REASONS = {"minhash_dedup": "minhash_duplicate", "semantic_dedup": "semantic_duplicate"}
WIDTH = 0.1
MAX_STEP = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class NearPair:
    """A document that stayed, and the nearest of those that it is almost a duplicate of."""

    id: str
    other: str
    similarity: float
    facts: dict[str, Any] = field(default_factory=dict)  # further measures of the pair


def near_pairs(dataset: Dataset) -> dict[str, NearPair]:
    """Document id -> its nearest pair; empty for a stage that leaves none."""
    if dataset.stage == "semantic_dedup":
        pairs = _semantic(dataset)
    elif any(entry.name == index.HEADER for entry in dataset.manifest.files):
        pairs = _minhash(dataset)
    else:
        return {}
    nearest: dict[str, NearPair] = {}
    for pair in pairs:
        if pair.id not in nearest or _order(pair) < _order(nearest[pair.id]):
            nearest[pair.id] = pair
    return nearest


def _order(pair: NearPair) -> tuple[float, str]:
    return -pair.similarity, pair.other


def _semantic(dataset: Dataset) -> Iterator[NearPair]:
    for entry in dataset.files("sidecar"):
        if entry.name.startswith(f"{NEAR_FOLDER}/"):
            for batch in dataset.batches(entry):
                for row in batch.to_pylist():
                    facts = {name: row[name] for name in ("encoder", "verdict", "overlap") if row[name] is not None}
                    yield NearPair(id=row["id"], other=row["other"], similarity=row["similarity"], facts=facts)


def _minhash(dataset: Dataset) -> Iterator[NearPair]:
    with dataset.open(index.HEADER) as file:
        found = index.Index(dataset, json.loads(file.read()))
    documents, threshold = _catalogue(dataset), dataset.manifest.config["threshold"]
    digests, known = index.as_digests(found.column("documents", "digest")), found.pairs()
    gone = np.zeros(len(documents), dtype=bool)
    gone[found.column("decisions", "document").to_numpy()] = True
    rank = documents.rank(dataset.manifest.config["source_priority"])
    bands = sum(entry.name.startswith(f"{index.FOLDER}/band-") for entry in dataset.manifest.files)
    seen = np.empty((0, 2), dtype=np.int64)
    for band in range(bands):
        pairs = np.unique(_met(*found.band(band)), axis=0)
        pairs = pairs[~gone[pairs].any(axis=1)]
        jaccard = known.find(index.pair_keys(digests[pairs[:, 0]], digests[pairs[:, 1]]))
        near = (jaccard >= threshold - WIDTH) & (jaccard < threshold)  # NaN, never read, is not
        seen = np.unique(np.concatenate([seen, pairs[near]]), axis=0)
    jaccard = known.find(index.pair_keys(digests[seen[:, 0]], digests[seen[:, 1]]))
    for pair, similarity in zip(seen, jaccard.tolist(), strict=True):
        better, worse = sorted(pair.tolist(), key=lambda number: rank[number])
        yield NearPair(id=documents.id(worse), other=documents.id(better), similarity=similarity)


def _met(keys: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """int64 [M, 2], ascending in a row: documents that share a key, up to MAX_STEP places apart."""
    found = [np.empty((0, 2), dtype=np.int64)]
    for step in range(1, MAX_STEP + 1):
        same = np.flatnonzero(keys[step:] == keys[:-step])
        if not len(same):
            break
        found.append(np.stack([numbers[same], numbers[same + step]], axis=1).astype(np.int64))
    return np.sort(np.concatenate(found), axis=1)


def _catalogue(dataset: Dataset) -> survivors.Catalogue:
    """The documents that the stage was given, numbered as in its index: by shard of its input and row."""
    entries = [entry for entry in dataset.files("sidecar") if re.fullmatch(r"signatures/[^/]+\.parquet", entry.name)]
    tables = []
    for entry in entries:
        with dataset.open(entry.name) as file:
            tables.append(pq.read_table(file, columns=["id", "source", "length"]))
    return survivors.catalogue([entry.stem for entry in entries], tables)
