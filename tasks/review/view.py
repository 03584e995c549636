"""One case as two sides to read, the same for the terminal and the page: title, figures, text with passages marked.

Everything here is made fit to look at (tasks/report/text.py); escaping for a terminal or for HTML is the caller's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tasks.report.text import visible, visible_bytes
from tasks.review import beside
from tasks.review.beside import Case
from tasks.review.passages import Passage, differences, shorten, with_span
from tasks.review.sample import BELOW, KEPT, Record

HEX_BYTES = 32
MAX_FACT_CHARS = 400
RELATIONS = {
    beside.DUPLICATE: "kept in its place",
    beside.NEAR: "kept, nearest to the limit",
    BELOW: "kept as well, nearly alike",
    beside.SIMILAR: "kept, of the same kind",
    beside.BEFORE: "as the stage was given it",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """A document as it is shown."""

    title: str
    facts: list[tuple[str, str]]
    passages: list[Passage]
    key: dict[str, str] | None  # id, stage, reason, near of the label that it may be given; None: not judged here


def sides(case: Case, stage: str, max_chars: int) -> list[Side]:
    """The document to judge, and what stands beside it, if anything."""
    record, other = case.record, case.beside
    marked = _marked(case, max_chars)
    key = dict(zip(("id", "reason", "near"), case.key, strict=True)) | {"stage": stage}
    title = record.outcome if record.outcome == record.reason else f"{record.outcome}: {record.reason}"
    facts = _facts(record) + [(name, shown(value)) for name, value in record.evidence.items()]
    found = [Side(title=title, facts=facts, passages=marked[0], key=key)]
    if other:
        near = {"id": other.id, "stage": stage, "reason": KEPT, "near": record.reason}
        figure = []
        if case.limit and case.limit.metric in other.metrics:
            figure = [("metric", case.limit.metric), ("found", shown(other.metrics[case.limit.metric]))]
            figure.append(("limit", shown(case.limit.limit)))
        is_judged = case.relation == beside.NEAR
        found.append(
            Side(
                title=RELATIONS[case.relation],
                facts=_facts(other) + figure,
                passages=marked[1],
                key=near if is_judged else None,
            )
        )
    return found


def shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else visible(str(value), MAX_FACT_CHARS)


def _facts(record: Record) -> list[tuple[str, str]]:
    facts = [("document", record.id), ("from", f"{visible(record.source, 120)}, {visible(record.language, 20)}")]
    facts.append(("origin", visible(record.origin, MAX_FACT_CHARS)))
    if record.content:
        facts.append((f"first {min(HEX_BYTES, len(record.content))} bytes", record.content[:HEX_BYTES].hex(" ")))
    return facts


def _marked(case: Case, max_chars: int) -> tuple[list[Passage], list[Passage]]:
    record, other = case.record, case.beside
    if other and record.text and other.text and _is_comparable(case):
        left, right = differences(record.text, other.text, max_chars)
        return _fit(left), _fit(right)
    span = record.evidence.get("span")
    if isinstance(span, str) and record.text:
        left = _fit(with_span(record.text, span, max_chars))
    else:
        left = _text(record, max_chars)
    return left, _text(other, max_chars) if other else []


def _is_comparable(case: Case) -> bool:
    """Two versions of one text; a page and the text taken from it are not."""
    if case.relation == beside.BEFORE and case.beside:
        lengths = sorted((len(case.record.text), len(case.beside.text)))
        return lengths[0] * 2 > lengths[1]
    return case.relation in (beside.DUPLICATE, BELOW)


def _text(record: Record, max_chars: int) -> list[Passage]:
    if record.content is not None:
        more = record.num_bytes - min(len(record.content), max_chars)
        shown_bytes = visible_bytes(record.content[:max_chars], max_chars) or "(no bytes)"
        return [Passage(f"{shown_bytes} … ({more:,} more bytes)" if more > 0 else shown_bytes, False)]
    return _fit(shorten([Passage(record.text, False)], max_chars)) or [Passage("(no text)", False)]


def _fit(pieces: list[Passage]) -> list[Passage]:
    return [Passage(visible(piece.text, len(piece.text)), piece.marked) for piece in pieces]
