"""The paragraphs (or lines) of a text that may be told apart as copies, and a text without some of them.

Cutting a paragraph leaves a hole, so what breaks a text when it is missing is never compared

    code            documents whose language is code, and fenced blocks of Markdown
    tables          a paragraph of which most lines hold `|` twice or tabs inside
    verse, lists    paragraphs of several lines that are short on average; a poem's line has some 30 columns, a line of
                    wrapped prose 70 (a Chinese character takes two)
    short units     headings, list items, "see also": under `min_chars` normalised characters

in    str
out   Unit                span and hash; the spans of a text ascend and do not overlap
ref   Wenzek et al. 2019 (CCNet), arXiv:1911.00359, section 3.1; Raffel et al. 2019 (C4), arXiv:1910.10683, section 2.2
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tasks.dedup.normalise import exact_form

LINE = re.compile(r"[^\n]+\n?|\n")
FENCE = re.compile(r"\s*(`{3,}|~{3,})")
# East Asian wide letters, which take two columns in print.
WIDE = re.compile(
    "[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\U00020000-\U0003fffd]+"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ParagraphConfig:
    enabled: bool = True
    unit: Literal["paragraph", "line"] = "paragraph"  # ends at a blank line, or at every line break
    min_chars: int = 100  # of the unit's exact form
    min_documents: int = 10  # that hold it. 2: every copy goes, quoted law articles and untranslated passages too
    min_line_columns: int = 50  # on average, of units of several lines; shorter ones are verse or lists
    skip_languages: tuple[str, ...] = ("code",)
    max_removed: float = 0.8  # of a document's characters; a document that would lose more goes whole
    min_chars_left: int = 100  # a changed document with fewer goes whole
    max_source_loss: float = 0.5  # of a source's documents, gone whole; more stops the run
    min_source_documents: int = 100  # sources with fewer are not guarded

    def __post_init__(self) -> None:
        for name, least in (("min_chars", 1), ("min_documents", 2), ("min_chars_left", 0), ("min_line_columns", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"paragraphs.{name} must be at least {least}, found {getattr(self, name)}")
        for name in ("max_removed", "max_source_loss"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"paragraphs.{name} must be above 0 and at most 1, found {getattr(self, name)}")


class Unit(NamedTuple):
    """A paragraph or line: text[start:end] with the line breaks that follow it."""

    start: int
    end: int
    hash: bytes  # 128-bit BLAKE2b of its exact form


def spans(text: str, unit: Literal["paragraph", "line"]) -> Iterator[tuple[int, int, int]]:
    """(start, end of the content, end of the span) of each unit that is no part of a fenced block.

    A paragraph's span ends where the next one begins; a line's span is the line.
    """
    start = content_end = -1  # of the paragraph that is open; -1: none
    fenced = spoilt = False  # inside a fence; the open paragraph touches one
    for match in LINE.finditer(text):
        line = match.group()
        if line.isspace():
            continue
        fence = FENCE.match(line) is not None
        blank_before = start >= 0 and match.start() > content_end
        if start >= 0 and (unit == "line" or blank_before):
            if not spoilt:
                yield start, content_end, content_end if unit == "line" else match.start()
            start = -1
        if start < 0:
            start, spoilt = match.start(), False
        spoilt |= fence or fenced
        fenced ^= fence
        content_end = match.end()
    if start >= 0 and not spoilt:
        yield start, content_end, content_end if unit == "line" else len(text)


def comparable_units(text: str, config: ParagraphConfig) -> Iterator[Unit]:
    """The units of `text` that are long enough and neither table, verse nor list."""
    for start, content_end, end in spans(text, config.unit):
        if content_end - start < config.min_chars:
            continue
        content = text[start:content_end]
        if _is_table(content) or _has_short_lines(content, config.min_line_columns):
            continue
        form = exact_form(content)
        if len(form) >= config.min_chars:
            yield Unit(start, end, hashlib.blake2b(form.encode("utf-8", "surrogatepass"), digest_size=16).digest())


def cut(text: str, removed: Iterable[tuple[int, int]]) -> str:
    """`text` without the spans, which ascend."""
    pieces, position = [], 0
    for start, end in removed:
        pieces.append(text[position:start])
        position = end
    return "".join([*pieces, text[position:]])


def _is_table(content: str) -> bool:
    if "|" not in content and "\t" not in content:
        return False
    lines = content.strip().splitlines()
    return 2 * sum(map(_is_table_line, lines)) > len(lines)


def _is_table_line(line: str) -> bool:
    return line.count("|") >= 2 or sum(not cell.isspace() and cell != "" for cell in line.split("\t")) >= 3


def _has_short_lines(content: str, min_columns: int) -> bool:
    lines = content.strip().splitlines()
    columns = sum(len(line.strip()) for line in lines) + sum(map(len, WIDE.findall(content)))
    return len(lines) > 1 and columns < min_columns * len(lines)
