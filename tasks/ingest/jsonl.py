"""JSON lines: one record a line, split at "\\n" only.

`str.splitlines` would also break at U+2028, U+0085 and others that occur inside real text. A line that is empty, not
UTF-8, not JSON, too long or without text is quarantined as it is, and the next line is read.

in    Stream of the unpacked file
out   RawRecord            content is the text in UTF-8, declared_charset "utf-8"
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from tasks.document import Outcome
from tasks.ingest.config import SourceConfig
from tasks.ingest.outcomes import Outcomes
from tasks.ingest.sniff import JSON_LINES, SNIFF_BYTES, SOURCE_CODE, extension_of, is_binary, media_type_of
from tasks.ingest.stream import Stream

TEXT_FIELDS = ("text", "content", "raw_content")  # the first that is there; any other: name it in `text_field`
LICENCE_FIELDS = ("license", "licence")
NAME_FIELDS = ("path", "file_name", "filename")  # of the document itself: its extension tells code from prose
CODE_VALUES = frozenset(("code", "text/x-source"))
MAX_FIRST_LINE = 1 << 20  # of a file that may be JSON lines under another name


class BadRecord(ValueError):
    """A record that cannot be used; `reason` is its folder in quarantine."""

    def __init__(self, reason: str, detail: str):
        super().__init__(detail)
        self.reason = reason


def is_json_lines(head: bytes, name: str, source: SourceConfig) -> bool:
    """Whether a file is JSON lines, by its name or its first line; `head`: its first MAX_FIRST_LINE bytes."""
    extension, sample = extension_of(name), head[:SNIFF_BYTES]
    if extension in JSON_LINES and not is_binary(sample):
        return True
    may_be = extension == "json" or extension not in SOURCE_CODE
    begins = sample.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    return may_be and begins and is_record_line(head.split(b"\n", 1)[0], source)


def read_json_lines(stream: Stream, outcomes: Outcomes) -> Iterator[Outcome]:
    """The records of a JSON-lines file, or of a range of one."""
    limit = outcomes.config.max_record_bytes
    if stream.position == 0 and stream.peek(3) == b"\xef\xbb\xbf":
        stream.read(3)
    while not stream.at_end():
        offset = stream.position
        line = stream.read_line(limit + 1)
        if stream.damage and not line.endswith(b"\n"):
            damage, stream.damage = stream.damage, None
            if line:
                yield outcomes.quarantined(line, damage.reason, f"record cut short: {damage.detail}", offset=offset)
            if damage.content or not line:
                yield outcomes.quarantined(damage.content, damage.reason, damage.detail, offset=offset)
        elif len(line) > limit and not line.endswith(b"\n"):
            length = len(line) + _skip_line(stream)
            detail = f"a line of {length:,} bytes, above max_record_bytes ({limit:,}); its beginning is kept here"
            yield outcomes.quarantined(line, "too_long", detail, offset=offset)
        else:
            yield _outcome_of(line.rstrip(b"\r\n"), outcomes, offset)


def _skip_line(stream: Stream) -> int:
    """Pass over the rest of a line; its length without the newline. Stops at damage, which the caller meets next."""
    length = 0
    while line := stream.read_line(1 << 20):
        length += len(line)
        if line.endswith(b"\n"):
            return length - 1
    return length


def _outcome_of(line: bytes, outcomes: Outcomes, offset: int) -> Outcome:
    try:
        return outcome_of_record(parse(line), outcomes, offset=offset, raw=line)
    except BadRecord as bad:
        return outcomes.quarantined(line, bad.reason, str(bad), offset=offset)


def parse(line: bytes) -> Any:
    """The JSON value of `line`, or BadRecord."""
    if not line.strip():
        raise BadRecord("empty_line", "an empty line where a JSON object was due")
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        strict = error
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise BadRecord("bad_utf8", f"not UTF-8: {error}") from error
    try:
        return json.loads(text)  # what it takes beyond orjson: NaN, Infinity, lone surrogates, huge integers
    except (ValueError, RecursionError) as error:
        raise BadRecord("bad_json", f"not JSON: {strict}") from error


def outcome_of_record(record: Any, outcomes: Outcomes, *, offset: int, raw: bytes) -> Outcome:
    """The outcome of one parsed record; raises BadRecord. `raw` is what it was parsed from."""
    if not isinstance(record, Mapping):
        raise BadRecord("bad_json", f"expected a JSON object, found {type(record).__name__}")
    source = outcomes.source
    text = record[text_field(record, source)]
    if not isinstance(text, str):
        raise BadRecord("no_text", f"field {text_field(record, source)!r} holds {type(text).__name__}, expected text")
    content, url = _encode(text), text_of(record.get(source.url_field))
    media_type = media_type_of_record(record, content)
    if not text.strip():
        return outcomes.dropped(raw, "empty_text", {"chars": len(text)}, offset=offset, media_type=media_type, url=url)
    licence = licence_of(record, source)
    return outcomes.kept(content, media_type, offset=offset, declared_charset="utf-8", url=url, licence=licence)


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        detail = f"a lone surrogate (U+{ord(text[error.start]):04X}) at character {error.start:,}: half of a character"
        raise BadRecord("lone_surrogate", detail) from error


def text_field(record: Mapping[str, Any], source: SourceConfig) -> str:
    """The name of the field that holds the text; BadRecord when there is none."""
    candidates = (source.text_field,) if source.text_field else TEXT_FIELDS
    for name in candidates:
        if name in record:
            return name
    found = ", ".join(map(str, list(record)[:12])) or "no fields"
    raise BadRecord("no_text", f"expected a field {' or '.join(map(repr, candidates))}, found: {found}; see text_field")


def licence_of(record: Mapping[str, Any], source: SourceConfig) -> str | None:
    """The licence that the record names itself."""
    for name in (source.licence_field,) if source.licence_field else LICENCE_FIELDS:
        value = record.get(name)
        if isinstance(value, list):
            value = "; ".join(item for item in value if isinstance(item, str))
        if licence := text_of(value):
            return licence
    return None


def text_of(value: Any) -> str | None:
    """`value` when it is text that can be written, else None."""
    if not isinstance(value, str) or not value:
        return None
    return value.encode("utf-8", "replace").decode()


def media_type_of_record(record: Mapping[str, Any], content: bytes) -> str:
    """What the record says of itself, else what its content and its own file name say."""
    if record.get("media_type") in CODE_VALUES or record.get("lang") in CODE_VALUES:
        return "text/x-source"
    name = next((record[key] for key in NAME_FIELDS if isinstance(record.get(key), str)), "")
    return media_type_of(content[:SNIFF_BYTES], name)


def read_json_array(content: bytes, outcomes: Outcomes) -> Iterator[Outcome]:
    """The records of a file that is one JSON array of objects."""
    for record in parse(content):
        raw = json.dumps(record, ensure_ascii=True).encode()
        try:
            yield outcome_of_record(record, outcomes, offset=0, raw=raw)
        except BadRecord as bad:
            yield outcomes.quarantined(raw, bad.reason, str(bad))


def is_record_line(line: bytes, source: SourceConfig) -> bool:
    """`line` is a whole JSON object with a text field: the file is JSON lines, whatever its name."""
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        record = parse(line)
        return isinstance(record, dict) and isinstance(record[text_field(record, source)], str)
    except BadRecord:
        return False
