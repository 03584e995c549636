"""Documents that must not be used any more: a list kept in the store, which the first dedup stage honours.

`forgotten/<id>.json` holds one request: id, at, note. The list is the store's, not one pipeline's. A document on it is
dropped for `forgotten` before survivors are elected, so that copies which it had displaced compete again; what is
stored of it from there on is its record without the text. Datasets made before still hold it until they are made anew
and `danlu gc` has run; the raw source is its owner's to delete.

Whoever reads the list puts it into the key of the stage (`digest`), so that a longer list runs it again.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from tasks.dedup.survivors import Catalogue
from tasks.document import Document, Dropped
from tasks.store.filesystem import Store, digest_of

FOLDER = "forgotten"
REASON = "forgotten"
ID = re.compile("[0-9a-f]{32}")


def forgotten(store: Store) -> tuple[str, ...]:
    """The ids on the list, sorted."""
    names = (name.removesuffix(".json") for name in store.names(FOLDER) if name.endswith(".json"))
    return tuple(sorted(name for name in names if ID.fullmatch(name)))


def digest(ids: Iterable[str]) -> str:
    """What the list contributes to a content key."""
    return digest_of(sorted(ids))


def add(store: Store, identity: str, note: str = "") -> bool:
    """Put an id on the list; False when it was there. Raises ValueError for what is no document id."""
    if not ID.fullmatch(identity):
        raise ValueError(f"document id: expected 32 hex digits, found {identity!r}")
    if identity in forgotten(store):
        return False
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    store.write_json(f"{FOLDER}/{identity}.json", {"id": identity, "at": now, "note": note})
    return True


def remove(store: Store, identity: str) -> bool:
    """Take an id off the list; False when it was not there."""
    known = identity in forgotten(store)
    if known:
        store.remove(f"{FOLDER}/{identity}.json")
    return known


def rows_of(documents: Catalogue, ids: Iterable[str]) -> np.ndarray:
    """int64, ascending: the row numbers of the documents that are on the list."""
    wanted = np.array(sorted(ids), dtype="S32")
    return np.flatnonzero(np.isin(documents.ids, wanted))


def dropped(document: Document) -> Dropped:
    """The outcome of a document on the list: its record without the text."""
    evidence: dict[str, Any] = {"num_chars": len(document.text)}
    return Dropped(document=dataclasses.replace(document, text=""), reason=REASON, evidence=evidence)
