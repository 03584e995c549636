"""Drop documents whose text another document already holds, letter for letter apart from layout and Unicode form.

A 128-bit hash of `exact_form(text)` decides; among 10^10 documents two different texts share one with p < 10^-18.
Documents without any visible character hash alike, and all but one of them go: they hold nothing to keep.
There is no guard against a source's loss here, as equality is no estimate: a mirror of another source may go whole.

in    Document
out   Document            one per group of equal texts; the rest is `exact_duplicate` with the id kept
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.dedup import sidecars, survivors
from tasks.dedup.normalise import exact_form
from tasks.document import Document, Outcome
from tasks.stage import PartWriter, Stage, StageRun

REASON = "exact_duplicate"
SCHEMA = pa.schema([("id", pa.string()), ("source", pa.string()), ("length", pa.int64()), ("hash", pa.binary(16))])


@dataclass(frozen=True, kw_only=True, slots=True)
class ExactConfig:
    source_priority: dict[str, int] = field(default_factory=dict)  # higher stays; sources not named have 0


def text_hash(text: str) -> bytes:
    """128-bit BLAKE2b of the text's exact form."""
    return hashlib.blake2b(exact_form(text).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def hash_shard(payload: dict, config: ExactConfig, writer: PartWriter) -> None:
    """Step "hash": the sidecar `hashes` of one shard."""
    hashed = []
    for batch in sidecars.shard_batches(payload, ["id", "source", "text"]):
        texts = batch["text"].to_pylist()
        columns = [batch["id"], batch["source"], [len(t) for t in texts], [text_hash(t) for t in texts]]
        hashed.append(
            pa.RecordBatch.from_arrays(
                [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
            )
        )
    sidecars.write_sidecar(writer, "hashes", SCHEMA, hashed)


def duplicates(hashes: np.ndarray, rank: np.ndarray) -> dict[int, int]:
    """{dropped: kept}, row numbers, of equal rows of `hashes` (uint64 [N, 2]); the best-ranked of a group stays."""
    order = np.lexsort((rank, hashes[:, 1], hashes[:, 0]))
    ordered = hashes[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    kept = order[np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))]
    return {int(d): int(k) for d, k in zip(order[~first], kept[~first], strict=True)}


def process(documents: Iterator[Document], config: ExactConfig, decided: dict | None) -> Iterator[Outcome]:
    return survivors.apply(documents, decided, REASON)


def run(run: StageRun) -> None:
    results = run.parts(hash_shard, sidecars.shard_parts(run, "hash", settings={}))
    names = [shard.stem for shard in run.input.shards]
    documents = survivors.catalogue(names, sidecars.read_sidecars(run, results, ["id", "source", "length"]))
    parts = [_as_uint64(table["hash"]) for table in sidecars.read_sidecars(run, results, ["hash"])]
    hashes = np.concatenate([*parts, np.empty((0, 2), dtype=np.uint64)])
    dropped = duplicates(hashes, documents.rank(run.config.source_priority))
    evidence: dict[int, dict[str, Any]] = {
        index: {"kept_id": documents.id(kept), "similarity": 1.0} for index, kept in dropped.items()
    }
    run.output.facts.update(documents=len(documents), groups=len(set(dropped.values())), removed=len(dropped))
    run.map_shards(process, survivors.decisions(documents, evidence))


def _as_uint64(column: pa.ChunkedArray) -> np.ndarray:
    return np.frombuffer(b"".join(column.to_pylist()), dtype="<u8").reshape(-1, 2)


STAGE = Stage(
    name="exact_dedup",
    module=__name__,
    config=ExactConfig,
    inputs=("filter",),
    run=run,
    summary="Drop documents whose text, apart from layout and Unicode form, another document holds.",
)
