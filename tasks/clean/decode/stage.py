"""Turn the bytes of a record into text, and say how that was decided.

`cascade` finds the charset; then text that was decoded wrongly before it came here is repaired (`mojibake`), normalised
to NFC and "\\n", and freed of control characters, which are counted. What cannot be read, or lost too much on its way,
is quarantined with its bytes.

in    RawRecord   bytes as ingest found them
out   Document    text is NFC, newlines are "\\n", no control character but tab and newline; or Quarantined
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from ftfy.badness import is_bad

from tasks.clean.decode.badness import looks_bad
from tasks.clean.decode.cascade import CONTROL, DecodeConfig, UndecodableError, decode_bytes
from tasks.clean.decode.mojibake import repair
from tasks.document import Document, Kept, Outcome, Quarantined, RawRecord
from tasks.stage import map_stage

NEWLINES = re.compile("\r\n?|\x0c|\x85")


def normalise(text: str) -> tuple[str, int]:
    """NFC text with "\\n" newlines and no control characters, and how many characters were removed."""
    text = NEWLINES.sub("\n", text)
    text, removed = CONTROL.subn("", text)
    return unicodedata.normalize("NFC", text), removed


def decode(record: RawRecord, config: DecodeConfig) -> Outcome:
    """The one outcome of `record`."""
    try:
        found = decode_bytes(record.content, record.declared_charset, record.media_type == "text/html", config)
        repaired = repair(found.text, looks_bad if config.fast_paths else is_bad)
        text, removed = normalise(repaired.text)
        _check(text, repaired.lost, config)
    except UndecodableError as error:
        return _quarantined(record, error)
    metrics = {"replacements": float(found.replacements), "removed_controls": float(removed)}
    if repaired.kind:
        metrics["mojibake_repaired"] = 1.0
    return Kept(
        document=Document(
            id=record.id,
            text=text,
            source=record.source,
            url=record.url,
            licence=record.licence,
            encoding=found.encoding if repaired.kind in (None, "ftfy") else repaired.kind,
            encoding_method=found.method if not repaired.kind else "ftfy" if repaired.kind == "ftfy" else "candidate",
            encoding_confidence=found.confidence,
            media_type=record.media_type,
            metrics=metrics,
            origin=record.origin,
        )
    )


def _check(text: str, lost: bool, config: DecodeConfig) -> None:
    if not text.strip():
        raise UndecodableError("empty", "nothing is left of the text without control characters and white space")
    replaced = text.count("\ufffd")
    if lost or replaced > max(1, len(text) * config.max_replacement_ratio):
        raise UndecodableError(
            "lossy_mojibake", f"{replaced} of {len(text)} characters were lost when it was decoded before it came here"
        )


def _quarantined(record: RawRecord, error: UndecodableError) -> Quarantined:
    return Quarantined(
        id=record.id,
        content=record.content,
        reason=error.reason,
        detail=f"{record.origin.file} record {record.origin.record}: {error}",
        source=record.source,
        origin=record.origin,
        url=record.url,
        licence=record.licence,
    )


def process(records: Iterator[RawRecord], config: DecodeConfig) -> Iterator[Outcome]:
    for record in records:
        yield decode(record, config)


STAGE = map_stage(
    name="decode",
    module=__name__,
    config=DecodeConfig,
    input="ingest",
    process=process,
    summary="bytes to text: charset by byte-order mark, UTF-8, declaration, chardet or plausibility; mojibake undone",
)
