"""True Jaccard of proposed pairs, spread over workers, each text read once.

    sets      a part per shard: the shingle sets of its documents that are in a pair, in a file `sets/<part>.u64`
              (uint64, little-endian, ascending in a set), in the order of the parts that will want them
    verify    a part per some thousand pairs: reads one stretch of each of those files, and compares

Pairs are cut into parts by how much text they need, so that a worker holds the sets of at most `PART_CHARACTERS`
characters (8 bytes each), or those of one shard. The files of sets go when the pairs are compared.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels import minhash
from tasks.dedup import sidecars
from tasks.dedup.lsh import sort_unique
from tasks.dedup.normalise import fuzzy_codes
from tasks.dedup.survivors import Catalogue
from tasks.stage import Part, PartResult, PartWriter, StageRun
from tasks.store.dataset import Dataset

PART_CHARACTERS = 4 << 20
PART_PAIRS = 20_000


def true_jaccard(run: StageRun, documents: Catalogue, pairs: np.ndarray, number: int) -> np.ndarray:
    """float64 [M] for pairs of row numbers int64 [M, 2]; `number` tells the rounds of one stage apart."""
    values = np.empty(len(pairs), dtype=np.float64)
    if not len(pairs):
        return values
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))  # row numbers ascend by shard
    chunks = np.split(order, _cuts(documents.lengths, pairs[order]))
    wanted = Wanted.by([sort_unique(pairs[chunk].ravel()) for chunk in chunks], documents)
    made = run.parts(write_sets, _set_parts(run, wanted, number))
    parts = _compare_parts(run, wanted, made, [pairs[chunk] for chunk in chunks], number)
    for chunk, result in zip(chunks, run.parts(compare, parts), strict=True):
        values[chunk] = np.frombuffer(bytes.fromhex(result.result["jaccard"]), "<f8")
    for entry in (entry for result in made for entry in result.files):
        del run.output.files[entry.name]
        run.store.remove(f"{run.output.folder}/{entry.name}")
    return values


def _cuts(lengths: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Where to cut sorted pairs (int64 [M, 2]) so that each piece needs about PART_CHARACTERS of text at most."""
    again = np.zeros(len(pairs), dtype=bool)
    again[1:] = pairs[1:, 0] == pairs[:-1, 0]
    cost = lengths[pairs[:, 1]] + np.where(again, 0, lengths[pairs[:, 0]])
    piece = np.maximum(np.cumsum(cost) // PART_CHARACTERS, np.arange(len(pairs)) // PART_PAIRS)
    return np.flatnonzero(np.diff(piece)) + 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which documents each part wants, by the shard they are in: rows sorted by shard, part, row."""

    members: list[np.ndarray]  # of each part, ascending numbers
    shards: np.ndarray  # the shards that hold any, ascending places
    bounds: np.ndarray  # int64 [len(shards), parts + 1]: where in `rows` those of each shard and part begin
    rows: np.ndarray  # uint32, within the shard

    @classmethod
    def by(cls, members: list[np.ndarray], documents: Catalogue) -> Wanted:
        numbers, part = np.concatenate(members), np.repeat(np.arange(len(members)), [len(m) for m in members])
        place = documents.shard_of(numbers)
        order = np.argsort(place, kind="stable")
        shards, inside = np.unique(place, return_inverse=True)
        counts = np.bincount(inside * len(members) + part, minlength=len(shards) * len(members))
        ends = np.cumsum(counts).reshape(len(shards), len(members))
        bounds = np.concatenate([(ends[:, :1] - counts.reshape(ends.shape)[:, :1]), ends], axis=1)
        return cls(members, shards, bounds, (numbers - documents.starts[place])[order].astype(np.uint32))


def _set_parts(run: StageRun, wanted: Wanted, number: int) -> list[Part]:
    reference, settings, parts = run.input.reference(), _settings(run), []
    for place, bounds in zip(wanted.shards.tolist(), wanted.bounds, strict=True):
        shard, rows = run.input.shards[place], wanted.rows[bounds[0] : bounds[-1]]
        payload = {"dataset": reference, "shard": shard.name, "rows": rows, **settings}
        inputs = (shard.sha256, hashlib.sha256(rows.tobytes()).hexdigest())
        name = f"sets-{number:03d}-{shard.stem}"
        parts.append(Part(name=name, step="sets", inputs=inputs, payload=payload, settings=settings))
    return parts


def _settings(run: StageRun) -> dict[str, Any]:
    return {"shingle_size": run.config.shingle_size}


def write_sets(payload: dict, config: object, writer: PartWriter) -> dict[str, str]:
    """Step "sets": the shingle sets of some rows of a shard in one file, and their sizes in the order of `rows`."""
    rows, size = payload["rows"], payload["shingle_size"]
    dataset, of_row = Dataset.load(payload["dataset"]), dict[int, np.ndarray]()
    for some, texts in sidecars.columns_of(dataset, payload["shard"], rows):
        of_row.update(zip(some.tolist(), minhash.shingle_sets(*fuzzy_codes(texts), size), strict=True))
    sets = [of_row[row] for row in rows.tolist()]
    writer.file(f"sets/{writer.name}.u64", np.concatenate(sets).astype("<u8", copy=False).tobytes(), role="sidecar")
    return {"sizes": np.array([len(found) for found in sets], "<u4").tobytes().hex()}


def _compare_parts(
    run: StageRun, wanted: Wanted, made: list[PartResult], pairs: list[np.ndarray], number: int
) -> list[Part]:
    sizes = np.concatenate([np.frombuffer(bytes.fromhex(result.result["sizes"]), "<u4") for result in made])
    ends = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    shards, settings, parts = run.input.shards, _settings(run), []
    for which, (members, asked) in enumerate(zip(wanted.members, pairs, strict=True)):
        reads, identity, found = [], hashlib.sha256(), list[np.ndarray]()
        for place, result, bounds in zip(wanted.shards.tolist(), made, wanted.bounds, strict=True):
            low, high = bounds[which], bounds[which + 1]
            if low < high:
                reads.append((result.files[0].name, int(8 * (ends[low] - ends[bounds[0]]))))
                found.append(sizes[low:high])
                identity.update(shards[place].sha256.encode() + wanted.rows[low:high].tobytes())
        positions = np.searchsorted(members, asked).astype(np.uint32)
        identity.update(positions.tobytes())
        payload = {"reads": reads, "sizes": found, "pairs": positions}
        name = f"pairs-{number:03d}-{which:05d}"
        parts.append(Part(name=name, step="verify", inputs=(identity.hexdigest(),), payload=payload, settings=settings))
    return parts


def compare(payload: dict, config: object, writer: PartWriter) -> dict[str, str]:
    """Step "verify": the true Jaccard of each pair of a part, float64 in hexadecimal."""
    sets = []
    for (name, start), sizes in zip(payload["reads"], payload["sizes"], strict=True):
        with writer.store.open(f"{writer.folder}/{name}") as file:
            file.seek(start)
            sets.append(np.frombuffer(file.read(8 * int(sizes.sum())), "<u8"))
    offsets = np.concatenate(([0], np.cumsum(np.concatenate(payload["sizes"]), dtype=np.int64)))
    values = minhash.jaccard_pairs(np.concatenate(sets), offsets, payload["pairs"].astype(np.int64))
    return {"jaccard": values.astype("<f8").tobytes().hex()}
