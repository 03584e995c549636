"""One shard of the mix to token files: `<split>/<shard>.bin`, `.idx` (training/indexed.py) and `.parquet`, the sidecar.

Row i of the sidecar belongs to sequence i:

    id, source, language    of the document
    num_tokens              int32, its EOS included
    num_bytes               int64, of its text in UTF-8 (bits per byte)
    offset                  int64, its first token in the .bin, in tokens
    crc32                   uint32 of its token bytes: names the document when a byte has flipped

Works by columns: of a document there is one Python string, for SentencePiece, and its ids. A part streams, so memory
does not grow with the shard.

in    shard of the mix, tokenizer, Side (tasks/shards/near.py)
out   the files of both splits; {"counts": [[split, source, language, what, number] …]}
"""

from __future__ import annotations

import itertools
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.document import Document, Dropped
from tasks.shards.near import Side
from tasks.shards.splits import SPLITS, TRAIN, VALIDATION, ShardsConfig
from tasks.stage import PartWriter
from tasks.store.dataset import Dataset
from tasks.store.tables import from_batch
from tasks.tokenizer.model import EOS_ID, Tokenizer
from training.indexed import TOKEN, IndexedWriter

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
NAMES = ["id", "source", "language"]
EMPTY, NEAR_TRAIN = "no_tokens", "near_train"  # reasons of dropping
EOS = np.array([EOS_ID], dtype=TOKEN)


class SplitWriter:
    """The three files of one split of one shard."""

    def __init__(self, split: str, folder: Path):
        self.split = split
        self.tokens = IndexedWriter(folder / split)
        self.batches: list[pa.RecordBatch] = []

    def add(self, names: pa.RecordBatch, num_bytes: pa.Array, ids: list[np.ndarray]) -> None:
        """Append documents: their ids without EOS, and the columns NAMES and num_bytes of as many rows."""
        joined = np.concatenate(list(itertools.chain.from_iterable((each, EOS) for each in ids)))
        lengths = np.fromiter(map(len, ids), np.int32, len(ids)) + np.int32(1)
        ends = np.cumsum(lengths, dtype=np.int64)
        offsets = self.tokens.num_tokens + ends - lengths
        view, bounds = joined.data.cast("B"), [0, *(TOKEN.itemsize * ends).tolist()]
        checksums = [zlib.crc32(view[start:stop]) for start, stop in itertools.pairwise(bounds)]
        self.tokens.add_all(joined, lengths)
        columns = [*names.columns, pa.array(lengths), num_bytes, pa.array(offsets), pa.array(checksums, pa.uint32())]
        self.batches.append(pa.RecordBatch.from_arrays(columns, schema=SIDECAR))

    def publish(self, writer: PartWriter) -> pa.Table:
        """Write the files, none when there is no document; returns the sidecar."""
        self.tokens.close()
        table = pa.Table.from_batches(self.batches, schema=SIDECAR).combine_chunks()
        if table.num_rows:
            for path in (self.tokens.bin_path, self.tokens.idx_path):
                writer.file(f"{self.split}/{writer.name}{path.suffix}", path, rows=table.num_rows)
            writer.table(self.split, table, role="artifact")
        return table


def encode_part(payload: dict[str, Any], config: ShardsConfig, writer: PartWriter) -> dict[str, Any]:
    """Step "encode": one shard of the mix."""
    tokenizer = Tokenizer.load(Dataset.load(payload["tokenizer"]).local("tokenizer.model"))
    side: Side = payload["side"]
    with tempfile.TemporaryDirectory(prefix="danlu-shards-") as folder:
        splits = {split: SplitWriter(split, Path(folder)) for split in SPLITS}
        for batch, validation in batches_with_side(payload, side, config, writer):
            encode_batch(batch, validation, tokenizer, splits, writer)
        tables = {split: each.publish(writer) for split, each in splits.items()}
    counts = [row for split, table in tables.items() for row in count_rows(split, table)]
    for _, source, language, what, number in counts:
        if what == "documents":
            writer.count_input(source, language, number)
    return {"counts": counts}


def batches_with_side(
    payload: dict[str, Any], side: Side, config: ShardsConfig, writer: PartWriter
) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
    """The documents that are not left out, and for each whether it is of the validation split."""
    draws = np.ones(0)
    if side.splits is not None:
        with writer.store.open(f"{writer.folder}/{side.splits}") as file:
            draws = pq.read_table(file, columns=["draw"])["draw"].to_numpy()
    columns = None if side.left_out else [*NAMES, "text"]  # a document that is left out is written whole
    start = 0
    for batch in Dataset.load(payload["dataset"]).batches(payload["shard"], columns):
        stop = start + batch.num_rows
        validation = draws[start:stop] < config.validation_fraction if len(draws) else np.zeros(batch.num_rows, bool)
        out = [row - start for row in side.left_out if start <= row < stop]
        for row in out:
            [document] = from_batch(batch.slice(row, 1))
            assert isinstance(document, Document)
            writer.put(Dropped(document=document, reason=NEAR_TRAIN, evidence=side.left_out[start + row]))
        if out:
            stay = np.ones(batch.num_rows, dtype=bool)
            stay[out] = False
            batch, validation = batch.filter(pa.array(stay)), validation[stay]
        yield batch, validation
        start = stop


def encode_batch(
    batch: pa.RecordBatch,
    validation: np.ndarray,
    tokenizer: Tokenizer,
    splits: dict[str, SplitWriter],
    writer: PartWriter,
) -> None:
    """Documents of a batch to the writers of their splits; those without a token are counted as dropped."""
    ids = tokenizer.encode_batch(batch["text"].to_pylist())
    names, num_bytes = batch.select(NAMES), pc.binary_length(batch["text"]).cast(pa.int64())
    filled = np.fromiter(map(len, ids), np.int64, len(ids)) > 0
    for row in np.flatnonzero(~filled).tolist():
        writer.count_input(names["source"][row].as_py(), names["language"][row].as_py(), dropped=EMPTY)
    for split, chosen in ((TRAIN, filled & ~validation), (VALIDATION, filled & validation)):
        if (rows := np.flatnonzero(chosen)).size:
            taken = pa.array(rows)
            splits[split].add(names.take(taken), num_bytes.take(taken), [ids[row] for row in rows.tolist()])


def count_rows(split: str, sidecar: pa.Table) -> list[list[Any]]:
    """[split, source, language, what, number] for documents, tokens and bytes of each source and language."""
    grouped = sidecar.group_by(["source", "language"]).aggregate(
        [("num_tokens", "count"), ("num_tokens", "sum"), ("num_bytes", "sum")]
    )
    return [
        [split, row["source"], row["language"], what, row[column]]
        for row in grouped.sort_by([("source", "ascending"), ("language", "ascending")]).to_pylist()
        for what, column in (
            ("bytes", "num_bytes_sum"),
            ("documents", "num_tokens_count"),
            ("tokens", "num_tokens_sum"),
        )
    ]
