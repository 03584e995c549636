"""The body of a captured HTTP response: headers parsed, chunking and content encoding undone.

Crawlers often store the body already decoded and keep the header that says it is not. So a coding is undone when the
bytes bear it out, and taken as already undone when they do not even begin like it; a coding that begins right and
breaks later makes the record unreadable.

ref   RFC 9112 (message syntax, chunked), RFC 9110 section 8.4 (content codings)
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Any

import brotli
import zstandard

STATUS_LINE = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(\d{3})(?:[ \t][^\r\n]*)?\r?\n")
HEADER_END = re.compile(rb"\r?\n\r?\n")
CHUNK_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
CHARSET = re.compile(r"""charset\s*=\s*["']?\s*([^\s"';,]+)""", re.IGNORECASE)


class BadResponse(ValueError):
    """A response that cannot be read; `reason` is its folder in quarantine."""

    def __init__(self, reason: str, detail: str):
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Response:
    """Status and headers of a response; header names in lower case, repeated ones joined by ", "."""

    status: int
    headers: dict[str, str]
    body_start: int

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").split(";")[0].split(",")[0].strip().lower()

    @property
    def charset(self) -> str | None:
        found = CHARSET.search(self.headers.get("content-type", ""))
        return found[1].lower() if found else None


def parse_head(block: bytes) -> Response:
    """Status line and headers of `block`; raises BadResponse."""
    line = STATUS_LINE.match(block)
    if not line:
        raise BadResponse("bad_http_header", f"expected a line like 'HTTP/1.1 200 OK', found {block[:60]!r}")
    # An empty header block ends directly after the status line.
    end = HEADER_END.search(block, line.end() - 2)
    body_start = end.end() if end else len(block)
    headers: dict[str, str] = {}
    name = ""
    for raw in block[line.end() : end.start() if end else len(block)].split(b"\n"):
        text = raw.decode("latin-1").rstrip("\r")
        if text[:1] in (" ", "\t") and name:
            headers[name] += " " + text.strip()  # a folded line
            continue
        key, colon, value = text.partition(":")
        if colon:
            name = key.strip().lower()
            headers[name] = f"{headers[name]}, {value.strip()}" if name in headers else value.strip()
    return Response(status=int(line[1]), headers=headers, body_start=body_start)


def decode_body(response: Response, body: bytes, limit: int) -> bytes:
    """The body without chunking and content coding, at most `limit` bytes; raises BadResponse."""
    if "chunked" in response.headers.get("transfer-encoding", "").lower():
        body = dechunk(body)
    codings = [c.strip().lower() for c in response.headers.get("content-encoding", "").split(",")]
    for coding in reversed([c for c in codings if c and c != "identity"]):
        body = decode(body, coding, limit)
    return body


def dechunk(body: bytes) -> bytes:
    """Undo `Transfer-Encoding: chunked`; a body that does not begin with a chunk size is returned as it is."""
    if not CHUNK_SIZE.match(body):
        return body
    pieces: list[bytes] = []
    at = 0
    while size := CHUNK_SIZE.match(body, at):
        length = int(size[1], 16)
        if length == 0:
            return b"".join(pieces)
        at = size.end() + length
        if at > len(body):
            raise BadResponse("bad_chunking", f"a chunk of {length:,} bytes, {len(body) - size.end():,} are there")
        pieces.append(body[size.end() : at])
        at += 2 if body[at : at + 2] == b"\r\n" else 1 if body[at : at + 1] == b"\n" else 0
    if at < len(body):
        raise BadResponse(
            "bad_chunking", f"expected a chunk size at byte {at:,} of the body, found {body[at : at + 20]!r}"
        )
    return b"".join(pieces)  # all chunks are whole, only the closing one is missing


def decode(body: bytes, coding: str, limit: int) -> bytes:
    """Undo one content coding."""
    try:
        if coding in ("gzip", "x-gzip"):
            return _gunzip(body, limit) if body.startswith(b"\x1f\x8b") else body
        if coding == "deflate":
            return _inflate(body, limit)
        if coding == "br":
            return _unbrotli(body, limit)
        if coding == "zstd":
            return _unzstd(body, limit) if body.startswith(b"\x28\xb5\x2f\xfd") else body
    except (zlib.error, brotli.error, zstandard.ZstdError) as error:
        raise BadResponse("bad_content_encoding", f"Content-Encoding {coding}: {error}") from error
    raise BadResponse("bad_content_encoding", f"Content-Encoding {coding!r} is not one of gzip, deflate, br, zstd")


def _whole(output: bytes, limit: int, ended: bool, coding: str) -> bytes:
    if len(output) > limit:
        raise BadResponse("too_long", f"the body unpacks to more than max_record_bytes ({limit:,})")
    if not ended:
        raise BadResponse("bad_content_encoding", f"the {coding} body is cut off after {len(output):,} bytes of output")
    return output


def _gunzip(body: bytes, limit: int) -> bytes:
    output = b""
    while body.startswith(b"\x1f\x8b"):
        unzip = zlib.decompressobj(31)
        output += unzip.decompress(body, limit + 1 - len(output))
        _whole(output, limit, unzip.eof, "gzip")
        body = unzip.unused_data
    return output


def _inflate(body: bytes, limit: int) -> bytes:
    """ "deflate" is zlib by the standard and raw deflate by habit; text is neither."""
    for wbits in (15, -15):
        unzip = zlib.decompressobj(wbits)
        try:
            output = unzip.decompress(body, limit + 1)
        except zlib.error:
            continue
        if unzip.eof or len(output) > limit:
            return _whole(output, limit, unzip.eof, "deflate")
    return _as_text(body, "deflate")


def _unbrotli(body: bytes, limit: int) -> bytes:
    unpack, output = brotli.Decompressor(), b""
    try:
        output = unpack.process(body, output_buffer_limit=limit + 1)
        while not unpack.is_finished() and len(output) <= limit and (more := _more(unpack, limit + 1 - len(output))):
            output += more
    except brotli.error:
        return _as_text(body, "br")
    return _whole(output, limit, unpack.is_finished(), "br")


def _more(unpack: Any, limit: int) -> bytes:
    return b"" if unpack.can_accept_more_data() else unpack.process(b"", output_buffer_limit=limit)


def _unzstd(body: bytes, limit: int) -> bytes:
    reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(body, read_across_frames=True)
    return _whole(reader.read(limit + 1), limit, True, "zstd")


def _as_text(body: bytes, coding: str) -> bytes:
    """The body as it is when it reads as text: the coding was undone before it was stored."""
    if body.lstrip()[:1] == b"<" or body[:512].isascii():
        return body
    raise BadResponse("bad_content_encoding", f"Content-Encoding {coding}, but the body is neither that nor text")
