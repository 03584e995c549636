"""Check token shards against their manifest, and name the documents that a damaged byte belongs to.

Every file of the dataset is hashed again. A damaged .bin or .idx is then held against the sidecar beside it, which has
length, place and checksum of each document's tokens.

in    a finished dataset of the shards stage
out   a fault for each file that is not what it was
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from tasks.store.dataset import Dataset
from tasks.store.manifest import FileEntry
from training.indexed import HEADER, TOKEN

CHUNK_BYTES = 1 << 20
REDO = "Delete it and rerun the shards stage."


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One damaged file."""

    file: str
    message: str
    documents: tuple[str, ...] = ()  # ids whose tokens, or whose place among them, are not those that were written

    def __str__(self) -> str:
        named = f"; documents {', '.join(self.documents)}" if self.documents else ""
        return f"{self.file}: {self.message}{named}"


def verify(dataset: Dataset) -> list[Fault]:
    """Hash every file of the dataset again, logs apart."""
    entries = sorted((f for f in dataset.manifest.files if f.role != "log"), key=lambda f: f.name)
    found = [fault for entry in entries if (fault := verify_file(dataset, entry))]
    damaged = {fault.file for fault in found}
    return [with_documents(dataset, fault, damaged) for fault in found]


def verify_file(dataset: Dataset, entry: FileEntry) -> Fault | None:
    digest = hashlib.sha256()
    try:
        with dataset.open(entry.name) as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    except FileNotFoundError:
        return Fault(file=entry.name, message="is missing. Rerun the shards stage.")
    if digest.hexdigest() == entry.sha256:
        return None
    return Fault(
        file=entry.name,
        message=f"manifest says SHA-256 {entry.sha256[:16]}…, file has {digest.hexdigest()[:16]}…. {REDO}",
    )


def with_documents(dataset: Dataset, fault: Fault, damaged: set[str]) -> Fault:
    """The fault of a .bin or .idx with the documents that no longer match a whole sidecar."""
    stem, _, suffix = fault.file.rpartition(".")
    sidecar = f"{stem}.parquet"
    if suffix not in ("bin", "idx") or "missing" in fault.message:
        return fault
    if sidecar in damaged:
        return replace(fault, message=f"{fault.message} Its documents cannot be named: {sidecar} is damaged too.")
    with dataset.open(sidecar) as file:
        rows = pq.read_table(file, columns=["id", "num_tokens", "offset", "crc32"]).to_pylist()
    wrong = changed_tokens(dataset, fault.file, rows) if suffix == "bin" else changed_index(dataset, fault.file, rows)
    return replace(fault, documents=tuple(wrong))


def changed_tokens(dataset: Dataset, name: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    """Documents whose tokens do not have the checksum they had."""
    with dataset.open(name) as file:
        for row in rows:
            if zlib.crc32(file.read(TOKEN.itemsize * row["num_tokens"])) != row["crc32"]:
                yield row["id"]


def changed_index(dataset: Dataset, name: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    """Documents whose length or start in the .idx is not the sidecar's."""
    with dataset.open(name) as file:
        data = file.read()[HEADER.size :]
    lengths = np.frombuffer(data[: 4 * len(rows)], "<i4", len(data[: 4 * len(rows)]) // 4).tolist()
    starts = data[4 * len(rows) : 12 * len(rows)]
    places = (np.frombuffer(starts, "<i8", len(starts) // 8) // TOKEN.itemsize).tolist()
    for index, row in enumerate(rows):
        if lengths[index : index + 1] != [row["num_tokens"]] or places[index : index + 1] != [row["offset"]]:
            yield row["id"]
