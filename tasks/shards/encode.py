"""One shard of the mix to token files: `<split>/<shard>.bin`, `.idx` (training/indexed.py) and `.parquet`, the sidecar.

Row i of the sidecar belongs to sequence i:

    id, source, language    of the document
    num_tokens              int32, its marker (tasks/tokenizer/markers.py) and EOS included
    num_bytes               int64, of its text in UTF-8 (bits per byte)
    offset                  int64, its first token in the .bin, in tokens
    crc32                   uint32 of its token bytes: names the document when a byte has flipped

Training documents are encoded in the one pass that also draws the splits; candidates for validation wait in a sidecar
until it is known which of them are left out (near.py). Works by columns: of a document there is one Python string, for
SentencePiece, and its ids. A part streams, so memory does not grow with the shard.

in    shard of the mix, tokenizer
out   the files of both splits; {"counts": [[split, source, language, what, number] …]}
"""

from __future__ import annotations

import functools
import itertools
import tempfile
import zlib
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.document import Document, Dropped
from tasks.shards.files import TRAIN, VALIDATION
from tasks.shards.near import CANDIDATES, SIGNATURES, signature_column
from tasks.shards.splits import ShardsConfig, draws, signatures
from tasks.stage import PartWriter
from tasks.store.dataset import BATCH_ROWS, Dataset
from tasks.store.tables import from_batch
from tasks.tokenizer.markers import Markers
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
    """Step "encode": the training documents of one shard of the mix, and the sidecars that near.py reads."""
    tokenizer, markers = loaded(**payload["tokenizer"])
    signed: list[pa.RecordBatch] = []
    candidates: list[pa.RecordBatch] = []
    with tempfile.TemporaryDirectory(prefix="danlu-shards-") as folder:
        train, start = SplitWriter(TRAIN, Path(folder)), 0
        for batch in Dataset.load(payload["dataset"]).batches(payload["shard"], [*NAMES, "text"]):
            rows = pa.array(np.arange(start, start + batch.num_rows, dtype=np.int64))
            start += batch.num_rows
            batch = without_empty(batch.append_column("row", rows), writer)
            if config.validation_fraction:
                batch, of_validation, signatures_of_train = divided(batch, config)
                candidates.append(of_validation)
                signed.append(signatures_of_train)
            add_texts(batch, tokenizer, markers, train)
        counts = finished(train, writer)
    for kind, schema, batches in (("signatures", SIGNATURES, signed), ("candidates", CANDIDATES, candidates)):
        if any(batch.num_rows for batch in batches):
            writer.table(kind, pa.Table.from_batches(batches, schema=schema))
    return {"counts": counts}


def validation_part(payload: dict[str, Any], config: ShardsConfig, writer: PartWriter) -> dict[str, Any]:
    """Step "validation": the candidates of one shard, but for those left out."""
    tokenizer, markers = loaded(**payload["tokenizer"])
    left_out: dict[int, dict[str, Any]] = payload["left_out"]
    for document, row in documents_at(Dataset.load(payload["dataset"]), payload["shard"], sorted(left_out)):
        writer.put(Dropped(document=document, reason=NEAR_TRAIN, evidence=left_out[row]))
    out = pa.array(sorted(left_out), pa.int64())
    with tempfile.TemporaryDirectory(prefix="danlu-shards-") as folder:
        validation = SplitWriter(VALIDATION, Path(folder))
        with writer.store.open(f"{writer.folder}/{payload['candidates']}") as file:
            for batch in pq.ParquetFile(file).iter_batches(BATCH_ROWS, columns=[*NAMES, "text", "row"]):
                chosen = batch.filter(pc.invert(pc.is_in(batch["row"], value_set=out)))
                add_texts(chosen, tokenizer, markers, validation)
        return {"counts": finished(validation, writer)}


@functools.lru_cache(maxsize=1)
def loaded(store: str, folder: str) -> tuple[Tokenizer, Markers]:
    """The tokenizer of a dataset, loaded once for all parts of a process: the folder is named by its key."""
    dataset = Dataset.load({"store": store, "folder": folder})
    return Tokenizer.load(dataset.local("tokenizer.model")), Markers.of(dataset)


def without_empty(batch: pa.RecordBatch, writer: PartWriter) -> pa.RecordBatch:
    """The batch without documents that have no text, which are counted as dropped."""
    filled = pc.greater(pc.binary_length(batch["text"]), 0)
    if pc.all(filled).as_py():
        return batch
    for row in batch.filter(pc.invert(filled)).select(NAMES).to_pylist():
        writer.count_input(row["source"], row["language"], dropped=EMPTY)
    return batch.filter(filled)


def divided(batch: pa.RecordBatch, config: ShardsConfig) -> tuple[pa.RecordBatch, pa.RecordBatch, pa.RecordBatch]:
    """The training documents of a batch, the candidates for validation, the signatures of the former."""
    signed, counts = signatures(batch["text"])
    drawn = draws(batch["text"], signed, counts, config.split_seed)
    validation, comparable = drawn < config.validation_fraction, counts > 0
    column = signature_column(signed, comparable)
    whole = batch.append_column("signature", column)
    compared = ~validation & comparable if config.validation_max_jaccard is not None else np.zeros(len(counts), bool)
    return (
        batch.filter(pa.array(~validation)),
        whole.select(CANDIDATES.names).filter(pa.array(validation)),
        whole.select(SIGNATURES.names).filter(pa.array(compared)),
    )


def add_texts(batch: pa.RecordBatch, tokenizer: Tokenizer, markers: Markers, split: SplitWriter) -> None:
    """Encode the documents of a batch, none of which is empty, into a split."""
    if batch.num_rows:
        num_bytes = pc.binary_length(batch["text"]).cast(pa.int64())
        ids = markers.mark(tokenizer.encode_batch(batch["text"].to_pylist()), batch["language"].to_pylist())
        split.add(batch.select(NAMES), num_bytes, ids)


def finished(split: SplitWriter, writer: PartWriter) -> list[list[Any]]:
    """Publish the files of a split and count its documents."""
    counts = count_rows(split.split, split.publish(writer))
    for _, source, language, what, number in counts:
        if what == "documents":
            writer.count_input(source, language, number)
    return counts


def documents_at(dataset: Dataset, shard: str, rows: list[int]) -> Iterator[tuple[Document, int]]:
    """Whole documents of a shard, by ascending row numbers."""
    start = 0
    for batch in dataset.batches(shard) if rows else ():
        for row in rows[bisect_left(rows, start) : bisect_left(rows, start + batch.num_rows)]:
            [document] = from_batch(batch.slice(row - start, 1))
            assert isinstance(document, Document)
            yield document, row
        start += batch.num_rows


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
