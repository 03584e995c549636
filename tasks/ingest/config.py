"""The settings of the ingest stage."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from tasks.ingest.inputs import sources_from_path
from tasks.ingest.source import SourceConfig

__all__ = ["IngestConfig", "SourceConfig", "sources_from_path"]


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestConfig:
    """The ingest stage."""

    sources: tuple[SourceConfig, ...]
    shard_bytes: int = (
        4 << 20
    )  # of content in one shard: the unit of work of all that follows, so two workers end together
    max_record_bytes: int = 32 << 20  # a longer line, file or body is quarantined, and never held whole
    small_file_bytes: int = 256 << 10  # smaller files share a part
    http_statuses: tuple[int, ...] = (200,)  # of WARC responses that are documents

    def __post_init__(self) -> None:
        for key in ("shard_bytes", "max_record_bytes", "small_file_bytes"):
            if getattr(self, key) < 1:
                raise ValueError(f"{key}: expected at least 1 byte, found {getattr(self, key)}")
        if not self.sources:
            raise ValueError("sources: none given; name at least one, or pass --input PATH")
        names = [source.name for source in self.sources]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"sources: the names must differ, found twice: {', '.join(twice)}")

    def key_settings(self) -> dict[str, Any]:
        """What a part's output is a function of, beside its own inputs: the sources are keyed by content."""
        names = (field.name for field in dataclasses.fields(self) if field.name != "sources")
        return {name: getattr(self, name) for name in names}

    def source(self, name: str) -> SourceConfig:
        """The source of that name."""
        return next(source for source in self.sources if source.name == name)
