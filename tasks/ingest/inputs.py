"""Sources from a bare `--input PATH`: a file, a folder of anything, or a URL."""

from __future__ import annotations

import re
from typing import Any

import fsspec.core

from tasks.ingest.sniff import COMPRESSION_NAMES, JSON_LINES, extension_of
from tasks.ingest.source import SourceConfig

CONTAINERS = JSON_LINES | {"parquet", "warc", "arc", "wet", "wat", "tar", "json"}


def sources_from_path(path: str) -> tuple[SourceConfig, ...]:
    """One source for each container file and each first-level folder, one more for the loose documents beside them."""
    fs, root = fsspec.core.url_to_fs(path)
    root = root.rstrip("/") or root
    if not fs.exists(root):
        raise ValueError(f"--input {path}: expected a file or folder, found nothing there")
    base = _slug(root.rsplit("/", 1)[-1]) or "input"
    if not fs.isdir(root):
        return (SourceConfig(name=_stem(base), path=path),)
    entries = sorted(
        (entry["name"].rstrip("/").rsplit("/", 1)[-1], _is_folder(fs, entry)) for entry in fs.ls(root, detail=True)
    )
    names = [(name, folder) for name, folder in entries if not name.startswith(".") and name != "__pycache__"]
    taken: set[str] = set()
    sources, loose = [], []
    for name, folder in names:
        if not folder and not _is_container(name):
            loose.append(name)
        elif not folder or _holds_files(fs, f"{root}/{name}"):
            source = _unique(_slug(name) if folder else _stem(_slug(name)), name, taken)
            sources.append(SourceConfig(name=source, path=f"{path.rstrip('/')}/{name}"))
    if loose:
        # The loose documents are a glob, not a list: a new one joins the source and renames nothing.
        exclude = tuple(f"{_escape(name)}/**" for name, folder in names if folder)
        exclude += tuple(_top(name) for name, folder in names if not folder and _is_container(name))
        sources.append(SourceConfig(name=_unique(base, "loose", taken), path=path, exclude=exclude))
    if not sources:
        raise ValueError(f"--input {path}: the folder holds no file that can be read (hidden files do not count)")
    return tuple(sources)


def _is_folder(fs: Any, entry: dict[str, Any]) -> bool:
    return entry["type"] == "directory" or bool(entry.get("islink") and fs.isdir(entry["name"]))


def _holds_files(fs: Any, folder: str) -> bool:
    return any(files for _, _, files in fs.walk(folder))


def _is_container(name: str) -> bool:
    return extension_of(name) in CONTAINERS or name.lower().endswith((".tgz", ".arc.gz"))


def _stem(name: str) -> str:
    """The name without the extensions of container and compression."""
    parts = name.split(".")
    while len(parts) > 1 and parts[-1].lower() in CONTAINERS | COMPRESSION_NAMES:
        parts.pop()
    return ".".join(parts)


def _slug(name: str) -> str:
    return re.sub(r"[\s/\\:]+", "-", name).strip("-")


def _top(name: str) -> str:
    """A glob for the file `name` at the top alone; without a "/" it would match in every folder."""
    return f"./{_escape(name)}"


def _escape(name: str) -> str:
    return re.sub(r"([*?\[\]])", r"[\1]", name)


def _unique(name: str, full: str, taken: set[str]) -> str:
    """`name`, else the whole file name with its extensions, else a numbered one."""
    for candidate in (name, _slug(full)):
        if candidate and candidate not in taken:
            taken.add(candidate)
            return candidate
    number = next(n for n in range(2, len(taken) + 3) if f"{name}-{n}" not in taken)
    taken.add(f"{name}-{number}")
    return f"{name}-{number}"
