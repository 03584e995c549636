"""Which validation documents resemble a training document, and are left out of validation for it.

Deduplication removes what is 0.8 alike and more; pairs of 0.5 to 0.8 survive, and a model that trained on one side of
such a pair has half read the other. Bands of two signature values propose pairs of a validation and a training
document (a pair at Jaccard 0.5 is missed with p = 0.0001), their agreement ranks them, and the true Jaccard of the
likeliest decides. Only validation ever loses: what is in training stays there when the corpus grows.

Memory of a part: 256 bytes a validation document of the whole corpus, and the signatures of one shard.

in    sidecars that encoding left: `signatures` of training documents, `candidates` for validation
out   shard -> row -> evidence {"train_id", "jaccard"} of what is left out
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kernels import minhash
from tasks.dedup.normalise import fuzzy_form
from tasks.dedup.sidecars import texts_of
from tasks.shards.splits import NUM_PERM, SHINGLE_SIZE, ShardsConfig
from tasks.stage import Part, PartResult, PartWriter, StageRun
from tasks.store.dataset import Dataset

MARGIN = 0.2  # an estimate this far below the limit is not read again: 3 standard deviations of 64 permutations
MAX_CANDIDATES = 4  # training documents of one shard that are read for one validation document
SIGNATURE = pa.list_(pa.uint32(), NUM_PERM)
SIGNATURES = pa.schema([("id", pa.string()), ("row", pa.int64()), ("signature", SIGNATURE)])
CANDIDATES = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("language", pa.string()),
        ("row", pa.int64()),  # of the shard of the mix
        ("text", pa.large_string()),
        ("signature", SIGNATURE),  # null for a text too short to have one
    ]
)
MERGED = "validation_candidates.parquet"  # of all shards
MERGED_SCHEMA = pa.schema(
    [("shard", pa.string()), ("file", pa.string()), ("row", pa.int64()), ("signature", SIGNATURE)]
)

LeftOut = dict[str, dict[int, dict[str, Any]]]


def signature_column(signed: np.ndarray, comparable: np.ndarray) -> pa.Array:
    """uint32 [D, NUM_PERM] as a column; null where a text is not comparable."""
    flat = pa.array(np.ascontiguousarray(signed).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, NUM_PERM, mask=pa.array(~comparable))


def sidecar_of(result: PartResult, kind: str) -> str | None:
    """Name of the sidecar of that kind which a part left, if it did."""
    return next((entry.name for entry in result.files if entry.name.startswith(f"{kind}/")), None)


def read(opened: Any, name: str, columns: list[str] | None = None) -> pa.Table:
    with opened(name) as file:
        return pq.read_table(file, columns=columns)


def left_out(run: StageRun, encoded: Sequence[PartResult]) -> LeftOut:
    """What of the candidates is near to a training document of any shard; the nearest is the evidence."""
    entry = merge_candidates(run, encoded)
    mix, parts = run.inputs["mix"], []
    for shard, result in zip(mix.shards, encoded, strict=True):
        if entry.rows and (name := sidecar_of(result, "signatures")):
            payload = {"dataset": mix.reference(), "shard": shard.name, "signatures": name}
            parts.append(Part(name=shard.stem, step="compare", inputs=(shard.sha256, entry.sha256), payload=payload))
    found: LeftOut = {}
    for part in run.parts(compare_part, parts):
        for shard_name, row, train_id, jaccard in part.result["near"]:
            rows = found.setdefault(shard_name, {})
            if row not in rows or (-jaccard, train_id) < (-rows[row]["jaccard"], rows[row]["train_id"]):
                rows[row] = {"train_id": train_id, "jaccard": jaccard}
    return found


def merge_candidates(run: StageRun, encoded: Sequence[PartResult]) -> Any:
    """The file of all comparable candidates."""
    tables = [MERGED_SCHEMA.empty_table()]
    for shard, result in zip(run.inputs["mix"].shards, encoded, strict=True):
        if name := sidecar_of(result, "candidates"):
            table = read(run.store.open, f"{run.output.folder}/{name}", ["row", "signature"])
            table = table.filter(table["signature"].is_valid())
            places = [pa.array([text] * table.num_rows, pa.string()) for text in (shard.name, name)]
            tables.append(pa.Table.from_arrays([*places, *table.columns], schema=MERGED_SCHEMA))
    merged = pa.concat_tables(tables)
    path = run.scratch() / MERGED
    pq.write_table(merged, path, compression="zstd")
    return run.output.add_file(MERGED, path, role="sidecar", rows=merged.num_rows)


def compare_part(payload: dict[str, Any], config: ShardsConfig, writer: PartWriter) -> dict[str, Any]:
    """Step "compare": the training documents of one shard against all candidates."""
    merged = read(writer.store.open, f"{writer.folder}/{MERGED}")
    train = read(writer.store.open, f"{writer.folder}/{payload['signatures']}")
    limit = config.validation_max_jaccard or 1.0
    pairs = likeliest(signature_rows(merged), signature_rows(train), limit - MARGIN)
    places = [(merged["shard"][int(v)].as_py(), merged["row"][int(v)].as_py()) for v, _ in pairs]
    rows = train["row"].take(pa.array(pairs[:, 1])).to_pylist()
    wanted = sorted(set(rows))
    train_sets = {
        row: shingles(text) for row, text in texts_of(Dataset.load(payload["dataset"]), payload["shard"], wanted)
    }
    candidate_sets = read_candidates(merged.take(pa.array(pairs[:, 0])), writer)
    near = []
    for place, row, index in zip(places, rows, pairs[:, 1].tolist(), strict=True):
        jaccard = minhash.jaccard(candidate_sets[place], train_sets[row])
        if jaccard >= limit:
            near.append([*place, train["id"][index].as_py(), round(jaccard, 4)])
    return {"near": near}


def read_candidates(wanted: pa.Table, writer: PartWriter) -> dict[tuple[str, int], np.ndarray]:
    """(shard, row) -> shingle set, of rows of the merged candidates."""
    sets: dict[tuple[str, int], np.ndarray] = {}
    places = wanted.select(["shard", "file", "row"]).to_pylist()
    for shard, file in sorted({(place["shard"], place["file"]) for place in places}):
        rows = sorted({place["row"] for place in places if place["shard"] == shard})
        table = read(writer.store.open, f"{writer.folder}/{file}", ["row", "text"])
        chosen = table.take(pa.array(np.searchsorted(table["row"].to_numpy(), rows)))
        texts = zip(chosen["row"].to_pylist(), chosen["text"].to_pylist(), strict=True)
        sets |= {(shard, row): shingles(text) for row, text in texts}
    return sets


def shingles(text: str) -> np.ndarray:
    return minhash.shingle_set(fuzzy_form(text), SHINGLE_SIZE)


def signature_rows(table: pa.Table) -> np.ndarray:
    """uint32 [N, NUM_PERM]."""
    chunks = [np.asarray(chunk.flatten()) for chunk in table["signature"].chunks]
    flat = np.concatenate(chunks) if chunks else np.empty(0, np.uint32)
    return flat.reshape(-1, NUM_PERM)


def likeliest(validation: np.ndarray, train: np.ndarray, least: float) -> np.ndarray:
    """int64 [M, 2]: (validation row, train row) of pairs that agree in at least `least` of their values, the
    MAX_CANDIDATES best of each validation row; ties go to the lower train row."""
    codes = np.unique(np.concatenate([proposed(validation, train, band) for band in range(0, NUM_PERM, 2)]))
    pairs = np.stack(np.divmod(codes, max(len(train), 1)), axis=1)
    used, places = np.unique(pairs[:, 0], return_inverse=True)
    both = np.concatenate([validation[used], train])
    stacked = np.stack([places, pairs[:, 1] + len(used)], axis=1)
    agreed = minhash.agreement(both, np.ascontiguousarray(stacked, dtype=np.int64))
    near = agreed >= least
    pairs, agreed = pairs[near], agreed[near]
    order = np.lexsort((pairs[:, 1], -agreed, pairs[:, 0]))
    pairs = pairs[order]
    begins = np.searchsorted(pairs[:, 0], pairs[:, 0])
    return pairs[np.arange(len(pairs)) - begins < MAX_CANDIDATES]


def proposed(validation: np.ndarray, train: np.ndarray, band: int) -> np.ndarray:
    """int64 codes (validation row * len(train) + train row) of the pairs equal in values `band` and `band` + 1."""
    keys, wanted = (np.ascontiguousarray(rows[:, band : band + 2]).view("<u8").ravel() for rows in (validation, train))
    order = np.argsort(keys, kind="stable")
    first, last = (np.searchsorted(keys, wanted, side, sorter=order) for side in ("left", "right"))
    counts = last - first
    train_rows = np.repeat(np.arange(len(train)), counts)
    within = np.arange(len(train_rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[np.repeat(first, counts) + within] * len(train) + train_rows
