"""The stage as it runs: shards, quarantine, account, cache, and what a new file costs."""

from __future__ import annotations

import json
import os

import fsspec
import pytest

from tasks.ingest.config import IngestConfig, SourceConfig
from tasks.ingest.read import read_file
from tasks.ingest.stage import STAGE
from tasks.stage import run_stage
from tasks.store.filesystem import Store


@pytest.fixture
def raw(tmp_path):
    folder = tmp_path / "raw"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.jsonl").write_bytes(b'{"text": "one"}\nbroken \xff\n{"text": "two"}\n')
    (folder / "deep" / "b.html").write_text("<html>page</html>")
    (folder / "empty.txt").touch()
    os.symlink(folder / "nowhere", folder / "gone.txt")
    return folder


def ingest(store, folder, **settings):
    config = IngestConfig(sources=(SourceConfig(name="source", path=str(folder), licence="MIT"),), **settings)
    return run_stage(STAGE, store=store, pipeline="test", config=config, inputs={}, workers=0)


def records(dataset):
    return [record for shard in dataset.shards for record in dataset.documents(shard)]


def test_every_record_is_in_a_shard_or_in_quarantine_and_counted(tmp_path, raw):
    dataset = ingest(Store(str(tmp_path / "store")), raw).dataset
    assert sorted(record.content for record in records(dataset)) == [b"<html>page</html>", b"one", b"two"]
    total = dataset.manifest.account.total()
    assert (total.read, total.kept) == (6, 3)
    assert dict(total.quarantined) == {"bad_utf8": 1, "empty_file": 1, "unreadable_file": 1}
    assert {record.licence for record in records(dataset)} == {"MIT"}


def test_the_same_files_elsewhere_are_cached_and_give_the_same_ids(tmp_path, raw):
    store = Store(str(tmp_path / "store"))
    first = ingest(store, raw)
    raw.rename(tmp_path / "moved")
    again = ingest(store, tmp_path / "moved")
    assert again.cached and again.dataset.digest == first.dataset.digest


def test_a_file_that_becomes_readable_is_read(tmp_path, raw):
    store = Store(str(tmp_path / "store"))
    before = ingest(store, raw).dataset
    (raw / "nowhere").write_text("here now")
    after = ingest(store, raw).dataset
    assert "unreadable_file" not in after.manifest.account.total().quarantined
    assert {r.id for r in records(before)} < {r.id for r in records(after)}


def test_a_new_file_leaves_the_shards_of_other_files_as_they_are(tmp_path, raw, monkeypatch):
    for n in range(4):
        lines = b"".join(json.dumps({"text": f"{n} {i}"}).encode() + b"\n" for i in range(200))
        (raw / f"large{n}.jsonl").write_bytes(lines)
    store = Store(str(tmp_path / "store"))
    before = ingest(store, raw, small_file_bytes=1000).dataset
    (raw / "large9.jsonl").write_bytes(lines)
    opened = []
    monkeypatch.setattr(
        "tasks.ingest.stage.read_file", lambda file, name, *rest: opened.append(name) or read_file(file, name, *rest)
    )
    after = ingest(store, raw, small_file_bytes=1000).dataset
    assert opened == ["large9.jsonl"]
    assert {f.sha256 for f in before.shards} < {f.sha256 for f in after.shards}


def test_store_and_source_may_both_be_object_stores():
    fs = fsspec.filesystem("memory")
    fs.pipe("/raw-ingest/a.jsonl", b'{"text": "one"}')
    try:
        dataset = ingest(Store("memory://store-ingest"), "memory://raw-ingest").dataset
        assert [record.content for record in records(dataset)] == [b"one"]
    finally:
        fs.rm("/raw-ingest", recursive=True)
        fs.rm("/store-ingest", recursive=True)
