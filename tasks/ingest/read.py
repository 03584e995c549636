"""Read one raw file, whatever it is, into outcomes. Never raises for what the bytes are; never yields nothing.

    unpack (gzip, zstd, bz2, xz, lz4) → sniff → WARC, ARC, tar, Parquet, JSON lines, JSON array, or one document

Raised are errors of the machine (network, a file that was readable a moment ago), which say nothing of the data.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from typing import IO

from tasks.document import Outcome
from tasks.ingest.columns import read_parquet
from tasks.ingest.config import IngestConfig, SourceConfig
from tasks.ingest.jsonl import MAX_FIRST_LINE, BadRecord, is_json_lines, parse, read_json_array, read_json_lines
from tasks.ingest.outcomes import Outcomes
from tasks.ingest.ranges import Range, events_between
from tasks.ingest.sniff import SNIFF_BYTES, container_of, extension_of, is_binary, media_type_of
from tasks.ingest.stream import CHUNK_BYTES, Event, Stream, file_events
from tasks.ingest.tar import read_tar
from tasks.ingest.unpack import UNPACK, compression_of
from tasks.ingest.warc import read_warc

MAX_NESTING = 3  # compression around compression: .tar.gz.zst


def read_file(file: IO[bytes], name: str, source: SourceConfig, config: IngestConfig) -> Iterator[Outcome]:
    """The outcomes of an open file; `name` is its path below the source's root."""
    outcomes = Outcomes(source, config, name)
    head = file.read(4)
    file.seek(0)
    if head == b"PAR1":
        found = read_parquet(file, outcomes)
    else:
        found = _read_events(file_events(file), name, outcomes, inside_archive=False)
    yield from _at_least_one(found, outcomes)


def read_range(
    file: IO[bytes], name: str, source: SourceConfig, config: IngestConfig, part: Range
) -> Iterator[Outcome]:
    """The outcomes of one range of a file that `ranges` has cut, numbered as in the whole file."""
    outcomes = Outcomes(source, config, name)
    outcomes.num_records = part.start.records
    head = file.read(4)
    file.seek(0)
    if head == b"PAR1":
        yield from read_parquet(file, outcomes, part.start.at, part.end)
    else:
        yield from read_json_lines(Stream(events_between(file, part.start.at, part.end), part.start.at), outcomes)


def _read_events(events: Iterable[Event], name: str, outcomes: Outcomes, *, inside_archive: bool) -> Iterator[Outcome]:
    stream = Stream(events)
    for _ in range(MAX_NESTING):
        packed = compression_of(stream.peek(16))
        if packed is None:
            break
        stream = Stream(UNPACK[packed](_events_of(stream)))
    head = stream.peek(SNIFF_BYTES)
    form = container_of(head)
    if form in ("warc", "arc"):
        yield from read_warc(stream, outcomes, form)
    elif form == "tar" and not inside_archive:
        yield from read_tar(stream, outcomes, _read_member)
    elif form == "parquet":
        yield from _read_spooled_parquet(stream, outcomes)
    elif form is not None:
        yield _whole(stream, outcomes, "nested_archive", "an archive inside an archive is not unpacked")
    else:
        yield from _read_text(stream, head, name, outcomes)


def _read_member(events: Iterator[Event], name: str, outcomes: Outcomes) -> Iterator[Outcome]:
    yield from _at_least_one(_read_events(events, name, outcomes, inside_archive=True), outcomes)


def _at_least_one(found: Iterator[Outcome], outcomes: Outcomes) -> Iterator[Outcome]:
    """A file without any record (an archive of folders, a table without rows) is accounted for, too."""
    empty = True
    for outcome in found:
        empty = False
        yield outcome
    if empty:
        yield outcomes.quarantined(b"", "no_records", "it is read to its end and holds no record")


def _events_of(stream: Stream) -> Iterator[Event]:
    """What is left of a stream, as events."""
    while True:
        if data := stream.read(CHUNK_BYTES):
            yield data
        elif stream.damage:
            damage, stream.damage = stream.damage, None
            yield damage
        else:
            return


