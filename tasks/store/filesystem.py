"""A store: one folder or object-store prefix, reached through fsspec.

Every write is atomic: a local file is written under a temporary name, synced and renamed; an object store publishes
an object only when its upload is complete. So a reader sees a whole file or none, also after a SIGKILL.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import fsspec.core
from fsspec.implementations.local import LocalFileSystem

CHUNK_BYTES = 1 << 20
WRITING = ".writing-"  # then a random part and the writer's pid


class StoreError(RuntimeError):
    """The store holds something other than what its manifest says, or cannot be written."""


class Store:
    """Files below one URL. Names are relative, "/"-separated."""

    def __init__(self, url: str):
        if "://" not in url:
            url = str(Path(url).expanduser().absolute())
        self.url = url.rstrip("/")
        self.fs, self.root = fsspec.core.url_to_fs(self.url)
        self.root = self.root.rstrip("/")

    @property
    def is_local(self) -> bool:
        return isinstance(self.fs, LocalFileSystem)

    def path(self, name: str) -> str:
        """The file system's own path of `name`."""
        return f"{self.root}/{name}" if name else self.root

    def exists(self, name: str) -> bool:
        return bool(self.fs.exists(self.path(name)))

    def open(self, name: str) -> IO[bytes]:
        return self.fs.open(self.path(name), "rb")

    def read_json(self, name: str) -> Any:
        with self.open(name) as file:
            return json.loads(file.read())

    def write(self, name: str, data: bytes) -> None:
        """Write the whole of `data` under `name`, atomically. Raises StoreError when the disk is full."""
        with self.temporary(name) as temporary:
            temporary.write_bytes(data)
            self.publish(temporary, name)

    def write_json(self, name: str, value: Any) -> None:
        self.write(name, json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True).encode() + b"\n")

    @contextlib.contextmanager
    def temporary(self, name: str) -> Iterator[Path]:
        """A local path to build `name` at; on the store's own disk when that is local, so that a rename will do."""
        if self.is_local:
            folder = Path(self.path(name)).parent
            folder.mkdir(parents=True, exist_ok=True)
        else:
            folder = Path(tempfile.gettempdir())
        handle, path = tempfile.mkstemp(dir=folder, prefix=WRITING, suffix=f"-{os.getpid()}")
        os.close(handle)
        try:
            yield Path(path)
        except OSError as error:
            raise named_full_disk(error, self.path(name)) from error
        finally:
            Path(path).unlink(missing_ok=True)

    def publish(self, local: Path, name: str) -> None:
        """Make the finished local file visible as `name`; `local` is used up on a local store."""
        if self.is_local:
            with open(local, "rb") as file:
                os.fsync(file.fileno())
            os.chmod(local, 0o644)
            os.replace(local, self.path(name))
        else:
            self.fs.put_file(str(local), self.path(name))

    def copy(self, name: str, target: str) -> None:
        """`target` becomes the same bytes as `name`; on a local disk a hard link, so that it costs no space."""
        if self.is_local:
            destination = Path(self.path(target))
            destination.parent.mkdir(parents=True, exist_ok=True)
            destination.unlink(missing_ok=True)
            try:
                os.link(self.path(name), destination)
            except OSError as error:
                if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
                    raise
                with self.temporary(target) as temporary:  # a disk without hard links: copy
                    shutil.copyfile(self.path(name), temporary)
                    self.publish(temporary, target)
        else:
            self.fs.copy(self.path(name), self.path(target))

    def remove(self, name: str) -> None:
        """Remove a file or a folder with all in it; absent is fine."""
        with contextlib.suppress(FileNotFoundError):
            self.fs.rm(self.path(name), recursive=True)

    def sweep(self, folder: str) -> None:
        """Remove what writers that are dead by now left unpublished below a local folder."""
        if self.is_local:
            for path in Path(self.path(folder)).rglob(f"{WRITING}*"):
                pid = path.name.rsplit("-", 1)[-1]
                if not Path(f"/proc/{pid}").exists() or pid == str(os.getpid()):
                    path.unlink(missing_ok=True)

    def sizes(self, name: str) -> dict[str, int]:
        """Each file below folder `name` (relative to it) and its bytes; empty when there is no such folder."""
        try:
            found = self.fs.find(self.path(name), detail=True)
        except FileNotFoundError:
            return {}
        prefix = self.fs._strip_protocol(self.path(name)).rstrip("/") + "/"
        return {path[len(prefix) :]: int(info["size"]) for path, info in found.items() if path.startswith(prefix)}

    def names(self, folder: str) -> list[str]:
        """The names directly in `folder`, sorted; empty when there is no such folder."""
        try:
            found = self.fs.ls(self.path(folder), detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(path.rstrip("/").rsplit("/", 1)[-1] for path in found)


def named_full_disk(error: OSError, where: object) -> Exception:
    """A StoreError that says what to do when the disk is full; any other error as it is."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return error
    return StoreError(
        f"{where}: no space left while writing. Free some (`danlu gc`) and run the same command again: it resumes at "
        "the shards that are missing."
    )


def sha256_file(path: Path) -> str:
    """SHA-256 of a local file, read in chunks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def digest_of(value: Any) -> str:
    """SHA-256 of a JSON-able value in canonical form (sorted keys, no spaces)."""
    canonical = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()
