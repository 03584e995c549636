"""Arbitrary and damaged bytes through ingest, decode and extract: no exception, and every record accounted for."""

from __future__ import annotations

import gzip
import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.clean.decode.cascade import DecodeConfig
from tasks.clean.decode.stage import STAGE as DECODE
from tasks.clean.decode.stage import decode
from tasks.clean.extract.stage import STAGE as EXTRACT
from tasks.clean.extract.stage import ExtractConfig
from tasks.document import Document, Kept, Origin, Quarantined, RawRecord
from tasks.ingest.config import IngestConfig, SourceConfig
from tasks.ingest.stage import STAGE as INGEST
from tasks.stage import run_stage
from tasks.store.filesystem import Store

CODECS = ("utf-8", "gb18030", "big5hkscs", "cp932", "euc_jp", "cp949", "utf-16", "utf-16-be", "hz", "cp1252", "cp1251")
TEXTS = (
    "为了保障公民的合法权益，根据宪法，制定本条例。國務院有關部門應當按照職責，做好監督管理工作。\n",
    "この文書は文字の符号化方式を調べるためのものです。\n이 문서는 문자 집합을 확인하기 위한 것입니다.\n",
    "Le café est très bon ; Этот текст нужен для проверки кодировки.\n",
    "<!doctype html><meta charset={codec}><title>é</title><p>Some text, 一些文字。</p><table><tr><td>1</table>",
)
MARKS = (
    b"",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xfe\xff",
    b"\xff\xfe\0\0",
    b"\x84\x31\x95\x33",
    b"~{",
    b"\x1b$B",
    b"<meta charset=hz>",
)
NAMES = (
    "a.txt",
    "b.html",
    "c.jsonl",
    "d.warc.gz",
    "e.warc",
    "f.md",
    "g.xhtml",
    "h.py",
    "i.txt.gz",
    "j.tar",
    "k.parquet",
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A real text in some charset, with a mark that may lie, cut, spliced and with bytes changed."""
    codec = draw(st.sampled_from(CODECS))
    text = draw(st.sampled_from(TEXTS)).replace("{codec}", draw(st.sampled_from(CODECS)))
    content = draw(st.sampled_from(MARKS)) + text.encode(codec, "replace") * draw(st.integers(1, 3))
    content += draw(st.sampled_from(TEXTS)).encode(draw(st.sampled_from(CODECS)), "replace") * draw(st.integers(0, 2))
    content = content[: draw(st.integers(0, len(content)))]
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(content)))
        content = content[:at] + draw(st.binary(max_size=3)) + content[at + draw(st.integers(0, 3)) :]
    return content


BYTES = st.one_of(st.binary(max_size=400), damaged())


def record(content: bytes, media_type: str, charset: str | None) -> RawRecord:
    return RawRecord(
        id="0" * 32,
        content=content,
        media_type=media_type,
        declared_charset=charset,
        source="fuzz",
        url=None,
        licence=None,
        origin=Origin(file="a.txt", record=0, offset=0),
    )


@given(
    content=BYTES,
    media_type=st.sampled_from(["text/html", "text/plain", "text/markdown", "text/x-source"]),
    charset=st.one_of(st.none(), st.sampled_from([*CODECS, "utf-7", "idna", "zip", "\ud800"])),
)
@settings(max_examples=800, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes_become_clean_text_or_are_quarantined_whole(content, media_type, charset):
    outcome = decode(record(content, media_type, charset), DecodeConfig())
    if isinstance(outcome, Quarantined):
        assert outcome.content == content and outcome.reason and outcome.detail
        return
    assert isinstance(outcome, Kept) and isinstance(outcome.document, Document)
    document = outcome.document
    assert unicodedata.is_normalized("NFC", document.text) and document.text.strip()
    assert not set(document.text) & set("\0\r\x0c\x85\ufeff")
    assert document.encoding and document.encoding_method and 0 <= (document.encoding_confidence or 0) <= 1
    assert document.metrics["replacements"] >= 0
    document.text.encode()


def in_container(name: str, content: bytes, broken: bool) -> bytes:
    """`content` as a file of that name holds it; with `broken`, as it is, whatever the name says."""
    if broken:
        return content
    if name.endswith(".jsonl"):
        good = json.dumps({"text": content.decode("utf-8", "replace")}).encode()
        return good + b"\n" + content.replace(b"\n", b"") + b"\n" + good + b"\n"
    if ".warc" in name:
        body = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=gbk\r\n\r\n" + content
        head = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a/\r\nContent-Type: application/http\r\n"
        whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body + b"\r\n\r\n"
        return gzip.compress(whole) if name.endswith(".gz") else whole
    return gzip.compress(content) if name.endswith(".gz") else content


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return (tmp_path_factory.mktemp(f"fuzz{number}") for number in range(1_000))


@given(files=st.lists(st.tuples(st.sampled_from(NAMES), BYTES, st.booleans()), min_size=1, max_size=6))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_stages_account_for_every_record_of_any_files(folders, files):
    folder: Path = next(folders)
    raw = folder / "raw"
    raw.mkdir()
    for number, (name, content, broken) in enumerate(files):
        (raw / f"{number}{name}").write_bytes(in_container(name, content, broken))
    store = Store(str(folder / "store"))
    config = IngestConfig(sources=(SourceConfig(name="fuzz", path=str(raw), licence="MIT"),))
    dataset = run_stage(INGEST, store=store, pipeline="fuzz", config=config, inputs={}, workers=0).dataset
    assert dataset.manifest.account.total().read >= len(files)
    for stage, before, settings_ in ((DECODE, "ingest", DecodeConfig()), (EXTRACT, "decode", ExtractConfig())):
        kept = dataset.manifest.account.total().kept
        dataset = run_stage(
            stage, store=store, pipeline="fuzz", config=settings_, inputs={before: dataset}, workers=0
        ).dataset
        total = dataset.manifest.account.total()
        assert total.read == kept
        assert total.read == total.kept + sum(total.dropped.values()) + sum(total.quarantined.values())
