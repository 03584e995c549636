"""WARC and ARC: the documents are the HTTP responses of text; every other record is dropped by name, none is skipped.

A reader of our own, not FastWARC's or warcio's: those stop, or silently pass over, at a broken record, and neither
gives the bytes that it could not read. Here a broken header costs the bytes up to the next record, a wrong
Content-Length costs one record, a damaged gzip member costs the record in it. On whole files it finds what
FastWARC finds (a test holds it to that).

    WARC   "WARC/1.x" CRLF, "Name: value" CRLF lines, an empty line, Content-Length bytes, CRLF CRLF
    ARC    "URL IP date type length" LF (v2: with more fields before the length), that many bytes, LF

in    Stream of the unpacked file; `origin.offset` is that of the gzip member in the file as it is
out   RawRecord            content is the body, HTTP headers and codings taken off
ref   ISO 28500:2017 (WARC 1.1); Internet Archive ARC file format 1.0 and 2.0
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tasks.document import Outcome
from tasks.ingest.http_response import BadResponse, decode_body, parse_head
from tasks.ingest.outcomes import Outcomes
from tasks.ingest.sniff import SNIFF_BYTES, is_binary, is_html
from tasks.ingest.stream import Stream

MAX_HEADER_BYTES = 1 << 16
MAX_TAIL_BYTES = 1 << 20  # that are looked at for the end of a record's gzip member
EVIDENCE_BYTES = 1 << 20  # of unreadable bytes between records
MEDIA_TYPES = {
    "text/html": "text/html",
    "application/xhtml+xml": "text/html",
    "application/vnd.wap.xhtml+xml": "text/html",
    "text/plain": "text/plain",
    "text/markdown": "text/markdown",
}
VERSION = re.compile(rb"WARC/[01]\.\d")
NEXT_RECORD = {
    "warc": re.compile(rb"\r?\n\r?\n(?=WARC/[01]\.\d\r?\n)"),
    "arc": re.compile(rb"\n(?=\S+ [0-9A-Fa-f.:]{7,39} \d{14} \S+ (?:[^\r\n]* )?\d+\r?\n)"),
}
ARC_LINE = re.compile(rb"(\S.*?) ([0-9A-Fa-f.:]+) (\d{8,17}) (\S+) (?:.* )?(\d+)\r?\n", re.DOTALL)


@dataclass(slots=True)
class Head:
    """The header of an archive's record."""

    raw: bytes
    position: int  # in the stream
    offset: int  # in the file
    length: int  # of the block that follows
    kind: str  # response, request, …; ARC: "response", or "filedesc" for the file's own
    url: str | None
    media_type: str = ""  # that the archive, not the server, states


class BadHeader(ValueError):
    """What stands where a record should begin is not a record."""


def read_warc(stream: Stream, outcomes: Outcomes, form: str) -> Iterator[Outcome]:
    """The records of a WARC or ARC file (`form` "warc" or "arc")."""
    while True:
        skip_blank_lines(stream)
        if stream.at_end():
            return
        offset = stream.file_offset(stream.position)
        try:
            head = read_warc_head(stream) if form == "warc" else read_arc_head(stream)
        except BadHeader as bad:
            yield _no_record(stream, outcomes, str(bad), offset, form)
            continue
        yield _record(stream, head, outcomes, form)
        if stream.damage and not stream.peek(1):  # what was damaged held no record of its own
            damage, stream.damage = stream.damage, None
            yield outcomes.quarantined(damage.content, damage.reason, damage.detail, offset=head.offset)


def skip_blank_lines(stream: Stream) -> None:
    while stream.peek(1) in (b"\r", b"\n"):
        stream.read(1)


def read_warc_head(stream: Stream) -> Head:
    """The header that the stream stands at; BadHeader, with nothing consumed, when there is none."""
    position = stream.position
    raw = _header_block(stream)
    try:
        fields = _warc_fields(raw)
    except BadHeader:
        stream.unread(raw)
        raise
    return Head(
        raw=raw,
        position=position,
        offset=stream.file_offset(position),
        length=int(fields["content-length"]),
        kind=fields.get("warc-type", "").lower(),
        url=fields.get("warc-target-uri", "").strip("<>") or None,
        media_type=fields.get("content-type", "").lower(),
    )


def _header_block(stream: Stream) -> bytes:
    """Lines up to and with the empty one, as far as they look like a header."""
    raw = stream.read_line(MAX_HEADER_BYTES)
    if not raw.startswith(b"WARC/"):
        return raw
    while raw.endswith(b"\n") and len(raw) < MAX_HEADER_BYTES:
        line = stream.read_line(MAX_HEADER_BYTES)
        raw += line
        if not line.strip(b"\r\n"):
            break
    return raw


