"""Garbage collection: delete datasets that nothing refers to.

Kept: what a reference names (`refs/<pipeline>/<stage>.json`) and everything it was made from, found through the
`inputs` of the manifests. An unfinished folder (no manifest) is kept while it is young, since a run may be filling it
or may resume it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from tasks.store import manifest as manifests
from tasks.store.dataset import Dataset, dataset_folder, references
from tasks.store.filesystem import Store, StoreError


@dataclass(frozen=True, kw_only=True)
class Garbage:
    """A folder that may go."""

    folder: str
    bytes: int
    why: str


def garbage(store: Store, *, unfinished_hours: float = 24.0) -> list[Garbage]:
    """What `collect` would delete."""
    kept = reachable(store)
    found = []
    for root in ("datasets", "work"):
        for stage in store.names(root):
            for key in store.names(f"{root}/{stage}"):
                folder = f"{root}/{stage}/{key}"
                dataset = f"datasets/{stage}/{key}"
                if dataset in kept:
                    continue
                finished = store.exists(f"{dataset}/{manifests.NAME}")
                if not finished and _age_hours(store, folder) < unfinished_hours:
                    continue
                size = sum(store.sizes(folder).values())
                why = "no reference leads to it" if finished else "unfinished and old"
                found.append(Garbage(folder=folder, bytes=size, why=why))
    return found


def collect(store: Store, *, unfinished_hours: float = 24.0) -> list[Garbage]:
    """Delete what `garbage` names, manifests first, so that a reader never sees half a dataset as whole."""
    gone = garbage(store, unfinished_hours=unfinished_hours)
    for item in gone:
        store.remove(f"{item.folder}/{manifests.NAME}")
        store.remove(item.folder)
    _forget_parts(store, {item.folder for item in gone})
    return gone


def reachable(store: Store) -> set[str]:
    """The folders of all datasets that a reference names, and of those they were made from."""
    pending = [record["folder"] for record in references(store).values()]
    kept: set[str] = set()
    while pending:
        folder = pending.pop()
        if folder in kept:
            continue
        kept.add(folder)
        try:
            dataset = Dataset.open_folder(store, folder)
        except StoreError:
            continue  # referenced and gone or damaged: nothing further can be found from it, and it stays untouched
        pending += [dataset_folder(stage, made["key"]) for stage, made in dataset.manifest.inputs.items()]
    return kept


def _age_hours(store: Store, folder: str) -> float:
    """Hours since the newest file of the folder was written; 0 where the file system does not say."""
    newest = 0.0
    for info in store.fs.find(store.path(folder), detail=True).values():
        when: Any = info.get("mtime") or info.get("LastModified") or info.get("created")
        if when is None:
            return 0.0
        newest = max(newest, float(when.timestamp() if hasattr(when, "timestamp") else when))
    return (time.time() - newest) / 3600 if newest else float("inf")


def _forget_parts(store: Store, folders: set[str]) -> None:
    """Remove the records of parts whose files went."""
    for name in store.sizes("parts") if folders else ():
        if store.read_json(f"parts/{name}")["folder"] in folders:
            store.remove(f"parts/{name}")
