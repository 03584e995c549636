"""Ranges of a large file: the same records as the whole file, whatever lies around a cut."""

from __future__ import annotations

import dataclasses
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.ingest.config import IngestConfig, SourceConfig
from tasks.ingest.files import list_files
from tasks.ingest.ranges import LineCuts, ranges_of, row_group_cuts
from tasks.ingest.read import read_file, read_range
from tasks.ingest.stage import STAGE
from tasks.spread import shutdown
from tasks.stage import run_stage
from tasks.store.filesystem import Store

SOURCE = SourceConfig(name="source", path="nowhere")
CONFIG = IngestConfig(sources=(SOURCE,), max_record_bytes=200)
LINES = st.one_of(
    st.text(max_size=90).map(lambda text: json.dumps({"text": text}, ensure_ascii=False).encode()),
    st.sampled_from([b"", b"\r", b"\xff\xfe", b"\xef\xbb\xbf{}", b"[1]", b'{"no": 1}', b'{"text": "' + b"x" * 300]),
)


def cuts_of(content: bytes, every: int, chunk_bytes: int) -> LineCuts:
    cuts = LineCuts(every)
    for start in range(0, len(content), chunk_bytes):
        cuts.feed(content[start : start + chunk_bytes])
    return cuts


def read_apart(content: bytes, name: str, cuts) -> list:
    parts = ranges_of(cuts)
    return [o for part in parts for o in read_range(io.BytesIO(content), name, SOURCE, CONFIG, part)]


@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=40), st.booleans(), st.integers(1, 300), st.integers(1, 300))
def test_ranges_of_lines_give_the_outcomes_of_the_whole_file(lines, ends, every, chunk_bytes):
    content = b"\xef\xbb\xbf" * (len(lines) % 2) + b"\n".join(lines) + b"\n" * ends
    cuts = cuts_of(content, every, chunk_bytes).finish()
    assert cuts == cuts_of(content, every, 1 << 20).finish()
    if not cuts:
        assert len(content) < 1.5 * every + max(map(len, lines)) + 4
        return
    assert read_apart(content, "a.jsonl", cuts) == list(read_file(io.BytesIO(content), "a.jsonl", SOURCE, CONFIG))


def parquet(texts: list[str | None], rows: int) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"text": texts, "url": [str(i) for i in range(len(texts))]}), file, row_group_size=rows)
    return file.getvalue()


def test_ranges_of_row_groups_give_the_outcomes_of_the_whole_file():
    content = parquet([None if i % 7 == 3 else f"text {i} " * 3 for i in range(103)], rows=10)
    cuts = row_group_cuts(io.BytesIO(content), SOURCE, 400)
    whole = list(read_file(io.BytesIO(content), "a.parquet", SOURCE, CONFIG))
    assert len(cuts) > 2 and len(whole) == 103
    assert read_apart(content, "a.parquet", cuts) == whole


def test_rows_behind_a_damaged_row_group_keep_their_numbers():
    content = bytearray(parquet([f"text {i} " * 3 for i in range(60)], rows=20))
    group = pq.ParquetFile(io.BytesIO(content)).metadata.row_group(1).column(0)
    start, size = group.dictionary_page_offset, group.total_compressed_size
    content[start + 2 : start + size] = b"\xff" * (size - 2)
    cuts = row_group_cuts(io.BytesIO(content), SOURCE, 1)
    whole = list(read_file(io.BytesIO(content), "a.parquet", SOURCE, CONFIG))
    assert [getattr(outcome, "reason", "kept") for outcome in whole].count("bad_row_group") == 1
    assert whole[-1].document.origin.record == 59
    assert read_apart(content, "a.parquet", cuts) == whole


@pytest.mark.parametrize("content", [b"PAR1 and no table", parquet(["a"], rows=1).replace(b"text", b"txet")])
def test_a_parquet_file_that_cannot_be_used_is_not_cut(content):
    assert row_group_cuts(io.BytesIO(content), SOURCE, 1) == ()


@pytest.fixture
def raw(tmp_path):
    folder = tmp_path / "raw"
    folder.mkdir()
    lines = b"".join(json.dumps({"text": f"{i} " * (i % 50 + 1)}).encode() + b"\n" for i in range(3000))
    (folder / "large.jsonl").write_bytes(lines)
    (folder / "packed.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(lines))
    (folder / "prose.txt").write_bytes(b"A line of prose.\n" * 10_000)
    (folder / "rows.parquet").write_bytes(parquet([f"row {i} {i * i}" for i in range(9000)], rows=1000))
    return folder


def config(folder, **more) -> IngestConfig:
    source = dataclasses.replace(SOURCE, path=str(folder))
    return IngestConfig(sources=(source,), **{"small_file_bytes": 1000, **more})


def test_only_plain_lines_and_row_groups_are_cut(raw):
    cut = {file.path: len(file.cuts) for file in list_files(config(raw, shard_bytes=40_000))}
    assert cut["large.jsonl"] >= 3 and cut["rows.parquet"] >= 1
    assert cut["packed.jsonl.zst"] == cut["prose.txt"] == 0
    assert not any(file.cuts for file in list_files(config(raw)))


def records(dataset) -> list:
    return [record for shard in dataset.shards for record in dataset.documents(shard)]


def test_cut_files_give_the_same_records_with_none_and_two_workers(tmp_path, raw):
    datasets = []
    try:
        for workers, shard_bytes in ((0, 4 << 20), (0, 40_000), (2, 40_000)):
            store = Store(str(tmp_path / f"{workers}-{shard_bytes}"))
            cut = config(raw, shard_bytes=shard_bytes)
            found = run_stage(STAGE, store=store, pipeline="t", config=cut, inputs={}, workers=workers)
            datasets.append(found.dataset)
    finally:
        shutdown()
    whole, apart, spread = datasets
    assert records(whole) == records(apart) and len(apart.shards) > len(whole.shards) == 4
    assert [(f.name, f.sha256) for f in apart.shards] == [(f.name, f.sha256) for f in spread.shards]
