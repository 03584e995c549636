"""Outcomes of one raw file: numbered in the order they are found, each with its id.

A record that is dropped here was never decoded, so its `Document` has no text; the evidence says what it was.
"""

from __future__ import annotations

from collections.abc import Mapping

from tasks.document import Document, Dropped, Kept, Origin, Quarantined, RawRecord, document_id
from tasks.ingest.config import IngestConfig, SourceConfig


class Outcomes:
    """Makes the outcomes of one file (or archive member)."""

    def __init__(self, source: SourceConfig, config: IngestConfig, file: str):
        self.source, self.config, self.file = source, config, file
        self.num_records = 0

    def member(self, name: str) -> Outcomes:
        """The outcomes of an archive member, numbered on their own."""
        return Outcomes(self.source, self.config, f"{self.file}!{name}")

    def _next(self, content: bytes, offset: int) -> tuple[str, Origin]:
        record = self.num_records
        self.num_records += 1
        origin = Origin(file=self.file, record=record, offset=offset)
        return document_id(self.source.name, self.file, record, content), origin

    def kept(
        self,
        content: bytes,
        media_type: str,
        *,
        offset: int = 0,
        declared_charset: str | None = None,
        url: str | None = None,
        licence: str | None = None,
    ) -> Kept:
        identity, origin = self._next(content, offset)
        return Kept(
            document=RawRecord(
                id=identity,
                content=content,
                media_type=self.source.media_type or media_type,
                declared_charset=declared_charset,
                source=self.source.name,
                url=url,
                licence=licence or self.source.licence,
                origin=origin,
            )
        )

    def dropped(
        self,
        identity: bytes,
        reason: str,
        evidence: Mapping[str, str | float | int],
        *,
        offset: int = 0,
        media_type: str = "text/plain",
        url: str | None = None,
    ) -> Dropped:
        """`identity` is what the id is made from: the record's raw bytes, or its header when those were passed over."""
        id_, origin = self._next(identity, offset)
        document = Document(
            id=id_,
            text="",
            source=self.source.name,
            url=url,
            licence=self.source.licence,
            media_type=media_type,
            origin=origin,
        )
        return Dropped(document=document, reason=reason, evidence=dict(evidence))

    def quarantined(
        self, content: bytes, reason: str, detail: str, *, offset: int = 0, url: str | None = None
    ) -> Quarantined:
        id_, origin = self._next(content, offset)
        return Quarantined(
            id=id_,
            content=content,
            reason=reason,
            detail=f"{self.file}: {detail}",
            source=self.source.name,
            origin=origin,
            url=url,
            licence=self.source.licence,
        )
