"""True Jaccard of proposed pairs, spread over workers: each part reads only the row groups its documents are in.

Pairs are sorted by shard and row, then cut into parts by how much text they need, so that a worker holds the shingle
sets of at most `PART_CHARACTERS` characters (8 bytes each) beside one row group.
"""

from __future__ import annotations

import numpy as np

from kernels import minhash
from tasks.dedup import sidecars
from tasks.dedup.normalise import fuzzy_codes
from tasks.dedup.survivors import Catalogue
from tasks.stage import Part, PartWriter, StageRun
from tasks.store.dataset import Dataset
from tasks.store.filesystem import digest_of

PART_CHARACTERS = 4 << 20
PART_PAIRS = 5_000


def true_jaccard(run: StageRun, documents: Catalogue, pairs: np.ndarray, number: int) -> np.ndarray:
    """float64 [M] for pairs of row numbers int64 [M, 2]; `number` tells the rounds of one stage apart."""
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))  # row numbers ascend by shard
    chunks = np.split(order, _cuts(documents.lengths, pairs[order]))
    parts = [_part(run, documents, pairs[chunk], f"pairs-{number:03d}-{i:05d}") for i, chunk in enumerate(chunks)]
    values = np.empty(len(pairs), dtype=np.float64)
    for chunk, result in zip(chunks, run.parts(compare, parts) if len(pairs) else [], strict=False):
        values[chunk] = result.result["jaccard"]
    return values


def _cuts(lengths: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Where to cut sorted pairs (int64 [M, 2]) so that each piece needs about PART_CHARACTERS of text at most."""
    cost = lengths[pairs[:, 1]] + np.where(pairs[:, 0] == np.roll(pairs[:, 0], 1), 0, lengths[pairs[:, 0]])
    piece = np.maximum(np.cumsum(cost) // PART_CHARACTERS, np.arange(len(pairs)) // PART_PAIRS)
    return np.flatnonzero(np.diff(piece)) + 1


def _part(run: StageRun, documents: Catalogue, pairs: np.ndarray, name: str) -> Part:
    """The comparison of some pairs; the documents are named by shard and row."""
    reads, positions, contents = sidecars.reads_of(run, documents, pairs)
    settings = {"shingle_size": run.config.shingle_size}
    payload = {"dataset": run.input.reference(), "reads": reads, "pairs": positions, **settings}
    identity = (*contents, digest_of([reads, positions]))
    return Part(name=name, step="verify", inputs=identity, payload=payload, settings=settings)


def compare(payload: dict, config: object, writer: PartWriter) -> dict[str, list[float]]:
    """Step "verify": the true Jaccard of each pair of a part."""
    dataset, sets = Dataset.load(payload["dataset"]), list[np.ndarray]()
    for shard, rows in payload["reads"]:
        for _, texts in sidecars.columns_of(dataset, shard, rows):
            sets += minhash.shingle_sets(*fuzzy_codes(texts), payload["shingle_size"])
    return {"jaccard": [minhash.jaccard(sets[left], sets[right]) for left, right in payload["pairs"]]}
