"""Real files against their stated truth."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from tasks.document import Kept
from tasks.ingest.config import IngestConfig, SourceConfig
from tasks.ingest.read import read_file

# Files in which warcio stops, or takes a cut-off record for a whole one.
OTHER_THAN_WARCIO = {
    "warcio__example-bad-non-chunked.warc.gz": (6, "it reads on where warcio stops: records share a gzip member"),
    "warcio__example-bad.warc.gz.bad": (6, "likewise"),
    "warcio__example-wrong-chunks.warc.gz": (2, "likewise: one record spans two members"),
    "aut__badexample.arc.gz": (6, "likewise"),
    "chatnoir-resiliparse__block-sized-records.warc.lz4": (3, "warcio has no lz4"),
    "chatnoir-resiliparse__warcfile.warc.lz4": (50, "warcio has no lz4"),
}


def read(path: Path):
    source = SourceConfig(name="source", path=str(path))
    with open(path, "rb") as file:
        return list(read_file(file, path.name, source, IngestConfig(sources=(source,))))


def rows(path: Path):
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def num_kept(outcomes) -> int:
    return sum(isinstance(outcome, Kept) for outcome in outcomes)


def test_every_file_of_the_mini_corpus_gives_its_records(shared_data):
    mini = shared_data / "corpus" / "mini"
    found = {}
    for row in rows(mini / "MANIFEST.jsonl"):
        found[row["file"]] = read(mini / row["file"])
        expected = row.get("usable", row["records"])
        assert expected is None or num_kept(found[row["file"]]) == expected, row["file"]
    reasons = Counter(getattr(o, "reason", "kept") for o in found["broken/bad-lines.jsonl"])
    assert reasons == {"kept": 3, "bad_json": 3, "no_text": 2, "empty_line": 1, "bad_utf8": 1}
    *prefix, last = found["broken/cut-off.jsonl.gz"]
    assert num_kept(prefix) == len(prefix) == 17 and last.reason == "truncated_gzip"
    assert [o.reason for o in found["broken/empty.txt"] + found["broken/image.html"]] == ["empty_file", "binary"]


def test_the_crawl_gives_its_usable_pages_with_url_and_charset(shared_data):
    raw = shared_data / "corpus" / "raw"
    usable = [row for row in rows(raw / "crawl-sample.truth.jsonl") if row["usable"]]
    documents = [o.document for o in read(raw / "crawl-sample.warc.gz") if isinstance(o, Kept)]
    assert [d.url for d in documents] == [row["url"] for row in usable]
    assert [len(d.content) for d in documents] == [row["body_bytes"] for row in usable]
    assert [d.declared_charset for d in documents] == [row["http_charset"] for row in usable]


def test_each_warc_gives_as_many_outcomes_as_records(shared_data):
    for row in rows(shared_data / "warc" / "manifest.jsonl"):
        expected = OTHER_THAN_WARCIO.get(row["file"], (row["records_warcio"],))[0]
        assert len(read(shared_data / "warc" / row["file"])) == expected, row["file"]


@pytest.mark.parametrize("name", ["encodings/files.tar.zst", "html/pages.tar.zst", "corpus/raw/laws-gb.tar.zst"])
def test_no_real_text_in_any_encoding_passes_for_binary(shared_data, name):
    outcomes = read(shared_data / name)
    assert num_kept(outcomes) == len(outcomes) > 200


def test_a_damaged_byte_costs_a_crawl_one_record_and_alters_none(shared_data, tmp_path):
    content = (shared_data / "corpus" / "mini" / "crawl.warc.gz").read_bytes()
    noise = random.Random(1)

    def pages(data: bytes):
        (tmp_path / "crawl.warc.gz").write_bytes(data)
        outcomes = read(tmp_path / "crawl.warc.gz")
        return len(outcomes), {(o.document.url, o.document.content) for o in outcomes if isinstance(o, Kept)}

    num_records, whole = pages(content)
    for _ in range(40):
        damaged = bytearray(content)
        damaged[noise.randrange(len(content))] ^= noise.randrange(1, 256)
        count, found = pages(bytes(damaged))
        assert count == num_records
        assert found <= whole and len(whole - found) <= 1
