"""The bundled sample: made from its texts, byte for byte, and truly what EXPECTED.jsonl says."""

from __future__ import annotations

import gzip
import http.client
import importlib.util
import io
import json
import sys
import tarfile
import zlib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
import zstandard
from fastwarc.warc import ArchiveIterator, WarcRecordType

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
SAMPLE = RECIPES / "sample"


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_sample", RECIPES / "make_sample.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def texts(maker) -> dict[str, Any]:
    """Every text by its id, read from the plain files alone."""
    folder = SAMPLE / "texts"
    written = [text for lang in maker.LANGUAGES for text in maker.read_texts(folder / f"{lang}.txt", lang)]
    return {text.id: text for text in written + maker.compose_stories(folder)}


def expected() -> list[dict]:
    return [json.loads(line) for line in (SAMPLE / "EXPECTED.jsonl").read_text(encoding="utf-8").splitlines()]


def record_rows(**wanted) -> list[dict]:
    rows = [row for row in expected() if "fate" in row]
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def unpacked(name: str) -> bytes:
    data = (SAMPLE / name).read_bytes()
    if name.endswith(".gz"):
        return gzip.decompress(data)
    if name.endswith(".zst"):
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data


def test_the_script_reproduces_the_committed_bytes(maker):
    made = maker.build()
    differing = [name for name, data in made.items() if (SAMPLE / name).read_bytes() != data]
    assert not differing, f"run `python recipes/make_sample.py` and commit: {differing}"


def test_every_file_is_expected_and_every_expected_file_exists():
    named = {row["file"] for row in expected()}
    inputs = ("plain", "notes", "code", "pages", "crawl", "records", "duplicates", "broken")
    there = {p.relative_to(SAMPLE).as_posix() for part in inputs for p in (SAMPLE / part).rglob("*") if p.is_file()}
    assert named == there


def test_the_bundle_stays_small():
    assert sum(p.stat().st_size for p in SAMPLE.rglob("*") if p.is_file()) < 2_000_000


def test_plain_files_decode_to_their_texts(texts):
    files = {row["file"]: row for row in expected() if "encoding" in row and "what" in row}
    plain = [row for row in record_rows(fate="kept") if row["file"].startswith("plain/")]
    assert len({files[row["file"]]["encoding"] for row in plain}) >= 11
    for row in plain:
        data = (SAMPLE / row["file"]).read_bytes()
        assert data.decode(files[row["file"]]["encoding"]) == texts[row["text"]].body, row["file"]


def test_pages_hold_every_paragraph_of_their_texts(texts):
    files = {row["file"]: row for row in expected() if "what" in row}
    for row in record_rows(fate="kept"):
        if row["file"].startswith("pages/") and row["file"].endswith(".html"):
            page = (SAMPLE / row["file"]).read_bytes().decode(files[row["file"]]["encoding"])
            for paragraph in texts[row["text"]].body.strip().split("\n\n"):
                assert paragraph.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in page, row["file"]


def test_records_hold_their_texts_in_order(texts):
    for name in ("en.jsonl.gz", "zh-Hans.jsonl.zst", "zh-Hant.jsonl", "others.jsonl.gz"):
        lines = unpacked(f"records/{name}").decode().splitlines()
        rows = record_rows(file=f"records/{name}")
        assert [json.loads(line)["text"] for line in lines] == [texts[row["text"]].body for row in rows]
    table = pq.read_table(SAMPLE / "records/mixed.parquet").column("text").to_pylist()
    assert table == [texts[row["text"]].body for row in record_rows(file="records/mixed.parquet")]
    with tarfile.open(fileobj=io.BytesIO(unpacked("pages/small-pages.tar.zst"))) as archive:
        assert archive.getnames() == [row["member"] for row in record_rows(file="pages/small-pages.tar.zst")]


def test_a_common_reader_finds_the_crawls_responses_around_the_broken_record(texts):
    rows = record_rows(file="crawl/crawl.warc.gz")
    middle = next(i for i, row in enumerate(rows) if row.get("case") == "broken_warc_header")
    members = split_members((SAMPLE / "crawl/crawl.warc.gz").read_bytes())
    assert len(members) == len(rows)
    good = b"".join(members[:middle] + members[middle + 1 :])
    bodies = {
        record.headers["WARC-Target-URI"]: http_body(record.reader.read())
        for record in ArchiveIterator(io.BytesIO(good), record_types=WarcRecordType.response, parse_http=False)
    }
    for row in record_rows(file="crawl/crawl.warc.gz", fate="kept"):
        assert texts[row["text"]].title in bodies[row["url"]].decode(row["encoding"])