def _warc_fields(raw: bytes) -> dict[str, str]:
    lines = raw.decode("utf-8", "replace").split("\n")
    if not raw.startswith(b"WARC/"):
        raise BadHeader(f"expected a line 'WARC/1.0', found {raw[:60]!r}")
    if not raw.endswith((b"\n\n", b"\n\r\n")):
        raise BadHeader(f"the header does not end within {len(raw):,} bytes")
    fields: dict[str, str] = {}
    name = ""
    for text in lines[1:]:
        key, colon, value = text.rstrip("\r").partition(":")
        if text[:1] in (" ", "\t") and name:
            fields[name] += " " + text.strip()
        elif colon:
            name = key.strip().lower()
            fields[name] = value.strip()
        elif key:
            raise BadHeader(f"expected 'Name: value', found {text[:60]!r}")
    length = fields.get("content-length", "")
    if not (length.isascii() and length.isdigit() and len(length) <= 15):
        raise BadHeader(f"expected a Content-Length in bytes, found {length!r}")
    return fields


def read_arc_head(stream: Stream) -> Head:
    """Likewise for ARC."""
    position = stream.position
    line = stream.read_line(MAX_HEADER_BYTES)
    parts = ARC_LINE.fullmatch(line)
    if not parts or len(parts[5]) > 15:
        stream.unread(line)
        raise BadHeader(f"expected an ARC line 'URL IP date type length', found {line[:60]!r}")
    url = parts[1].decode("utf-8", "replace")
    kind = "filedesc" if url.startswith("filedesc:") else "response"
    media_type = parts[4].decode("latin-1").lower()
    return Head(
        raw=line,
        position=position,
        offset=stream.file_offset(position),
        length=int(parts[5]),
        kind=kind,
        url=url,
        media_type=media_type,
    )


def at_record(stream: Stream, form: str) -> bool:
    """A record begins here, by its first bytes."""
    if form == "warc":
        return VERSION.match(stream.peek(8)) is not None
    line = stream.read_line(MAX_HEADER_BYTES)
    stream.unread(line)
    return ARC_LINE.fullmatch(line) is not None


def _no_record(stream: Stream, outcomes: Outcomes, detail: str, offset: int, form: str) -> Outcome:
    """Quarantine what stands where a record was due, up to the next record, gzip member or damage."""
    content, length = _skip_to_record(stream, form)
    if stream.damage and not stream.peek(1):
        damage, stream.damage = stream.damage, None
        detail = f"{detail}; {damage.detail}" if length else damage.detail
        return outcomes.quarantined(damage.content or content, damage.reason, detail, offset=offset)
    return outcomes.quarantined(
        content, f"bad_{form}_header", f"{detail}; {length:,} bytes passed over to the next record", offset=offset
    )


def _skip_to_record(stream: Stream, form: str) -> tuple[bytes, int]:
    """Pass over at least one line; the first of it, and its length."""
    kept, length, line = b"", 0, b""
    while True:
        member = stream.next_member()
        line = stream.read_line(1 << 20, stop_at_member=True)
        kept += line[: EVIDENCE_BYTES - len(kept)]
        length += len(line)
        if not line or stream.position == member or (line.endswith(b"\n") and at_record(stream, form)):
            return kept, length


def _record(stream: Stream, head: Head, outcomes: Outcomes, form: str) -> Outcome:
    """The outcome of the record whose header was read."""
    limit = outcomes.config.max_record_bytes + MAX_HEADER_BYTES
    wanted = head.kind == "response" and _is_http(head)
    block = stream.read(min(head.length, limit))
    passed = len(block)
    if passed == limit and not NEXT_RECORD[form].search(block):
        passed += stream.skip(head.length - limit)  # really that long, not a wrong Content-Length
    if stream.begins_member(head.position) and not stream.rest_of_member(MAX_TAIL_BYTES):
        # A member for itself, and damaged: its bytes are not to be trusted, however well they parse.
        damage = stream.damage
        if damage and not damage.reason.startswith(("truncated_", "bad_gzip_header")):
            stream.skip(1 << 62)
            stream.damage = None
            content = damage.content or head.raw + block
            return outcomes.quarantined(content, damage.reason, damage.detail, offset=head.offset, url=head.url)
    if (fault := _framing_fault(stream, head, block, passed, outcomes, form)) is not None:
        return fault
    if not wanted:
        evidence: dict[str, str | float | int] = {
            "type": head.kind,
            "media_type": head.media_type,
            "bytes": head.length,
        }
        return outcomes.dropped(head.raw, "not_a_response", evidence, offset=head.offset, url=head.url)
    try:
        return _response_outcome(head, block, outcomes)
    except BadResponse as bad:
        return outcomes.quarantined(head.raw + block, bad.reason, str(bad), offset=head.offset, url=head.url)


