"""Which files a source holds, and the digest of each.

Paths are relative to the source's root, so that neither ids nor keys depend on where the folder lies. Hidden files
and `__pycache__` are left out. A linked folder is followed unless it leads back to one we are in. A file that cannot
be opened is listed with its error: ingest quarantines it, and reads it when it can be opened again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import fsspec.core
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import glob_translate

from tasks.ingest.config import IngestConfig, SourceConfig
from tasks.ingest.ranges import Cut, line_cuts, row_group_cuts

HASH_THREADS = 4
CHUNK_BYTES = 1 << 20
SKIPPED_NAMES = frozenset(("__pycache__",))

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawFile:
    """One file of a source."""

    source: str
    path: str  # below the source's root
    size: int
    sha256: str  # of the bytes as they lie there; "unreadable: …" when they cannot be read
    error: str | None = None  # why not
    cuts: tuple[Cut, ...] = ()  # where a large file is cut into parts


@dataclass(frozen=True, slots=True)
class Found:
    """A file that was listed and not opened yet."""

    path: str
    size: int
    error: str | None = None


def open_source(source: SourceConfig) -> tuple[Any, str]:
    """The file system of a source and the root in it."""
    fs, root = fsspec.core.url_to_fs(source.url)
    return fs, root.rstrip("/") or root


def file_path(root: str, path: str, is_file: bool) -> str:
    """The file system's own path of the file `path` of a source."""
    return root if is_file else f"{root.rstrip('/')}/{path}"


def list_files(config: IngestConfig) -> list[RawFile]:
    """All files of all sources, in the order of sources and then of paths, with their digests.

    Raises ValueError for a source that does not exist or holds no matching file.
    """
    files: list[RawFile] = []
    for source in config.sources:
        fs, root = open_source(source)
        found = chosen(find_files(source, fs, root), source)
        is_file = fs.isfile(root)
        with ThreadPoolExecutor(HASH_THREADS) as threads:
            paths = [file_path(root, item.path, is_file) for item in found]
            files += threads.map(partial(_hash, fs, source, config.shard_bytes), paths, found)
    return files


def find_files(source: SourceConfig, fs: Any, root: str) -> list[Found]:
    """The files of a source that its globs let through, sorted by path."""
    if not fs.exists(root) and not (isinstance(fs, LocalFileSystem) and os.path.lexists(root)):
        raise ValueError(
            f"sources: {source.name!r}: expected a file or folder at path {source.path!r}, found nothing there"
        )
    if not fs.isdir(root):
        return [Found(PurePosixPath(root).name, 0)]
    include, exclude = _patterns(source.include), _patterns(source.exclude)
    walked = list(_walk(fs, root, "", (_real_path(fs, root),)))
    found = [f for f in walked if (not include or _matches(f.path, include)) and not _matches(f.path, exclude)]
    if not found:
        raise ValueError(
            f"sources: {source.name!r}: none of the {len(walked):,} files under {source.path!r} match "
            f"include {list(source.include) or ['**']} and exclude {list(source.exclude)}; hidden files do not count"
        )
    return sorted(found, key=lambda f: f.path)


def _walk(fs: Any, folder: str, prefix: str, above: tuple[str, ...]) -> Iterator[Found]:
    """The files below `folder`; `above` holds the real paths of the folders we are in."""
    try:
        entries = fs.ls(folder, detail=True)
    except (ConnectionError, TimeoutError):
        raise
    except OSError as error:
        yield Found(prefix.rstrip("/") or ".", 0, _describe(error))
        return
    for entry in entries:
        full = entry["name"].rstrip("/")
        name = full.rsplit("/", 1)[-1]
        if name.startswith(".") or name in SKIPPED_NAMES or full == folder:
            continue
        if entry["type"] == "directory" or (entry.get("islink") and fs.isdir(full)):
            real = _real_path(fs, full)
            if real in above:
                log.warning("%s leads back to a folder it lies in: not followed", full)
                continue
            yield from _walk(fs, full, f"{prefix}{name}/", (*above, real))
        elif entry["type"] == "file" or entry.get("islink"):
            yield Found(f"{prefix}{name}", int(entry.get("size") or 0))
        else:  # a pipe or a socket would block for ever
            yield Found(f"{prefix}{name}", 0, "neither a file nor a folder")


def _real_path(fs: Any, path: str) -> str:
    return os.path.realpath(path) if isinstance(fs, LocalFileSystem) else path


def _patterns(globs: Iterable[str]) -> list[re.Pattern[str]]:
    whole = (glob.removeprefix("./") if "/" in glob else f"**/{glob}" for glob in globs)
    return [re.compile(glob_translate(glob)) for glob in whole]


def _matches(path: str, patterns: Iterable[re.Pattern[str]]) -> bool:
    return any(pattern.match(path) for pattern in patterns)


def path_hash(path: str) -> int:
    """A stable 64-bit hash of a relative path: chooses files and ends groups."""
    return int.from_bytes(hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "big")


def chosen(found: list[Found], source: SourceConfig) -> list[Found]:
    """What max_files and max_bytes leave: files in the order of their path's hash until the limit is met."""
    if source.max_files is None and source.max_bytes is None:
        return found
    taken: list[Found] = []
    num_bytes = 0
    for item in sorted(found, key=lambda f: (path_hash(f.path), f.path)):
        num_bytes += item.size
        if source.max_bytes is not None and num_bytes > source.max_bytes and taken:
            break
        taken.append(item)
        if len(taken) == source.max_files:
            break
    return sorted(taken, key=lambda f: f.path)


def _hash(fs: Any, source: SourceConfig, part_bytes: int, path: str, item: Found) -> RawFile:
    """A listed file with its digest and cuts, or its error."""
    error = item.error
    if error is None:
        try:
            digest, size, cuts = _read_through(fs, source, part_bytes, path, item.path)
            return RawFile(source=source.name, path=item.path, size=size, sha256=digest, cuts=cuts)
        except (ConnectionError, TimeoutError):  # of the machine, not of the data: the stage fails and is run again
            raise
        except OSError as failure:
            error = _describe(failure)
    return RawFile(source=source.name, path=item.path, size=0, sha256=f"unreadable: {error}", error=error)


def _read_through(
    fs: Any, source: SourceConfig, part_bytes: int, path: str, name: str
) -> tuple[str, int, tuple[Cut, ...]]:
    """Digest, size and cuts of a file."""
    digest, size = hashlib.sha256(), 0
    with fs.open(path, "rb") as file:
        chunk = file.read(CHUNK_BYTES)
        is_parquet = chunk.startswith(b"PAR1")
        lines = line_cuts(chunk, name, source, part_bytes) if len(chunk) >= min(part_bytes, CHUNK_BYTES) else None
        while chunk:
            digest.update(chunk)
            size += len(chunk)
            if lines:
                lines.feed(chunk)
            chunk = file.read(CHUNK_BYTES)
        cuts = row_group_cuts(file, source, part_bytes) if is_parquet and size > part_bytes else ()
    return digest.hexdigest(), size, lines.finish() if lines else cuts


def _describe(error: OSError) -> str:
    """The error without the path, which differs from machine to machine."""
    return f"{type(error).__name__}: {error.strerror or 'cannot be read'}"
