"""The index that one run of MinHash dedup leaves for the next: sidecars of its dataset, below `index/`.

    header.json         settings and code it holds for, the input's shards with their rows
    documents.parquet   id, 128-bit digest of the text, component; a document's number is its row
    decisions.parquet   the documents dropped: document, kept (numbers), similarity, estimated
    band-KKK.bin        the n comparable documents by key of band K: uint64 keys [n] ascending, then uint32 numbers [n]
    pairs.bin           the true Jaccard of every pair ever read: uint64 [n], uint64 [n], float64 [n], by the first two

All little-endian. A component is a set of documents that buckets connect; it is named by its lowest number. Jaccard is
a function of two texts, so pairs are keyed by the digests of both, and outlive a change of threshold or of shards.

An index is used only if each of its files has the SHA-256 that the manifest gives; else the next best one is, or none,
and the log and the facts say so: less is reused, the result is the same. Cost: 250 bytes a document at 18 bands, and
24 bytes a pair, which are never forgotten.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.stage import DatasetBuilder
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store, StoreError, sha256_file

FORMAT, VERSION = "danlu-minhash-index", 1
FOLDER = "index"
HEADER = f"{FOLDER}/header.json"
ID_BYTES, DIGEST_BYTES = 32, 16
DOCUMENTS = pa.schema([("id", pa.binary(ID_BYTES)), ("digest", pa.binary(DIGEST_BYTES)), ("component", pa.uint32())])
DECISIONS = pa.schema(
    [("document", pa.uint32()), ("kept", pa.uint32()), ("similarity", pa.float64()), ("estimated", pa.float64())]
)
MAX_DOCUMENTS = 1 << 32
BATCH_DOCUMENTS = 1 << 16  # rows of `documents` written at once: 3 MiB
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd: 2^64 / golden ratio

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Known Jaccard values, by `pair_keys`."""

    first: np.ndarray  # uint64 [n], ascending
    second: np.ndarray  # uint64 [n], ascending where `first` is equal
    jaccard: np.ndarray  # float64 [n]

    def find(self, keys: np.ndarray) -> np.ndarray:
        """float64 [M], nan where a key (uint64 [M, 2]) is unknown."""
        found = np.full(len(keys), np.nan)
        if len(self.first):
            at = np.minimum(np.searchsorted(self.first, keys[:, 0]), len(self.first) - 1)
            same = (self.first[at] == keys[:, 0]) & (self.second[at] == keys[:, 1])
            found[same] = self.jaccard[at[same]]
        return found

    def joined(self, keys: np.ndarray, jaccard: np.ndarray) -> Pairs:
        """With further pairs; one of each key stays."""
        first, second = np.concatenate([self.first, keys[:, 0]]), np.concatenate([self.second, keys[:, 1]])
        values = np.concatenate([self.jaccard, jaccard])
        order = np.lexsort((second, first))
        first, second, values = first[order], second[order], values[order]
        new = np.ones(len(first), dtype=bool)
        new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
        return Pairs(first[new], second[new], values[new])


NO_PAIRS = Pairs(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.float64))


def pair_keys(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """uint64 [M, 2], the same for (a, b) and (b, a), of digests uint64 [M, 2] of two texts."""
    swap = (left[:, 0] > right[:, 0]) | ((left[:, 0] == right[:, 0]) & (left[:, 1] > right[:, 1]))
    low, high = np.where(swap[:, None], right, left), np.where(swap[:, None], left, right)
    return low + _MIX * high[:, ::-1]


class Index:
    """One index that was read back whole."""

    def __init__(self, dataset: Dataset, header: dict[str, Any]):
        self.dataset, self.header = dataset, header
        self.shards: list[tuple[str, int]] = [(sha256, rows) for sha256, rows in header["shards"]]

    def __len__(self) -> int:
        return sum(rows for _, rows in self.shards)

    def damage(self) -> str | None:
        """Which file is missing or not what the manifest says; None when all are whole."""
        for entry in self.dataset.manifest.files:
            if entry.name.startswith(f"{FOLDER}/"):
                try:
                    path = self.dataset.local(entry.name)
                    if sha256_file(path) != entry.sha256:
                        return f"{entry.name} is damaged"
                except FileNotFoundError:
                    return f"{entry.name} is missing"
        return None

    def band(self, band: int) -> tuple[np.ndarray, np.ndarray]:
        """Keys uint64 [n], ascending, and numbers uint32 [n], mapped from disk."""
        return map_band(self.dataset.local(band_name(band)), "r")

    def pairs(self) -> Pairs:
        path = self.dataset.local(f"{FOLDER}/pairs.bin")
        num = path.stat().st_size // 24
        if not num:
            return NO_PAIRS
        columns = zip(("<u8", "<u8", "<f8"), (0, 8 * num, 16 * num), strict=True)
        return Pairs(*(np.memmap(path, kind, "r", offset, (num,)) for kind, offset in columns))

    def column(self, file: str, name: str) -> pa.ChunkedArray:
        """A column of `documents` or `decisions`."""
        with self.dataset.open(f"{FOLDER}/{file}.parquet") as opened:
            return pq.read_table(opened, columns=[name])[name]


def fixed_bytes(values: np.ndarray, width: int) -> pa.FixedSizeBinaryArray:
    """The bytes of `values` as a binary(width) array, without a Python object a row."""
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), values.nbytes // width, [None, buffer])


