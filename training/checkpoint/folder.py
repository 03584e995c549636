"""The folder of a checkpoint: its names, its manifest, and whether its bytes are those that were written.

in    a work folder
out   checkpoint folders, newest first; what is wrong with one
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

Level = Literal["light", "full", "archive"]
FORMAT, VERSION = "danlu-checkpoint", 1
PARTIAL, STALE = ".partial-", ".stale-"  # being written; replaced or to be deleted
NAME = re.compile(r"step-(\d{8,})")


class CheckpointError(RuntimeError):
    """Checkpoints exist but cannot be used, or one that is needed cannot be written."""


def root(work_dir: Path) -> Path:
    return work_dir / "checkpoints"


def name_of(step: int) -> str:
    return f"step-{step:08d}"


def step_of(folder: Path) -> int:
    match = NAME.fullmatch(folder.name)
    if match is None:
        raise ValueError(f"{folder}: expected the name of a checkpoint, step-00000100 or alike")
    return int(match.group(1))


def folders(work_dir: Path) -> list[Path]:
    """Finished-looking checkpoints, newest first."""
    found = root(work_dir).iterdir() if root(work_dir).is_dir() else ()
    return sorted((path for path in found if NAME.fullmatch(path.name)), key=step_of, reverse=True)


def partial_folders(work_dir: Path) -> list[Path]:
    """What a save that was cut off has left."""
    return sorted(root(work_dir).glob(f"{PARTIAL}*"))


def manifest_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "manifest.json").read_text(encoding="utf-8")))


def level_of(folder: Path) -> Level:
    """Checkpoints from before there were levels count as light: they go when newer ones are there."""
    try:
        level: Level = manifest_of(folder).get("level", "light")
    except (OSError, ValueError):
        return "light"
    return level


def find_fault(folder: Path) -> str | None:
    """Why `folder` cannot be trusted, or None. Reads every byte."""
    try:
        manifest = manifest_of(folder)
    except FileNotFoundError:
        return "manifest.json is missing: the save was cut off"
    except (OSError, ValueError) as error:
        return f"manifest.json cannot be read: {error}"
    if (manifest.get("format"), manifest.get("version")) != (FORMAT, VERSION):
        return f"manifest.json is {manifest.get('format')} version {manifest.get('version')}, not {FORMAT} {VERSION}"
    for name, entry in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != entry["bytes"]:
            return f"{name} holds {path.stat().st_size:,} bytes, the manifest says {entry['bytes']:,}"
        if sha256(path) != entry["sha256"]:
            return f"{name} differs from its SHA-256: its bytes changed after it was written"
    return None


def verified(work_dir: Path) -> Iterator[Path]:
    """Every checkpoint folder that verifies, oldest first."""
    return (folder for folder in reversed(folders(work_dir)) if find_fault(folder) is None)


def commit(partial: Path, final: Path) -> None:
    """Put a verified folder in its place. A re-saved step replaces the old folder, which was of the same numbers."""
    stale = set_aside(final) if final.exists() else None
    partial.rename(final)
    fsync(final.parent)
    if stale is not None:
        shutil.rmtree(stale, ignore_errors=True)


def remove(folder: Path) -> None:
    shutil.rmtree(set_aside(folder), ignore_errors=True)


def set_aside(folder: Path) -> Path:
    """Take a checkpoint's name away before it is deleted, so that a kill leaves no half of it under that name."""
    stale = folder.with_name(f"{STALE}{folder.name}")
    shutil.rmtree(stale, ignore_errors=True)
    return folder.rename(stale)


def sweep(work_dir: Path) -> None:
    """Remove what cut-off saves and deletions have left. For the only writer of the folder, before it writes."""
    for prefix in (PARTIAL, STALE):
        for path in root(work_dir).glob(f"{prefix}*"):
            shutil.rmtree(path, ignore_errors=True)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
