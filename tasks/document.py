"""The record that every data stage reads and writes, and the three things a stage may do with one.

A `RawRecord` is what ingest found: bytes, not yet text. `decode` turns it into a `Document`, and from there on
the same `Document` travels to the token shards; its `id` never changes. A stage answers each record it reads
with exactly one `Outcome`, which is what makes the account (`tasks/store/account.py`) add up.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

UNKNOWN_LANGUAGE = "und"  # BCP 47 "undetermined": before the language stage, and for what it cannot name


@dataclass(slots=True, kw_only=True, frozen=True)
class Origin:
    """Where a record came from."""

    file: str  # path below the source's root, "/"-separated; archive members as "archive.tar.zst!member.html"
    record: int  # ordinal of the record in that file, from 0
    offset: int  # byte offset of the record in the uncompressed file (WARC: in the file as it is)


@dataclass(slots=True, kw_only=True)
class RawRecord:
    """One record as ingest found it."""

    id: str  # document_id(...): 32 hex digits
    content: bytes  # the body alone: HTTP headers and chunking are already taken off
    media_type: str  # text/html, text/plain, text/markdown, text/x-source
    declared_charset: str | None  # of the HTTP header or the container; None when nothing outside the bytes says it
    source: str
    url: str | None
    licence: str | None
    origin: Origin


@dataclass(slots=True, kw_only=True)
class Document:
    """One document, from decode to the token shards."""

    id: str
    text: str
    source: str
    url: str | None = None
    licence: str | None = None
    language: str = UNKNOWN_LANGUAGE  # en, zh-Hans, zh-Hant, ja, …; "code" for program text
    script: str | None = None  # ISO 15924: Latn, Hans, Hant, Jpan, …
    languages: dict[str, float] = field(default_factory=dict)  # share of the characters each; empty unless mixed
    encoding: str | None = None  # Python codec name that read the bytes
    encoding_method: str | None = None  # bom, utf-8, http, meta, chardet, language, candidate, wide, segments, ftfy
    encoding_confidence: float | None = None  # 0 to 1
    media_type: str = "text/plain"
    metrics: dict[str, float] = field(default_factory=dict)  # measured once, filtered later
    origin: Origin


@dataclass(slots=True, kw_only=True)
class Kept:
    """The document goes on, possibly changed (`document` is the changed one)."""

    document: Document | RawRecord


@dataclass(slots=True, kw_only=True)
class Dropped:
    """The document was read and is not wanted."""

    document: Document
    reason: str  # snake_case; a folder name under removed/
    evidence: dict[str, str | float | int] = field(default_factory=dict)  # what a reviewer needs to agree or not


@dataclass(slots=True, kw_only=True)
class Quarantined:
    """The record could not be read; its bytes are kept so that a better reader can try again."""

    id: str
    content: bytes  # the raw bytes, cut to `MAX_QUARANTINE_BYTES` by the writer
    reason: str  # snake_case; a folder name under quarantine/
    detail: str  # for a person: what was expected, what was found, where
    source: str
    origin: Origin
    url: str | None = None
    licence: str | None = None
    language: str = UNKNOWN_LANGUAGE


Outcome = Kept | Dropped | Quarantined


def document_id(source: str, file: str, record: int, content: bytes) -> str:
    """128-bit identity of a record: 32 hex digits of BLAKE2b over source, path, record number and raw bytes.

    The parts are length-prefixed, so that no two different quadruples share an encoding.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in (source.encode(), file.encode("utf-8", "surrogateescape"), str(record).encode(), content):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
