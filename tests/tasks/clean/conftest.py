"""Every record of the shared test data, whatever file or archive it lies in."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.document import Kept, Quarantined, RawRecord
from tasks.ingest.config import IngestConfig, SourceConfig
from tasks.ingest.read import read_file


@pytest.fixture(scope="session")
def shared_records(shared_data: Path) -> Callable[[], Iterator[tuple[str, RawRecord | Quarantined]]]:
    """(file, record) of all files, each content once; what ingest quarantines is a record of bytes here, too."""

    def read() -> Iterator[tuple[str, RawRecord | Quarantined]]:
        seen = set()
        for path in sorted(path for path in shared_data.rglob("*") if path.is_file()):
            name = path.relative_to(shared_data).as_posix()
            source = SourceConfig(name="shared", path=str(path), licence="test")
            with path.open("rb") as file:
                for outcome in read_file(file, name, source, IngestConfig(sources=(source,))):
                    record = outcome.document if isinstance(outcome, Kept) else outcome
                    if not isinstance(record, RawRecord | Quarantined):
                        continue
                    digest = hashlib.sha256(record.content).digest()
                    if digest not in seen:
                        seen.add(digest)
                        yield name, record

    return read
