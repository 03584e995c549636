"""`manifest.json`: what a dataset folder holds. It is written last; no manifest means not done.

`digest` covers the kept content alone (shards and artifacts, by name and SHA-256), not how it came about: a changed
threshold that changes no kept document gives the same digest, and nothing downstream runs again.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tasks.store.account import Account
from tasks.store.filesystem import StoreError, digest_of

FORMAT = "danlu-dataset"
VERSION = 1
NAME = "manifest.json"

# What a file is for. "shard": kept documents; "artifact": any other product; "sidecar": intermediate tables;
# "removed", "quarantine": evidence; "log": what differs from run to run (times, optimizer files)
CONTENT_ROLES = ("shard", "artifact")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file of a dataset."""

    name: str  # relative to the dataset's folder
    role: str
    bytes: int
    sha256: str
    rows: int = 0  # 0 for a file that is no table

    @property
    def stem(self) -> str:
        """The shard's name: `laws` of `shards/laws.parquet`."""
        return self.name.rsplit("/", 1)[-1].removesuffix(".parquet")


@dataclass(slots=True, kw_only=True)
class Manifest:
    """A finished dataset: its files, where it came from, and the account of its documents."""

    stage: str
    key: str
    key_parts: dict[str, Any]  # what the key was made of: `danlu why` compares them
    config: dict[str, Any]
    inputs: dict[str, dict[str, str]]  # stage -> {"key": …, "digest": …}
    files: list[FileEntry]
    account: Account
    facts: dict[str, Any] = field(default_factory=dict)  # figures that the stage measured
    created: str = ""  # UTC, ISO 8601
    seconds: float = 0.0

    @property
    def digest(self) -> str:
        return digest_of(sorted([f.role, f.name, f.sha256] for f in self.files if f.role in CONTENT_ROLES))

    def files_of(self, role: str) -> list[FileEntry]:
        return [f for f in self.files if f.role == role]

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "stage": self.stage,
            "key": self.key,
            "digest": self.digest,
            "key_parts": self.key_parts,
            "config": self.config,
            "inputs": self.inputs,
            "files": [asdict(f) for f in self.files],
            "account": self.account.to_rows(),
            "facts": self.facts,
            "created": self.created,
            "seconds": self.seconds,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any], where: str) -> Manifest:
        """Raises StoreError when `data` is no manifest of this version or its digest is not that of its files."""
        if data.get("format") != FORMAT or data.get("version") != VERSION:
            found = f"{data.get('format')!r} version {data.get('version')!r}"
            raise StoreError(f"{where}: expected {FORMAT!r} version {VERSION}, found {found}")
        manifest = cls(
            stage=data["stage"],
            key=data["key"],
            key_parts=data["key_parts"],
            config=data["config"],
            inputs=data["inputs"],
            files=[FileEntry(**f) for f in data["files"]],
            account=Account.from_rows(data["account"]),
            facts=data["facts"],
            created=data["created"],
            seconds=data["seconds"],
        )
        if manifest.digest != data["digest"]:
            raise StoreError(
                f"{where}: its digest is not that of the files it lists; it was edited. Delete it and rerun."
            )
        return manifest
