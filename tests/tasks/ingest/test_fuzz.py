"""Whatever the bytes are, the reader answers: no exception, at least one outcome, unique ids."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.ingest.config import IngestConfig, SourceConfig
from tasks.ingest.read import read_file

EXTENSIONS = (
    "txt",
    "html",
    "md",
    "py",
    "json",
    "jsonl",
    "jsonl.gz",
    "warc",
    "warc.gz",
    "arc",
    "parquet",
    "tar",
    "zst",
    "",
)
SOURCE = SourceConfig(name="source", path="nowhere")
CONFIG = IngestConfig(sources=(SOURCE,), max_record_bytes=1 << 16)
FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def samples() -> dict[str, bytes]:
    lines = b"".join(json.dumps({"text": f"line {n}" * 5}).encode() + b"\n" for n in range(20))
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    head = f"WARC/1.0\r\nWARC-Type: response\r\nContent-Type: application/http\r\nContent-Length: {len(http)}\r\n\r\n"
    warc = head.encode() + http + b"\r\n\r\n"
    arc = b"filedesc://x 0.0.0.0 20260101 text/plain 4\nabcd\n"
    arc += f"http://a.example/ 1.2.3.4 20260101000000 text/html {len(http)}\n".encode() + http + b"\n"
    table, archive = io.BytesIO(), io.BytesIO()
    pq.write_table(pa.table({"text": [f"row {n}" for n in range(30)]}), table, row_group_size=10)
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in (("a.html", b"<html>"), ("b.jsonl.gz", gzip.compress(lines)), ("c.warc", warc)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return {
        "a.jsonl": lines,
        "a.jsonl.gz": gzip.compress(lines) + gzip.compress(lines),
        "a.jsonl.zst": zstandard.compress(lines),
        "a.jsonl.bz2": bz2.compress(lines),
        "a.jsonl.xz": lzma.compress(lines),
        "a.warc": warc * 4,
        "a.warc.gz": gzip.compress(warc) * 4,
        "a.arc": arc,
        "a.parquet": table.getvalue(),
        "a.tar": archive.getvalue(),
        "a.tar.zst": zstandard.compress(archive.getvalue()),
    }


SAMPLES = samples()


def check(name: str, content: bytes) -> None:
    outcomes = list(read_file(io.BytesIO(content), name, SOURCE, CONFIG))
    assert outcomes
    ids = [outcome.document.id if hasattr(outcome, "document") else outcome.id for outcome in outcomes]
    assert len(set(ids)) == len(ids)


@FUZZ
@given(st.binary(max_size=600), st.sampled_from(EXTENSIONS))
def test_arbitrary_bytes_under_any_name(content, extension):
    check(f"file.{extension}", content)


@FUZZ
@given(
    st.sampled_from([b"WARC/1.0\r\n", b"filedesc://", b"PAR1", b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd", b"BZh91AY&SY",
                     b"\xfd7zXZ\0", b"\x04\x22\x4d\x18", b"\x50\x2a\x4d\x18", b"{", b"[{", b"<html>", b"\xff\xfe"]),
    st.binary(max_size=300),
    st.sampled_from(EXTENSIONS),
)  # fmt: skip
def test_arbitrary_bytes_after_each_magic(magic, rest, extension):
    check(f"file.{extension}", magic + rest)


@pytest.mark.parametrize("name", SAMPLES)
@settings(FUZZ, max_examples=60)
@given(data=st.data())
def test_a_good_file_with_a_damaged_stretch(name, data):
    content = SAMPLES[name]
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, min(len(content), start + 40)))
    check(name, content[:start] + data.draw(st.binary(max_size=40)) + content[stop:])


@pytest.mark.parametrize("name", SAMPLES)
def test_a_good_file_cut_anywhere(name):
    content = SAMPLES[name]
    for end in range(0, len(content), max(1, len(content) // 60)):
        check(name, content[:end])


def test_a_run_of_comments_is_sniffed_in_linear_time():
    check("a.txt", b"<!---->" * 2000)
