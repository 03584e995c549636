"""Which validation documents resemble a training document, and are left out of validation for it.

Deduplication removes what is 0.8 alike and more; pairs of 0.5 to 0.8 survive, and a model that trained on one side of
such a pair has half read the other. Bands of two signature values propose pairs of a validation and a training
document (a pair at Jaccard 0.5 is missed with p = 0.0001), their agreement ranks them, and the true Jaccard of the
likeliest decides. Only validation ever loses: what is in training stays there when the corpus grows.

    sign      per shard: draw and signature of each document (sidecar `splits`), the validation ones once more
    compare   per shard: its training documents against all validation documents

Memory of a part: 256 bytes a validation document of the whole corpus, and the signatures of one shard.

in    the mix
out   Side of each shard: the sidecar that holds its draws, and the rows left out with their evidence
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kernels import minhash
from tasks.dedup.normalise import fuzzy_form
from tasks.dedup.sidecars import texts_of
from tasks.shards.splits import NUM_PERM, SHINGLE_SIZE, ShardsConfig, draws, signatures
from tasks.stage import Part, PartResult, PartWriter, StageRun
from tasks.store.dataset import Dataset

MARGIN = 0.2  # an estimate this far below the limit is not read again: 3 standard deviations of 64 permutations
MAX_CANDIDATES = 4  # training documents of one shard that are read for one validation document
SIGNATURE = pa.list_(pa.uint32(), NUM_PERM)
SPLITS = pa.schema([("id", pa.string()), ("draw", pa.float64()), ("signature", SIGNATURE)])
CANDIDATES = pa.schema([("shard", pa.string()), ("row", pa.int64()), ("signature", SIGNATURE)])
MERGED = "validation_candidates.parquet"


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """What the encoder has to know of one shard. Picklable."""

    splits: str | None = None  # name of its sidecar; None: all is for training
    left_out: dict[int, dict[str, Any]] = field(default_factory=dict)  # row -> evidence


def sides(run: StageRun) -> dict[str, Side]:
    """The Side of each shard of the mix, by its name."""
    config: ShardsConfig = run.config
    mix = run.inputs["mix"]
    if not config.validation_fraction:
        return {shard.name: Side() for shard in mix.shards}
    settings = {"split_seed": config.split_seed, "validation_fraction": config.validation_fraction}
    parts = [
        Part(
            name=shard.stem,
            step="sign",
            inputs=(shard.sha256,),
            payload={"dataset": mix.reference(), "shard": shard.name},
            settings=settings,
        )
        for shard in mix.shards
    ]
    signed = run.parts(sign_part, parts)
    left_out = compare_all(run, signed) if config.validation_max_jaccard is not None else {}
    return {
        shard.name: Side(splits=file_of(result, "splits"), left_out=left_out.get(shard.name, {}))
        for shard, result in zip(mix.shards, signed, strict=True)
    }


def file_of(result: PartResult, kind: str) -> str:
    [name] = [entry.name for entry in result.files if entry.name.startswith(f"{kind}/")]
    return name


def sign_part(payload: dict[str, Any], config: ShardsConfig, writer: PartWriter) -> None:
    """Step "sign": the sidecar `splits` of one shard, and `validation` with what of it may be validation."""
    tables, start, candidates = [], 0, []
    for batch in Dataset.load(payload["dataset"]).batches(payload["shard"], ["id", "text"]):
        signed, counts = signatures(batch["text"])
        drawn = draws(batch["text"], signed, counts, config.split_seed)
        columns = [batch["id"], pa.array(drawn), signature_column(signed)]
        tables.append(pa.RecordBatch.from_arrays(columns, schema=SPLITS))
        rows = np.flatnonzero((drawn < config.validation_fraction) & (counts > 0))
        names = pa.array([payload["shard"]] * len(rows), pa.string())
        columns = [names, pa.array(start + rows, pa.int64()), signature_column(signed[rows])]
        candidates.append(pa.RecordBatch.from_arrays(columns, schema=CANDIDATES))
        start += batch.num_rows
    writer.table("splits", pa.Table.from_batches(tables, schema=SPLITS))
    writer.table("validation", pa.Table.from_batches(candidates, schema=CANDIDATES))


def signature_column(signed: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(signed).reshape(-1)), NUM_PERM)


def compare_all(run: StageRun, signed: list[PartResult]) -> dict[str, dict[int, dict[str, Any]]]:
    """Shard name -> row -> evidence, for each validation document that resembles a training document."""
    merged = [read(run.store.open, f"{run.output.folder}/{file_of(result, 'validation')}") for result in signed]
    path = run.scratch() / MERGED
    pq.write_table(pa.concat_tables(merged), path, compression="zstd")
    entry = run.output.add_file(MERGED, path, role="sidecar", rows=sum(table.num_rows for table in merged))
    mix, config = run.inputs["mix"], run.config
    parts = [
        Part(
            name=shard.stem,
            step="compare",
            inputs=(shard.sha256, entry.sha256),
            payload={"dataset": mix.reference(), "shard": shard.name, "splits": file_of(result, "splits")},
            settings={
                "validation_fraction": config.validation_fraction,
                "split_seed": config.split_seed,
                "validation_max_jaccard": config.validation_max_jaccard,
            },
        )
        for shard, result in zip(mix.shards, signed, strict=True)
    ]
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for result in run.parts(compare_part, parts):
        for shard, row, train_id, jaccard in result.result["near"]:
            rows = found.setdefault(shard, {})
            if row not in rows or (-jaccard, train_id) < (-rows[row]["jaccard"], rows[row]["train_id"]):
                rows[row] = {"train_id": train_id, "jaccard": jaccard}
    return found


def read(opened: Any, name: str, columns: list[str] | None = None) -> pa.Table:
    with opened(name) as file:
        return pq.read_table(file, columns=columns)


def compare_part(payload: dict[str, Any], config: ShardsConfig, writer: PartWriter) -> dict[str, Any]:
    """Step "compare": the training documents of one shard against all of validation."""
    candidates = read(writer.store.open, f"{writer.folder}/{MERGED}")
    splits = read(writer.store.open, f"{writer.folder}/{payload['splits']}")
    train = np.flatnonzero(splits["draw"].to_numpy() >= config.validation_fraction)
    limit = config.validation_max_jaccard or 1.0
    pairs = likeliest(signature_rows(candidates), signature_rows(splits)[train], limit - MARGIN)
    places = [(candidates["shard"][int(v)].as_py(), candidates["row"][int(v)].as_py()) for v, _ in pairs]
    rows = train[pairs[:, 1]].tolist()
    near = []
    dataset = Dataset.load(payload["dataset"])
    sets = shingle_sets(dataset, [*places, *((payload["shard"], row) for row in rows)])
    for place, row in zip(places, rows, strict=True):
        jaccard = minhash.jaccard(sets[place], sets[payload["shard"], row])
        if jaccard >= limit:
            near.append([*place, splits["id"][row].as_py(), round(jaccard, 4)])
    return {"near": near}


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


def shingle_sets(dataset: Dataset, places: list[tuple[str, int]]) -> dict[tuple[str, int], np.ndarray]:
    """The shingle set of the document at each (shard, row)."""
    by_shard: dict[str, list[int]] = {}
    for shard, row in places:
        by_shard.setdefault(shard, []).append(row)
    return {
        (shard, row): minhash.shingle_set(fuzzy_form(text), SHINGLE_SIZE)
        for shard, rows in by_shard.items()
        for row, text in texts_of(dataset, shard, rows)
    }