def _read_text(stream: Stream, head: bytes, name: str, outcomes: Outcomes) -> Iterator[Outcome]:
    """JSON lines, a JSON array, or a text that is one document."""
    extension = extension_of(name)
    if not head and stream.at_end():
        yield outcomes.quarantined(b"", "empty_file", "the file is empty")
    elif is_json_lines(stream.peek(MAX_FIRST_LINE), name, outcomes.source):
        yield from read_json_lines(stream, outcomes)
    elif extension == "json" and head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        yield from _read_array(stream, name, outcomes)
    else:
        yield from _read_document(stream, outcomes, name)


def _read_array(stream: Stream, name: str, outcomes: Outcomes) -> Iterator[Outcome]:
    """A JSON file that is an array: of records, or else source code like any other JSON file."""
    content = stream.peek(outcomes.config.max_record_bytes + 1)
    try:
        value = (
            parse(content.removeprefix(b"\xef\xbb\xbf")) if len(content) <= outcomes.config.max_record_bytes else None
        )
    except BadRecord:
        value = None
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        fields = set(value[0])
        if fields & {outcomes.source.text_field or "text", "text", "content", "raw_content"}:
            stream.read(len(content))
            yield from read_json_array(content.removeprefix(b"\xef\xbb\xbf"), outcomes)
            return
    yield from _read_document(stream, outcomes, name)


def _read_document(stream: Stream, outcomes: Outcomes, name: str) -> Iterator[Outcome]:
    """A file that is one document."""
    limit = outcomes.config.max_record_bytes
    content = stream.read(limit + 1)
    if len(content) > limit:
        length = len(content) + _drain(stream)
        detail = f"a document of {length:,} bytes, above max_record_bytes ({limit:,}); its beginning is kept here"
        yield outcomes.quarantined(content[:limit], "too_long", detail)
    elif stream.damage:
        yield _damaged(stream, content, outcomes)
    elif is_binary(content[:SNIFF_BYTES]):
        yield outcomes.quarantined(content, "binary", f"named {name!r}, but it begins {content[:16]!r}: not text")
    elif not content.strip():
        yield outcomes.quarantined(content, "empty_file", "nothing but white space")
    else:
        yield outcomes.kept(content, media_type_of(content[:SNIFF_BYTES], name))


def _damaged(stream: Stream, content: bytes, outcomes: Outcomes) -> Outcome:
    damage, stream.damage = stream.damage, None
    assert damage is not None
    length = _drain(stream)
    detail = damage.detail + (f"; {length:,} bytes after it are readable" if length else "")
    return outcomes.quarantined(content or damage.content, damage.reason, detail)


def _drain(stream: Stream) -> int:
    """Pass over all that is left, damaged or not; how much it was."""
    length = 0
    while not stream.at_end():
        stream.damage = None
        length += stream.skip(1 << 20)
    return length


def _whole(stream: Stream, outcomes: Outcomes, reason: str, detail: str) -> Outcome:
    content = stream.read(outcomes.config.max_record_bytes)
    length = len(content) + _drain(stream)
    return outcomes.quarantined(content, reason, f"{detail} ({length:,} bytes)")


def _read_spooled_parquet(stream: Stream, outcomes: Outcomes) -> Iterator[Outcome]:
    """Parquet inside an archive or a packed file: its index is at its end, so it goes through a temporary file."""
    with tempfile.TemporaryFile() as file:
        while data := stream.read(CHUNK_BYTES):
            file.write(data)
        if stream.damage:
            damage, stream.damage = stream.damage, None
            file.seek(0)
            content = file.read(outcomes.config.max_record_bytes)
            yield outcomes.quarantined(content or damage.content, damage.reason, damage.detail)
            _drain(stream)
            return
        file.seek(0)
        yield from read_parquet(file, outcomes)
