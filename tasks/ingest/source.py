"""One named source: where it lies, whose it is, and what of it is read.

Nothing of *where* it lies reaches an id or a key: `origin.file` is relative to the source's root.
"""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass

MEDIA_TYPES = ("text/html", "text/plain", "text/markdown", "text/x-source")
PYTHON_ENV = "${python_env}"


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceConfig:
    """One named source."""

    name: str
    path: str  # file, folder or fsspec URL; ${python_env} is the running interpreter's site-packages
    licence: str | None = None  # of all records that do not name their own
    share: float | None = None  # of the mix; None: in proportion to its size
    priority: int = 0  # of two duplicates, the source with the higher number keeps its copy
    include: tuple[
        str, ...
    ] = ()  # globs on the relative path ("**" crosses folders, no "/": any folder; "./x": the top); () is all
    exclude: tuple[str, ...] = ()
    media_type: str | None = None  # instead of what the content and the name say
    text_field: str | None = None  # of JSON and Parquet records; None: the first of text, content, raw_content
    url_field: str = "url"
    licence_field: str | None = None  # None: license or licence
    max_files: int | None = None  # a fixed pseudo-random choice: by hash of the relative path
    max_bytes: int | None = None  # likewise; bytes of the files as they lie on disk

    def __post_init__(self) -> None:
        if not self.name or "/" in self.name or self.name in (".", ".."):
            raise ValueError(f"name: expected a word without '/', found {self.name!r}")
        if not self.path:
            raise ValueError(f"path: source {self.name!r} names no file, folder or URL")
        if self.media_type is not None and self.media_type not in MEDIA_TYPES:
            raise ValueError(f"media_type: expected one of {', '.join(MEDIA_TYPES)}, found {self.media_type!r}")
        if self.share is not None and not 0 <= self.share <= 1:
            raise ValueError(f"share: expected 0 to 1 (a part of the mix), found {self.share}")
        for key in ("max_files", "max_bytes"):
            value = getattr(self, key)
            if value is not None and value < 1:
                raise ValueError(f"{key}: expected at least 1 (or leave it out for no limit), found {value}")

    @property
    def url(self) -> str:
        """`path` with ${python_env} filled in."""
        return self.path.replace(PYTHON_ENV, sysconfig.get_paths()["purelib"])
