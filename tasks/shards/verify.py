"""Check token shards against their manifest, and name the documents that a damaged byte belongs to.

in    a finished dataset of the shards stage
out   a list of faults, empty when every file is what it was
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass

import pyarrow.parquet as pq

from tasks.store.dataset import Dataset
from tasks.store.manifest import FileEntry

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One damaged file."""

    file: str
    message: str
    documents: tuple[str, ...] = ()  # ids whose tokens are not those that were written

    def __str__(self) -> str:
        named = f"; documents {', '.join(self.documents)}" if self.documents else ""
        return f"{self.file}: {self.message}{named}"


def verify(dataset: Dataset) -> list[Fault]:
    """Hash every file of the dataset again."""
    found = [fault for entry in dataset.files("artifact") if (fault := verify_file(dataset, entry))]
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
        message=f"manifest says SHA-256 {entry.sha256[:16]}…, file has {digest.hexdigest()[:16]}…. "
        "Delete it and rerun the shards stage.",
    )


def with_documents(dataset: Dataset, fault: Fault, damaged: set[str]) -> Fault:
    """The fault of a .bin with the documents whose checksum in a whole sidecar no longer holds."""
    stem, _, suffix = fault.file.rpartition(".")
    sidecar = f"{stem}.parquet"
    if suffix != "bin" or sidecar in damaged or "missing" in fault.message:
        return fault
    with dataset.open(sidecar) as file:
        rows = pq.read_table(file, columns=["id", "num_tokens", "crc32"]).to_pylist()
    wrong = []
    with dataset.open(fault.file) as file:
        for row in rows:
            if zlib.crc32(file.read(4 * row["num_tokens"])) != row["crc32"]:
                wrong.append(row["id"])
    return Fault(file=fault.file, message=fault.message, documents=tuple(wrong))
