"""Each form is read, and each fault costs the record it is in."""

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

LINES = [json.dumps({"text": f"line {n}"}).encode() for n in range(5)]
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


def texts(outcomes):
    return [outcome.document.content.decode() for outcome in outcomes if hasattr(outcome, "document")]


@pytest.mark.parametrize(
    ("name", "content", "media_type"),
    [
        ("a.html", b"<p>no doctype", "text/html"),
        ("page", b"\xef\xbb\xbf<!-- x --> <!DOCTYPE html><p>", "text/html"),
        ("a.xhtml", b'<?xml version="1.0"?>\n<html xmlns="x">', "text/html"),
        ("a.txt", "直隶".encode("gb18030"), "text/plain"),
        ("README.md", b"# Title", "text/markdown"),
        ("a.py", b"<html> in a string", "text/x-source"),
        ("package.json", b'{"name": "a", "version": "1"}', "text/x-source"),
        ("notes", b"plain", "text/plain"),
    ],
)
def test_a_document_keeps_its_bytes_and_gets_its_media_type(read, name, content, media_type):
    [outcome] = read(name, content)
    assert (outcome.document.media_type, outcome.document.content) == (media_type, content)
    assert outcome.document.declared_charset is None


def test_json_lines_end_at_newline_only(read):
    text = "one\u2028two\u0085three\x0bfour"
    [outcome] = read("a.jsonl", json.dumps({"text": text}, ensure_ascii=False).encode() + b"\r\n")
    assert outcome.document.content.decode() == text
    assert outcome.document.declared_charset == "utf-8"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.compress, lambda data: data])
def test_packed_json_lines_read_as_plain_ones_whatever_the_name(read, pack):
    packed = pack(b"\n".join(LINES[:2]) + b"\n") + pack(b"\n".join(LINES[2:]))
    assert texts(read("a.jsonl", packed)) == [f"line {n}" for n in range(5)]
    assert texts(read("no-extension", packed)) == [f"line {n}" for n in range(5)]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b'{"text": "\xff"}', "bad_utf8"),
        (b'{"text": "no end', "bad_json"),
        (b"[" * 100_000, "bad_json"),
        (b'"text"', "bad_json"),
        (b"", "empty_line"),
        (b'{"text": "half \\ud83d"}', "lone_surrogate"),
        (b'{"text": null}', "no_text"),
        (b'{"body": "another field"}', "no_text"),
        (b'{"text": " "}', "empty_text"),
        (b'{"text": "' + b"x" * 300_000 + b'"}', "too_long"),
        (b"\0\0\0", "bad_json"),
    ],
)
def test_a_bad_line_costs_that_line_only(read, summary, bad, reason):
    outcomes = read("a.jsonl", b"\n".join([LINES[0], bad, LINES[1]]), max_record_bytes=200_000)
    assert summary(outcomes) == ["kept", reason, "kept"]
    assert [outcome.document.origin.record for outcome in (outcomes[0], outcomes[2])] == [0, 2]
    if reason not in ("empty_text", "too_long"):
        assert outcomes[1].content == bad
    assert outcomes[2].document.origin.offset == len(LINES[0]) + len(bad) + 2


def test_a_50_mb_line_is_passed_over_with_flat_memory(read, summary):
    import tracemalloc

    content = gzip.compress(LINES[0] + b"\n" + b"x" * 50_000_000 + b"\n" + LINES[1], 1)
    tracemalloc.start()
    outcomes = read("a.jsonl.gz", content, max_record_bytes=1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert summary(outcomes) == ["kept", "too_long", "kept"]
    assert "50,000,000 bytes" in outcomes[1].detail
    assert peak < 16 << 20


def test_fields_are_found_or_named(read):
    line = json.dumps({"body": "text", "content": "other", "url": "u", "license": ["MIT", "X"]}).encode()
    [found] = read("a.jsonl", line, licence="source's")
    assert (found.document.content, found.document.url, found.document.licence) == (b"other", "u", "MIT; X")
    [named] = read("a.jsonl", line, text_field="body", licence_field="rights", licence="source's")
    assert (named.document.content, named.document.licence) == (b"text", "source's")


def test_nan_in_another_field_does_not_cost_the_record(read):
    assert texts(read("a.jsonl", b'{"text": "good", "score": NaN}')) == ["good"]


def test_a_json_array_of_records_is_read(read, summary):
    content = b'[{"text": "one"}, {"text": 2}, {"text": "three"}]'
    assert summary(read("a.json", content)) == ["kept", "no_text", "kept"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.txt", b"", "empty_file"),
        ("a.jsonl", b"", "empty_file"),
        ("a.warc", b"", "empty_file"),
        ("a.txt", b" \n\t", "empty_file"),
        ("page.html", PNG, "binary"),
        ("a.txt", b"\x7fELF" + bytes(100), "binary"),
        ("a.txt", bytes(100), "binary"),
        ("a.parquet", b"PAR1 and no more", "bad_parquet"),
        ("a.jsonl.zst", b"\x28\xb5\x2f\xfd and no more", "bad_zstd"),
        ("a.txt", b"x" * 2_000_000, "too_long"),
        ("a.txt.gz", gzip.compress(b"x" * 2_000_000), "too_long"),
    ],
)
def test_a_file_that_holds_no_text_is_quarantined_with_its_bytes(read, summary, name, content, reason):
    [outcome] = read(name, content)
    assert outcome.reason == reason
    if not name.endswith((".gz", ".zst")):
        assert outcome.content == content[: 1 << 20]


