"""True Jaccard of proposed pairs, spread over workers: each part reads only the row groups its documents are in.

Pairs are sorted by shard and row, then cut into parts by how much text they need, so that a worker holds the shingle
sets of at most `PART_CHARACTERS` characters (8 bytes each) beside one row group.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernels import minhash
from tasks.dedup import sidecars
from tasks.dedup.normalise import fuzzy_form
from tasks.dedup.survivors import Catalogue
from tasks.stage import Part, PartWriter, StageRun
from tasks.store.dataset import Dataset
from tasks.store.filesystem import digest_of

PART_CHARACTERS = 8 << 20
PART_PAIRS = 5_000


def true_jaccard(run: StageRun, documents: Catalogue, pairs: np.ndarray, number: int) -> np.ndarray:
    """float64 [M] for pairs of row numbers int64 [M, 2]; `number` tells the rounds of one stage apart."""
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))  # row numbers ascend by shard
    chunks = list(_chunks(documents, pairs, order))
    parts = [_part(run, documents, pairs[chunk], f"pairs-{number:03d}-{i:05d}") for i, chunk in enumerate(chunks)]
    values = np.empty(len(pairs), dtype=np.float64)
    for chunk, result in zip(chunks, run.parts(compare, parts) if parts else [], strict=True):
        values[chunk] = result.result["jaccard"]
    return values


def _chunks(documents: Catalogue, pairs: np.ndarray, order: np.ndarray) -> Iterator[np.ndarray]:
    """Runs of `order` whose distinct documents stay within PART_CHARACTERS."""
    start, seen, size = 0, set[int](), 0
    for position, index in enumerate(order):
        new = {int(d) for d in pairs[index]} - seen
        added = sum(int(documents.lengths[d]) for d in new)
        if position > start and (size + added > PART_CHARACTERS or position - start >= PART_PAIRS):
            yield order[start:position]
            start, seen, size = position, set(), 0
            new = {int(d) for d in pairs[index]}
            added = sum(int(documents.lengths[d]) for d in new)
        seen |= new
        size += added
    if start < len(order):
        yield order[start:]


def _part(run: StageRun, documents: Catalogue, pairs: np.ndarray, name: str) -> Part:
    """The comparison of some pairs; the documents are named by shard and row."""
    reads, positions, contents = sidecars.reads_of(run, documents, pairs)
    settings = {"shingle_size": run.config.shingle_size}
    payload = {"dataset": run.input.reference(), "reads": reads, "pairs": positions, **settings}
    identity = (*contents, digest_of([reads, positions]))
    return Part(name=name, step="verify", inputs=identity, payload=payload, settings=settings)


def compare(payload: dict, config: object, writer: PartWriter) -> dict[str, list[float]]:
    """Step "verify": the true Jaccard of each pair of a part."""
    dataset = Dataset.load(payload["dataset"])
    sets = [
        minhash.shingle_set(fuzzy_form(text), payload["shingle_size"])
        for shard, rows in payload["reads"]
        for _, text in sidecars.texts_of(dataset, shard, rows)
    ]
    return {"jaccard": [minhash.jaccard(sets[left], sets[right]) for left, right in payload["pairs"]]}