class Wire:
    """What http.client takes for a socket."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self.data)


def http_body(block: bytes) -> bytes:
    """The body by the standard library; FastWARC 2.0.1 stops after a body that is gzip and chunked at once."""
    response = http.client.HTTPResponse(Wire(block))  # type: ignore[arg-type]
    response.begin()
    body = response.read()
    return gzip.decompress(body) if response.getheader("Content-Encoding") == "gzip" else body


def split_members(data: bytes) -> list[bytes]:
    members = []
    while data:
        inflater = zlib.decompressobj(wbits=31)
        inflater.decompress(data)
        members.append(data[: len(data) - len(inflater.unused_data)])
        data = inflater.unused_data
    return members


def test_damage_is_real(texts):
    with pytest.raises(EOFError):
        gzip.decompress((SAMPLE / "broken/cut-off.jsonl.gz").read_bytes())
    with pytest.raises(zlib.error):
        gzip.decompress((SAMPLE / "broken/damaged-member.warc.gz").read_bytes())
    with pytest.raises(UnicodeDecodeError):
        (SAMPLE / "broken/mixed-lines.jsonl").read_bytes().decode()
    inflater = zlib.decompressobj(wbits=31)
    whole_lines = inflater.decompress((SAMPLE / "broken/cut-off.jsonl.gz").read_bytes()).split(b"\n")[:-1]
    first = record_rows(file="broken/cut-off.jsonl.gz", fate="kept")
    assert [json.loads(line)["text"] for line in whole_lines] == [texts[row["text"]].body for row in first]
    (row,) = record_rows(file="broken/mojibake.txt")
    garbled = (SAMPLE / "broken/mojibake.txt").read_text(encoding="utf-8")
    assert garbled.encode("latin-1").decode("gb18030") == texts[row["text"]].body


def test_lines_with_faults_fail_as_described():
    lines = (SAMPLE / "broken/mixed-lines.jsonl").read_bytes().splitlines()
    rows = record_rows(file="broken/mixed-lines.jsonl")
    for line, row in zip(lines, rows, strict=True):
        try:
            good = isinstance(json.loads(line.decode())["text"], str)
        except (ValueError, KeyError, TypeError):
            good = False
        assert good == (row["fate"] == "kept" or row["case"] in ("lone_surrogate", "nul_in_json")), row


def test_every_copy_names_an_original_that_is_kept():
    kept = {f"{row['file']}#{row['record']}": row for row in record_rows(fate="kept")}
    copies = [row for row in record_rows() if "of" in row]
    assert {row["case"] for row in copies} >= {
        *("exact_copy", "whitespace", "unicode_form", "edited_1", "edited_5", "boilerplate_added", "cut_short"),
        *("script_twin", "half_width_punctuation"),
    }
    assert all(kept[row["of"]]["text"] == row["text"] for row in copies)


def test_the_evaluation_set_is_well_formed_and_leaks_only_where_planted(texts):
    items = [json.loads(line) for line in (SAMPLE / "eval.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len({item["id"] for item in items}) == len(items) == 30
    assert all(len(set(item["choices"])) == 4 and 0 <= item["answer"] < 4 for item in items)
    assert not [(i["id"], t.id) for i in items for t in texts.values() if i["context"] in t.body]
    for row in record_rows(fate="contaminated"):
        body = (SAMPLE / row["file"]).read_text(encoding="utf-8")
        assert all(item["context"] in body for item in items if item["id"] in row["items"])


def test_the_recipe_reads_all_of_the_bundle_once(maker):
    recipe = yaml.safe_load((RECIPES / "sample.yaml").read_text(encoding="utf-8"))
    patterns = [p.removesuffix("/**") for s in recipe["ingest"]["sources"] for p in s.get("include", ())]
    folders = [s["path"].removeprefix("${recipe}/sample").strip("/") for s in recipe["ingest"]["sources"]]
    assert {p for p in [*patterns, *folders] if (SAMPLE / p).is_dir() and p} == {
        *("plain", "notes", "pages", "crawl", "records", "code", "duplicates", "broken"),
    }
    assert recipe["ingest"]["max_record_bytes"] < maker.LONG_LINE_BYTES