def test_zeros_inside_a_text_are_left_for_decode(read):
    content = b"some text\0with holes\0" * 10
    assert texts(read("a.txt", content)) == [content.decode()]


def parquet(**columns) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, row_group_size=100, compression="none", use_dictionary=False)
    return file.getvalue()


def test_parquet_rows_are_read_with_their_url_and_licence(read, summary):
    content = parquet(text=["one", None, " ", "four"], url=["u", None, None, "v"], license=["MIT", None, None, None])
    outcomes = read("a.bin", content, licence="source's")
    assert summary(outcomes) == ["kept", "no_text", "empty_text", "kept"]
    assert [(o.document.url, o.document.licence) for o in (outcomes[0], outcomes[3])] == [
        ("u", "MIT"),
        ("v", "source's"),
    ]


def test_a_damaged_row_group_costs_that_row_group(read, summary):
    content = bytearray(parquet(text=[f"row {n:03d}" for n in range(300)]))
    at = content.index(b"row 100") - 30  # its page header
    content[at : at + 40] = b"\xff" * 40
    outcomes = read("a.parquet", bytes(content))
    assert summary(outcomes) == ["kept"] * 100 + ["bad_row_group"] + ["kept"] * 100
    assert outcomes[100].content


def test_a_row_that_is_not_utf8_costs_that_row(read, summary):
    content = parquet(text=["one", "XXXX", "three"]).replace(b"XXXX", b"\xff\xfe\xff\xfe")
    assert summary(read("a.parquet", content)) == ["kept", "bad_utf8", "kept"]


def test_parquet_without_text_names_its_columns(read):
    [outcome] = read("a.parquet", parquet(number=[1, 2]))
    assert outcome.reason == "no_text" and "number" in outcome.detail


def tar(members: dict[str, bytes], **options) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", **options) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


MEMBERS = {
    "a/page.html": b"<html>page</html>",
    "a/lines.jsonl.gz": gzip.compress(b"\n".join(LINES)),
    "long/" * 40 + "ü.txt": b"long name",
    "rows.parquet": parquet(text=["row"]),
    "empty.txt": b"",
    ".hidden": b"not read",
}


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress, zstandard.compress])
def test_members_of_a_tar_are_read_as_any_form(read, summary, format, pack):
    outcomes = read("x.tar", pack(tar(MEMBERS, format=format)))
    assert summary(outcomes) == ["kept"] * 8 + ["empty_file"]
    files = [getattr(o, "document", o).origin.file for o in outcomes]
    assert files[0] == "x.tar!a/page.html"
    assert files[6] == "x.tar!" + "long/" * 40 + "ü.txt"
    assert [o.document.origin.record for o in outcomes[1:6]] == [0, 1, 2, 3, 4]


def test_a_damaged_tar_header_costs_that_member(read, summary):
    content = bytearray(tar({"a.txt": b"one", "b.txt": b"two", "c.txt": b"three"}))
    content[1024:1100] = b"\xff" * 76
    outcomes = read("x.tar", bytes(content))
    assert summary(outcomes) == ["kept", "bad_tar", "kept"]
    assert outcomes[1].content == content[1024:2048]


def test_a_tar_cut_short_gives_what_came_before(read, summary):
    content = tar({"a.txt": b"one", "b.jsonl": b"\n".join(LINES)})
    assert summary(read("x.tar", content[: 1536 + 40])) == ["kept", "kept", "kept", "truncated_tar"]


def test_ids_are_stable_and_differ_by_place(read):
    twice = read("a.jsonl", LINES[0] + b"\n" + LINES[0])
    assert twice[0].document.id == read("a.jsonl", LINES[0])[0].document.id
    assert twice[0].document.id != twice[1].document.id