def _is_http(head: Head) -> bool:
    return head.media_type.startswith("application/http") or (head.url or "http").lower().startswith("http")


def _framing_fault(
    stream: Stream, head: Head, block: bytes, passed: int, outcomes: Outcomes, form: str
) -> Outcome | None:
    """What is wrong with the record's bounds; None when nothing is."""

    def quarantine(content: bytes, reason: str, detail: str) -> Outcome:
        return outcomes.quarantined(content, reason, detail, offset=head.offset, url=head.url)

    stated = f"Content-Length says {head.length:,}"
    at_bound = stream.peek(1) in (b"\r", b"\n", b"") or _boundary(stream, form)
    short = passed < head.length and stream.damage is None
    if short or (passed == head.length and not at_bound):
        if len(block) == passed and (found := NEXT_RECORD[form].search(block)):
            stream.unread(block[found.end() :])
            detail = f"{stated}, the next record begins after {found.end():,}"
            return quarantine(head.raw + block[: found.end()], "bad_content_length", detail)
        if short:
            detail = f"{stated}, the file ends after {passed:,}"
            return None if _is_whole(block) else quarantine(head.raw + block, f"truncated_{form}", detail)
        rest, length = _skip_to_record(stream, form)
        return quarantine(head.raw + block + rest, "bad_content_length", f"{stated}, {length:,} bytes more follow")
    skip_blank_lines(stream)
    damage = stream.damage
    tainted = damage and not stream.peek(1) and damage.reason in ("bad_gzip", "gzip_checksum")
    if damage and (passed < head.length or (tainted and stream.file_offset(stream.position) == head.offset)):
        stream.damage = None
        return quarantine(damage.content or head.raw + block, damage.reason, damage.detail)
    return None


def _boundary(stream: Stream, form: str) -> bool:
    return stream.member_between(stream.position - 1, stream.position + 1) is not None or at_record(stream, form)


def _is_whole(block: bytes) -> bool:
    """The response is whole by the server's own Content-Length, whatever the archive's says."""
    try:
        response = parse_head(block)
    except BadResponse:
        return False
    length = response.headers.get("content-length", "")
    return length.isascii() and length.isdigit() and len(block) - response.body_start >= int(length) > 0


def _response_outcome(head: Head, block: bytes, outcomes: Outcomes) -> Outcome:
    """The outcome of a whole HTTP response; raises BadResponse."""
    response, config = parse_head(block), outcomes.config
    stated = response.media_type or (head.media_type if "/" in head.media_type and _is_arc(head) else "")

    def drop(reason: str, body_bytes: int) -> Outcome:
        evidence: dict[str, str | float | int] = {"status": response.status, "media_type": stated, "bytes": body_bytes}
        return outcomes.dropped(head.raw + block, reason, evidence, offset=head.offset, url=head.url)

    raw = block[response.body_start :]
    if response.status not in config.http_statuses:
        return drop("http_status", len(raw))
    if stated and stated not in MEDIA_TYPES:
        return drop("media_type", len(raw))
    if len(block) > config.max_record_bytes + response.body_start:
        raise BadResponse(
            "too_long", f"a response of {head.length:,} bytes, above max_record_bytes; its beginning is kept"
        )
    body = decode_body(response, raw, config.max_record_bytes)
    if not body.strip():
        return drop("empty_body", len(raw))
    media_type = MEDIA_TYPES.get(stated) or _sniffed(body)
    if media_type is None:
        return drop("media_type", len(raw))
    if is_binary(body[:SNIFF_BYTES]):
        raise BadResponse("binary", f"called {stated or 'nothing'}, but the body begins {body[:16]!r}")
    return outcomes.kept(body, media_type, offset=head.offset, declared_charset=response.charset, url=head.url)


def _is_arc(head: Head) -> bool:
    return not head.raw.startswith(b"WARC/")


def _sniffed(body: bytes) -> str | None:
    """The media type of a response that states none: HTML when it begins like it, else unknown."""
    return "text/html" if is_html(body[:SNIFF_BYTES]) else None
