"""Reading bytes as a file of a source, without a disk."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from tasks.document import Outcome
from tasks.ingest.config import IngestConfig, SourceConfig
from tasks.ingest.read import read_file

Read = Callable[..., list[Outcome]]


@pytest.fixture
def read() -> Read:
    """`read(name, content, max_record_bytes=…, text_field=…)`: the outcomes of that file."""

    def read(name: str, content: bytes, *, max_record_bytes: int = 1 << 20, **source: Any) -> list[Outcome]:
        one = SourceConfig(name="source", path="nowhere", **source)
        config = IngestConfig(sources=(one,), max_record_bytes=max_record_bytes)
        return list(read_file(io.BytesIO(content), name, one, config))

    return read


@pytest.fixture
def summary() -> Callable[[list[Outcome]], list[str]]:
    """`summary(outcomes)`: "kept", or the reason, of each."""
    return lambda outcomes: [getattr(outcome, "reason", "kept") for outcome in outcomes]
