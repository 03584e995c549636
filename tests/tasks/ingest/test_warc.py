"""WARC and ARC: the right documents, and damage that costs one record."""

from __future__ import annotations

import gzip
import io
import zlib

import brotli
import pytest
from fastwarc.warc import ArchiveIterator

from tasks.ingest.http_response import BadResponse, dechunk, decode_body, parse_head

PAGE = "<html><body>页面</body></html>".encode()


def http(body: bytes = PAGE, *headers: str, status: int = 200, media: str = "text/html; charset=UTF-8") -> bytes:
    head = [f"HTTP/1.1 {status} X", f"Content-Type: {media}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def record(block: bytes, kind: str = "response", url: str = "http://a.example/", length: int | None = None) -> bytes:
    fields = {
        "WARC-Type": kind,
        "WARC-Record-ID": "<urn:uuid:00000000-0000-0000-0000-000000000000>",
        "WARC-Date": "2026-01-01T00:00:00Z",
        "WARC-Target-URI": url,
        "Content-Type": f"application/http; msgtype={kind}",
        "Content-Length": str(len(block) if length is None else length),
    }
    head = "".join(f"{key}: {value}\r\n" for key, value in fields.items())
    return b"WARC/1.0\r\n" + head.encode() + b"\r\n" + block + b"\r\n\r\n"


GOOD = record(http())


def test_a_response_gives_its_body_url_and_charset(read):
    [outcome] = read("a.warc", GOOD)
    document = outcome.document
    assert (document.content, document.url, document.declared_charset) == (PAGE, "http://a.example/", "utf-8")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (record(http(status=404)), "http_status"),
        (record(http(media="image/png")), "media_type"),
        (record(http(b"")), "empty_body"),
        (record(b"GET / HTTP/1.1\r\n\r\n", "request"), "not_a_response"),
        (record(http(), "revisit"), "not_a_response"),
        (record(http(b"\x89PNG\r\n\x1a\n" + bytes(9))), "binary"),
        (record(b"no header at all"), "bad_http_header"),
        (record(http(PAGE, "Content-Encoding: compress")), "bad_content_encoding"),
        (record(http(gzip.compress(PAGE)[:-12], "Content-Encoding: gzip")), "bad_content_encoding"),
        (record(http(b"x" * 2_000_000)), "too_long"),
        (record(http(gzip.compress(b"x" * 2_000_000), "Content-Encoding: gzip")), "too_long"),
        (record(http(b"5\r\nab", "Transfer-Encoding: chunked")), "bad_chunking"),
    ],
)
def test_what_is_no_document_is_accounted_for_by_its_reason(read, summary, content, reason):
    assert summary(read("a.warc", GOOD + content + GOOD)) == ["kept", reason, "kept"]


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda data: zlib.compress(data)[2:-4]),
        ("br", brotli.compress),
        ("gzip, br", lambda data: brotli.compress(gzip.compress(data))),
        ("gzip", lambda data: data),  # the crawler undid the coding and kept the header
        ("br", lambda data: data),
        ("deflate", lambda data: data),
    ],
)
def test_content_codings_are_undone(coding, pack):
    block = http(pack(PAGE), f"Content-Encoding: {coding}")
    response = parse_head(block)
    assert decode_body(response, block[response.body_start :], 1 << 20) == PAGE


def test_chunks_are_joined_and_a_body_without_chunks_is_left():
    assert dechunk(b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\n\r\n") == b"abcde"
    assert dechunk(PAGE) == PAGE
    with pytest.raises(BadResponse, match="expected a chunk size"):
        dechunk(b"3\r\nabc\r\nzz\r\n")


BROKEN_HEADERS = [
    GOOD.replace(b"WARC/1.0", b"WRAC/1.0", 1),
    GOOD.replace(b"Content-Length: ", b"Content-Length: x", 1),
    GOOD.replace(b"Content-Length: ", b"Content-Width: ", 1),
    GOOD.replace(b"WARC-Type: response", b"\xff\xfe\xfd", 1),
    record(http(), length=9_999),
    record(http(), length=10),
    record(http(), length=10**14),
    record(b"", "request", length=700),
]


@pytest.mark.parametrize("broken", BROKEN_HEADERS)
@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress])
def test_a_broken_header_costs_that_record_only(read, summary, broken, pack):
    outcomes = read("a.warc.gz", b"".join(map(pack, [GOOD, broken, GOOD, GOOD])))
    reasons = summary(outcomes)
    assert reasons[0] == "kept" and reasons[2:] == ["kept", "kept"], reasons
    assert reasons[1] in ("bad_warc_header", "bad_content_length")
    assert outcomes[1].content[:8] == broken[:8]


@pytest.mark.parametrize("cut", [30, 60, -4])
def test_a_truncated_gzip_member_inside_a_warc_costs_the_record_in_it(read, summary, cut):
    member = gzip.compress(GOOD)
    reasons = summary(read("a.warc.gz", member + member[:cut] + member + member))
    assert reasons[0] == "kept" and reasons[-2:] == ["kept", "kept"], reasons
    assert len(reasons) == 4


def test_a_flipped_bit_that_only_the_checksum_sees_costs_the_record(read, summary):
    stored = bytearray(gzip.compress(GOOD, 0))
    stored[-30] ^= 1
    member = gzip.compress(GOOD)
    outcomes = read("a.warc.gz", member + bytes(stored) + member)
    assert summary(outcomes) == ["kept", "gzip_checksum", "kept"]
    assert outcomes[1].content == bytes(stored)


def test_offsets_are_those_of_the_members_in_the_file(read):
    member = gzip.compress(GOOD)
    assert [o.document.origin.offset for o in read("a.warc.gz", member * 3)] == [0, len(member), 2 * len(member)]
    assert [o.document.origin.offset for o in read("a.warc", GOOD * 2)] == [0, len(GOOD)]


def test_arc_records_are_read_and_a_broken_line_costs_one(read, summary):
    def arc(url: str, block: bytes) -> bytes:
        return f"{url} 1.2.3.4 20260101000000 text/html {len(block)}\n".encode() + block + b"\n"

    first = arc("filedesc://x.arc", b"1 0 X\nURL IP-address Archive-date Content-type Archive-length\n")
    content = first + arc("http://a.example/a b", http()) + b"nonsense\n" + arc("http://b.example/", http())
    outcomes = read("x.arc", content)
    assert summary(outcomes) == ["not_a_response", "kept", "bad_arc_header", "kept"]
    assert [o.document.url for o in outcomes if hasattr(o, "document")][1:] == [
        "http://a.example/a b",
        "http://b.example/",
    ]


@pytest.mark.parametrize(
    "name", ["warc/dolma__sample-0001.warc.gz", "corpus/raw/crawl-sample.warc.gz", "warc/ipwb__sample-1.warc.gz"]
)
def test_whole_files_give_what_fastwarc_gives(read, shared_data, name):
    content = (shared_data / name).read_bytes()
    theirs = {}
    for item in ArchiveIterator(io.BytesIO(content), parse_http=True, auto_decode="all"):
        if item.headers["WARC-Type"] == "response" and item.http_headers and item.http_headers.status_code == 200:
            theirs[item.headers["WARC-Target-URI"].strip("<>"), item.reader.read()] = True
    documents = [o.document for o in read(name, content, max_record_bytes=32 << 20) if not hasattr(o, "reason")]
    assert len(documents) >= 15
    assert all((document.url, document.content) in theirs for document in documents)
