"""Units of work: which files are read together. A pure function of the sources and their sorted files.

A file of `small_file_bytes` or more is a part of its own, or several where it is large and can be cut (`ranges`), so
that one file keeps all workers busy, here and in the stages that read its shards. Smaller files are grouped along the
sorted list; a group ends after a file whose path's hash says so, not after a count. So a new file changes the group it
falls into, and where it ends one, that group splits in two; no other group is disturbed. The caps on a group only cut
what chance left too long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tasks.ingest.config import IngestConfig, SourceConfig
from tasks.ingest.files import RawFile, list_files, path_hash
from tasks.ingest.ranges import ranges_of
from tasks.settings import to_dict
from tasks.stage import Part
from tasks.store.filesystem import digest_of

GROUP_FILES = 128  # mean number of small files in a group
MAX_GROUP_FILES = 1024
PLACE_KEYS = ("path", "share", "priority", "include", "exclude", "max_files", "max_bytes")


def plan_parts(config: IngestConfig, files: Sequence[RawFile]) -> list[Part]:
    """The parts, in the order of sources and paths."""
    parts: list[Part] = []
    for source in config.sources:
        own = [file for file in files if file.source == source.name]
        for group in group_files(own, config):
            whole, first = _part(source, group), group[0]
            parts += _ranges(whole, first) if first.cuts and first.size >= config.small_file_bytes else [whole]
    return parts


def group_files(files: Iterable[RawFile], config: IngestConfig) -> list[list[RawFile]]:
    """The files of one source, cut into groups."""
    groups: list[list[RawFile]] = []
    open_group: list[RawFile] = []
    num_bytes = 0
    for file in sorted(files, key=lambda f: f.path):
        if file.size >= config.small_file_bytes:
            groups.append([file])  # the open group goes on behind it
            continue
        if not open_group:
            groups.append(open_group)
            num_bytes = 0
        open_group.append(file)
        num_bytes += file.size
        ends = path_hash(file.path) % GROUP_FILES == 0
        if ends or len(open_group) >= MAX_GROUP_FILES or num_bytes >= config.shard_bytes:
            open_group = []
    return groups


def _part(source: SourceConfig, files: list[RawFile]) -> Part:
    first = files[0].path
    name = f"{_slug(source.name)}-{_slug(first.rsplit('/', 1)[-1])[:40]}-{path_hash(source.name + '/' + first):016x}"
    return Part(
        name=name,
        step="read",
        inputs=(source_digest(source), *(f"{file.path}={file.sha256}" for file in files)),
        payload={"source": source.name, "files": [(file.path, file.error) for file in files]},
        size=sum(file.size for file in files),
    )


def _ranges(whole: Part, file: RawFile) -> list[Part]:
    """The part of one file, cut."""
    ranges = ranges_of(file.cuts)
    return [
        Part(
            name=f"{whole.name}-{index:05d}",
            step=whole.step,
            inputs=(*whole.inputs, repr(part)),
            payload={**whole.payload, "range": part},
            size=file.size // len(ranges),
        )
        for index, part in enumerate(ranges)
    ]


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name)


def source_digest(source: SourceConfig) -> str:
    """Digest of the settings of a source that reach its records: not where it lies, nor which of its files are read."""
    return digest_of({key: value for key, value in to_dict(source).items() if key not in PLACE_KEYS})


def input_digests(config: IngestConfig) -> dict[str, str]:
    """Each source's settings and each raw file, as "source/path", with its digest.

    Raises ValueError for a source that is missing or holds no matching file.
    """
    return digests_of(config, list_files(config))


def digests_of(config: IngestConfig, files: Iterable[RawFile]) -> dict[str, str]:
    """Likewise, of files that are listed already."""
    digests = {f"{source.name} (settings)": source_digest(source) for source in config.sources}
    return digests | {f"{file.source}/{file.path}": file.sha256 for file in files}