def document_batches(ids: np.ndarray, digests: np.ndarray, components: np.ndarray) -> Iterator[pa.RecordBatch]:
    """The rows of `documents.parquet`, in order."""
    for start in range(0, len(ids), BATCH_DOCUMENTS):
        some = slice(start, start + BATCH_DOCUMENTS)
        columns = [
            fixed_bytes(ids[some], ID_BYTES),
            fixed_bytes(digests[some], DIGEST_BYTES),
            pa.array(components[some].astype(np.uint32)),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=DOCUMENTS)


def as_digests(column: pa.ChunkedArray) -> np.ndarray:
    """uint64 [N, 2] of a binary(16) column."""
    return _bytes_of(column, DIGEST_BYTES).view("<u8").reshape(-1, 2)


def as_ids(column: pa.ChunkedArray) -> np.ndarray:
    """S32 [N] of a binary(32) column."""
    return _bytes_of(column, ID_BYTES).view(f"S{ID_BYTES}")


def _bytes_of(column: pa.ChunkedArray, width: int) -> np.ndarray:
    parts = [np.empty(0, dtype=np.uint8)]
    for chunk in column.chunks:
        data = np.frombuffer(chunk.buffers()[1] or b"", dtype=np.uint8)
        parts.append(data[chunk.offset * width : (chunk.offset + len(chunk)) * width])
    return np.concatenate(parts)


def band_name(band: int) -> str:
    return f"{FOLDER}/band-{band:03d}.bin"


def map_band(path: Path, mode: str, num: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The two arrays of a band file; `num` documents long when it is to be made (mode "w+")."""
    num = path.stat().st_size // 12 if num is None else num
    if not num:
        path.touch()
        return np.empty(0, np.uint64), np.empty(0, np.uint32)
    if mode == "w+":
        with open(path, "wb") as file:
            file.truncate(12 * num)
        mode = "r+"
    return np.memmap(path, "<u8", mode, 0, (num,)), np.memmap(path, "<u4", mode, 8 * num, (num,))  # type: ignore[call-overload]


def find(
    store: Store, stage: str, *, settings: str, pair_settings: str, shards: Sequence[tuple[str, int]]
) -> tuple[Index | None, list[str]]:
    """The index that serves a run over `shards` (SHA-256, rows) best, and what was wrong with better ones.

    First come those of the same settings and code, then those that share more documents with the input.
    """
    wanted, problems = set(shards), list[str]()
    candidates = []
    for key in store.names(f"datasets/{stage}"):
        try:
            dataset = Dataset.open_folder(store, f"datasets/{stage}/{key}")
            index = _open(dataset)
        except (StoreError, ValueError, KeyError, OSError) as error:
            if store.exists(f"datasets/{stage}/{key}/manifest.json"):  # else it is the dataset that this run makes
                problems.append(f"{key}: {error}")
            continue
        if index is not None and index.header["pairs"] == pair_settings:
            shared = sum(rows for sha256, rows in index.shards if (sha256, rows) in wanted)
            candidates.append((index.header["settings"] == settings, shared, dataset.manifest.created, key, index))
    for *_, key, index in sorted(candidates, key=lambda candidate: candidate[:4], reverse=True):
        if (damage := index.damage()) is None:
            return index, problems
        problems.append(f"{key}: {damage}")
    return None, problems


def _open(dataset: Dataset) -> Index | None:
    """The index of a dataset; None when it has none of this format. Raises when its header cannot be read."""
    if not any(file.name == HEADER for file in dataset.manifest.files):
        return None
    with dataset.open(HEADER) as file:
        header = json.loads(file.read())
    return Index(dataset, header) if (header["format"], header["version"]) == (FORMAT, VERSION) else None


def write(
    output: DatasetBuilder,
    *,
    header: dict[str, Any],
    documents: Iterator[pa.RecordBatch],
    decisions: pa.Table,
    pairs: Pairs,
    bands: Sequence[Path],
    scratch: Path,
) -> int:
    """Add the index to the dataset being made; returns its bytes."""
    for name, schema, batches in (
        ("documents", DOCUMENTS, documents),
        ("decisions", DECISIONS, iter(decisions.to_batches())),
    ):
        path = scratch / f"{name}.parquet"
        with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=False) as writer:
            for batch in batches:
                writer.write_batch(batch)
    with open(scratch / "pairs.bin", "wb") as file:
        for column in (pairs.first, pairs.second, pairs.jaccard):
            column.tofile(file)
    files = {f"{FOLDER}/{name}": scratch / name for name in ("documents.parquet", "decisions.parquet", "pairs.bin")}
    files |= {band_name(band): path for band, path in enumerate(bands)}
    header = {"format": FORMAT, "version": VERSION, **header}
    output.add_file(HEADER, json.dumps(header, indent=1, sort_keys=True).encode(), role="sidecar")
    return sum(output.add_file(name, path, role="sidecar").bytes for name, path in files.items())
