"""Reading a finished dataset, and the references that say which one is current.

<store>/datasets/<stage>/<key, 32 digits>/     shards, removed, quarantine, artifacts, manifest.json
<store>/refs/<pipeline>/<stage>.json           the dataset that the last run of that pipeline made or found
<store>/parts/<stage>/…                        finished parts (tasks/stage.py)
"""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.document import Document, RawRecord
from tasks.store import manifest as manifests
from tasks.store.filesystem import Store, StoreError
from tasks.store.manifest import FileEntry, Manifest
from tasks.store.tables import from_batch

BATCH_ROWS = 256


def dataset_folder(stage: str, key: str) -> str:
    return f"datasets/{stage}/{key[:32]}"


class Dataset:
    """One finished dataset of a store."""

    def __init__(self, store: Store, folder: str, manifest: Manifest):
        self.store, self.folder, self.manifest = store, folder, manifest
        self.stage, self.key, self.digest = manifest.stage, manifest.key, manifest.digest

    @property
    def url(self) -> str:
        return f"{self.store.url}/{self.folder}"

    @property
    def shards(self) -> list[FileEntry]:
        """The Parquet shards of kept documents, in order of name."""
        return sorted(self.manifest.files_of("shard"), key=lambda f: f.name)

    def files(self, role: str) -> list[FileEntry]:
        return sorted(self.manifest.files_of(role), key=lambda f: f.name)

    @classmethod
    def find(cls, store: Store, stage: str, key: str) -> Dataset | None:
        """The finished dataset of that key, or None. Raises StoreError for a damaged manifest."""
        folder = dataset_folder(stage, key)
        return cls.open_folder(store, folder) if store.exists(f"{folder}/{manifests.NAME}") else None

    @classmethod
    def open_folder(cls, store: Store, folder: str) -> Dataset:
        where = f"{store.url}/{folder}/{manifests.NAME}"
        try:
            data = store.read_json(f"{folder}/{manifests.NAME}")
        except FileNotFoundError:
            raise StoreError(f"{where}: no manifest, so no finished dataset is there") from None
        except ValueError as error:
            raise StoreError(f"{where}: not JSON ({error}). Delete the file and rerun the stage.") from error
        return cls(store, folder, Manifest.from_json(data, where))

    def reference(self) -> dict[str, str]:
        """A small picklable reference: `Dataset.load` opens it again in another process."""
        return {"store": self.store.url, "folder": self.folder}

    @classmethod
    def load(cls, reference: dict[str, str]) -> Dataset:
        return cls.open_folder(Store(reference["store"]), reference["folder"])

    def missing(self) -> list[str]:
        """Files that the manifest lists and the folder lacks, or holds with another size."""
        sizes = self.store.sizes(self.folder)
        return [f.name for f in self.manifest.files if sizes.get(f.name) != f.bytes]

    def open(self, name: str) -> IO[bytes]:
        return self.store.open(f"{self.folder}/{name}")

    @property
    def _local_root(self) -> Path:
        """Where `local` finds or puts files: the folder itself, or of a remote store a cache named by the digest."""
        if self.store.is_local:
            return Path(self.store.path(self.folder))
        return Path(tempfile.gettempdir()) / "danlu-cache" / self.digest[:32]

    def local(self, name: str) -> Path:
        """A local path of the file; of a remote store, a cached copy."""
        path = self._local_root / name
        if self.store.is_local:
            return path
        entry = next((f for f in self.manifest.files if f.name == name), None)
        if entry is None:
            raise StoreError(f"{self.url}: the manifest lists no file {name!r}")
        if not path.exists() or path.stat().st_size != entry.bytes:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f"{path.suffix}.partial")
            self.store.fs.get_file(self.store.path(f"{self.folder}/{name}"), str(partial))
            partial.replace(path)
        return path

    def local_folder(self, names: Iterable[str]) -> Path:
        """A local folder in which the files of these names lie as they do in the dataset."""
        for name in names:
            self.local(name)
        return self._local_root

    def batches(
        self, shard: FileEntry | str, columns: list[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one Parquet file of the dataset, streamed."""
        name = shard if isinstance(shard, str) else shard.name
        with self.open(name) as file:
            yield from pq.ParquetFile(file).iter_batches(batch_size=batch_rows, columns=columns)

    def documents(self, shard: FileEntry | str) -> Iterator[Document | RawRecord]:
        """The records of one shard, streamed in order."""
        for batch in self.batches(shard):
            yield from from_batch(batch)


def set_current(store: Store, pipeline: str, dataset: Dataset) -> None:
    """Make `dataset` the current one of its stage for `pipeline`."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    record = {"folder": dataset.folder, "key": dataset.key, "digest": dataset.digest, "at": now}
    store.write_json(f"refs/{pipeline}/{dataset.stage}.json", record)


def current(store: Store, pipeline: str, stage: str) -> Dataset | None:
    """The current dataset of a stage, or None when it never ran or was deleted."""
    name = f"refs/{pipeline}/{stage}.json"
    if not store.exists(name):
        return None
    folder = store.read_json(name)["folder"]
    return Dataset.open_folder(store, folder) if store.exists(f"{folder}/{manifests.NAME}") else None


def references(store: Store) -> dict[tuple[str, str], dict[str, Any]]:
    """Every reference of the store: (pipeline, stage) -> record."""
    found = {}
    for pipeline in store.names("refs"):
        for name in store.names(f"refs/{pipeline}"):
            if name.endswith(".json"):
                found[pipeline, name.removesuffix(".json")] = store.read_json(f"refs/{pipeline}/{name}")
    return found
