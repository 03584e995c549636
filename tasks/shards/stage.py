"""The shards stage: documents to token ids, ready for training.

Each mix shard becomes, per split, `<split>/<shard>.bin` and `.idx` (training/indexed.py) and the sidecar
`<split>/<shard>.parquet`, whose row i belongs to sequence i:

    id, source, language    of the document
    num_tokens              int32, its EOS included
    num_bytes               int64, of its text in UTF-8 (bits per byte)
    offset                  int64, its first token in the .bin, in tokens
    crc32                   uint32 of its token bytes: names the document when a byte has flipped

Every document ends with EOS. A new mix shard adds files and redoes none, as long as the tokenizer is the same.
The files are a function of shard, tokenizer and config; a part streams, so memory does not grow with the shard.
"""

from __future__ import annotations

import logging
import tempfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.shards.splits import SPLITS, TRAIN, VALIDATION, ShardsConfig, split_of
from tasks.stage import Part, PartWriter, Stage, StageRun
from tasks.store.dataset import Dataset
from tasks.tokenizer.model import EOS_ID, Tokenizer
from training.indexed import IndexedWriter

SIDECAR = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("language", pa.string()),
        ("num_tokens", pa.int32()),
        ("num_bytes", pa.int64()),
        ("offset", pa.int64()),
        ("crc32", pa.uint32()),
    ]
)
EMPTY = "no_tokens"

log = logging.getLogger(__name__)


class SplitWriter:
    """The three files of one split of one shard."""

    def __init__(self, split: str, folder: Path):
        self.split, self.stem, self.num_tokens = split, folder / split, 0
        self.tokens = IndexedWriter(self.stem)
        self.columns: dict[str, list[Any]] = {name: [] for name in SIDECAR.names}

    def add(self, row: dict[str, Any], ids: np.ndarray) -> None:
        self.tokens.add(ids)
        values = {name: row[name] for name in ("id", "source", "language")} | {
            "num_tokens": len(ids),
            "num_bytes": len(row["text"].encode()),
            "offset": self.num_tokens,
            "crc32": zlib.crc32(ids.tobytes()),
        }
        for name, value in values.items():
            self.columns[name].append(value)
        self.num_tokens += len(ids)

    def publish(self, writer: PartWriter) -> None:
        self.tokens.close()
        if rows := self.tokens.num_sequences:
            for path in (self.tokens.bin_path, self.tokens.idx_path):
                writer.file(f"{self.split}/{writer.name}{path.suffix}", path, rows=rows)
            writer.table(self.split, pa.table(self.columns, schema=SIDECAR), role="artifact")


def encode_part(payload: Any, config: ShardsConfig, writer: PartWriter) -> dict[str, Any]:
    """Encode one shard of the mix."""
    tokenizer = Tokenizer.load(Dataset.load(payload["tokenizer"]).local("tokenizer.model"))
    counts: Counter[tuple[str, str, str, str]] = Counter()
    with tempfile.TemporaryDirectory(prefix="danlu-shards-") as folder:
        splits = {split: SplitWriter(split, Path(folder)) for split in SPLITS}
        columns = ["id", "text", "source", "language"]
        for batch in Dataset.load(payload["dataset"]).batches(payload["shard"], columns):
            rows = batch.to_pylist()
            for row, ids in zip(rows, tokenizer.encode_batch([row["text"] for row in rows]), strict=True):
                if not len(ids):
                    writer.count_input(row["source"], row["language"], dropped=EMPTY)
                    continue
                writer.count_input(row["source"], row["language"])
                split = splits[split_of(row["text"], config)]
                split.add(row, np.append(ids, np.int32(EOS_ID)))
                key = (split.split, row["source"], row["language"])
                counts[*key, "documents"] += 1
                counts[*key, "tokens"] += len(ids) + 1
                counts[*key, "bytes"] += split.columns["num_bytes"][-1]
        for split in splits.values():
            split.publish(writer)
    return {"counts": [[*key, number] for key, number in sorted(counts.items())]}


def run(run: StageRun) -> None:
    mix, tokenizer = run.inputs["mix"], run.inputs["tokenizer"]
    model = next(f for f in tokenizer.files("artifact") if f.name == "tokenizer.model")
    parts = [
        Part(
            name=shard.stem,
            step="encode",
            inputs=(shard.sha256, model.sha256),
            payload={"dataset": mix.reference(), "tokenizer": tokenizer.reference(), "shard": shard.name},
        )
        for shard in mix.shards
    ]
    results = run.parts(encode_part, parts)
    totals: Counter[tuple[str, ...]] = Counter()
    for result in results:
        for *key, number in result.result["counts"]:
            totals[tuple(key)] += number
    run.output.facts = facts(totals) | {
        "eos_id": EOS_ID,
        "vocab_size": tokenizer.manifest.facts["vocab_size"],
        "tokenizer": {"digest": tokenizer.digest, "model_sha256": model.sha256},
        "dtype": "int32",
    }
    check_splits(run.output.facts["splits"], run.config)


def facts(totals: Counter[tuple[str, ...]]) -> dict[str, Any]:
    """Documents, tokens and bytes by split, and within it by source and language."""
    splits: dict[str, Any] = {}
    for split in SPLITS:
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for (where, source, language, what), number in sorted(totals.items()):
            if where == split:
                rows.setdefault((source, language), {"source": source, "language": language})[what] = number
        sums = {what: sum(row[what] for row in rows.values()) for what in ("documents", "tokens", "bytes")}
        splits[split] = {**sums, "rows": list(rows.values())}
    return {"splits": splits}


def check_splits(splits: dict[str, Any], config: ShardsConfig) -> None:
    """Raise ValueError without training documents; warn without the validation ones that were asked for."""
    if not splits[TRAIN]["documents"]:
        raise ValueError(
            f"no document is left to train on ({splits[VALIDATION]['documents']} went to validation): look at the "
            f"account of the stages before, or lower validation_fraction ({config.validation_fraction})"
        )
    if config.validation_fraction and not splits[VALIDATION]["documents"]:
        log.warning(
            "shards: none of %d documents fell to validation at validation_fraction %g: raise it to evaluate",
            splits[TRAIN]["documents"],
            config.validation_fraction,
        )


STAGE = Stage(
    name="shards",
    module=__name__,
    config=ShardsConfig,
    inputs=("mix", "tokenizer"),
    run=run,
    summary="Encode the mix into token shards (.bin/.idx) with a sidecar that names each document.",
)
