"""The languages of a mixed text, paragraph by paragraph.

Fenced blocks are "code", and so are paragraphs shaped like it. Paragraphs with enough letters are named by `identify`;
one in the script of the main language goes to another language only where the models are sure, since short paragraphs
of kindred languages (Danish and Norwegian, Serbian and Croatian) are easily confused. Short paragraphs follow the one
before, unless their script belongs to another language.

in    text
out   spans (start, end, language, confidence) that cover the text, neighbours of one language joined
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tasks.clean.code_shape import CODE, FENCE, MIN_SYMBOLS, SYMBOLS, code_share
from tasks.clean.identify import SURE, Identified, IdentifyConfig, identify, sample_of
from tasks.clean.scripts import SYLLABIC, script_of, script_shares
from tasks.document import UNKNOWN_LANGUAGE

MIN_LETTERS = 40  # of an alphabet, or the CJK characters that stand for as many; a shorter paragraph follows another
MIN_LETTERS_OF_KIN = 120  # to be another language than the main one in the same script
MIN_OTHER_SCRIPT = 0.05  # share of the letters of a text; less of a second script is names and terms
PARAGRAPH = re.compile(r"(?:(?!\n[ \t]*\n).)+(?:\n[ \t]*(?=\n))*\n*", re.DOTALL)
LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")


@dataclass(frozen=True, slots=True)
class Span:
    """`text[start:end]` is in `language`."""

    start: int
    end: int
    language: str
    confidence: float


def paragraph_languages(text: str, config: IdentifyConfig | None = None, main: Identified | None = None) -> list[Span]:
    """Spans that cover `text` in order; `main` is what `identify` says of all of it, where that is known already."""
    config = config or IdentifyConfig()
    main = main or identify(text, config)
    spans: list[Span] = []
    for start, end, fenced in _blocks(text):
        if fenced:
            spans.append(Span(start, end, CODE, 1.0))
            continue
        before = next((span for span in reversed(spans) if span.language != CODE), None)
        spans.append(_named(text, start, end, main, before, config))
    return _joined(spans)


def language_shares(text: str, main: Identified, config: IdentifyConfig, min_share: float) -> dict[str, float]:
    """Share of the characters in each language that holds at least `min_share`; empty where only one does."""
    if not min_share or not _may_be_mixed(text, main):
        return {}
    sizes: Counter[str] = Counter()
    for span in paragraph_languages(text, config, main):
        sizes[span.language] += len(text[span.start : span.end].strip())
    total = max(1, sizes.total())
    shares = {name: round(size / total, 4) for name, size in sizes.most_common() if size >= min_share * total}
    return shares if len(shares) > 1 else {}


def _may_be_mixed(text: str, main: Identified) -> bool:
    """Cheap signs of a second language: doubt, a fence, the signs of code, letters of another script."""
    if "\n" not in text.strip():
        return False
    if "```" in text or "~~~" in text or main.confidence < SURE:
        return True
    sample = sample_of(text)
    if sum(map(sample.count, SYMBOLS)) >= MIN_SYMBOLS * len(sample):
        return True
    own = {"Hans": ("Hani",), "Hant": ("Hani",), "Jpan": ("Hani", "Kana"), "Kore": ("Hang", "Hani")}
    ours = own.get(main.script or "", (main.script,))
    return (
        sum(share for script, share in script_shares(Counter(sample)).items() if script not in ours) > MIN_OTHER_SCRIPT
    )


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """(start, end, fenced) of fences, and of the paragraphs between them; of lines, where no line is empty."""
    unit = PARAGRAPH if re.search(r"\n[ \t]*\n", text) else LINE
    at = 0
    fences = [match.span() for match in FENCE.finditer(text)] if "```" in text or "~~~" in text else []
    for start, end in (*fences, (len(text), len(text))):
        yield from ((*match.span(), False) for match in unit.finditer(text, at, start))
        if start < end:
            yield start, end, True
        at = end


def _named(text: str, start: int, end: int, main: Identified, before: Span | None, config: IdentifyConfig) -> Span:
    paragraph = text[start:end]
    if code_share(paragraph) >= config.min_code_lines > 0:
        return Span(start, end, CODE, 1.0)
    letters = Counter(filter(None, map(script_of, paragraph)))
    size = sum(times * SYLLABIC.get(script, 1.0) for script, times in letters.items())
    follow = Span(start, end, *((before.language, before.confidence) if before else (main.language, main.confidence)))
    if size < MIN_LETTERS:
        return follow
    found = identify(paragraph, config)
    kin = found.script == main.script
    if found.language in (UNKNOWN_LANGUAGE, main.language) or (
        kin and (found.confidence < SURE or size < MIN_LETTERS_OF_KIN)
    ):
        return Span(start, end, main.language, main.confidence)
    return Span(start, end, found.language, found.confidence)


def _joined(spans: list[Span]) -> list[Span]:
    """Neighbours of one language as one span; its confidence is the mean by characters."""
    joined: list[Span] = []
    for span in spans:
        if joined and joined[-1].language == span.language:
            last = joined.pop()
            a, b = last.end - last.start, span.end - span.start
            confidence = (last.confidence * a + span.confidence * b) / (a + b)
            joined.append(Span(last.start, span.end, span.language, confidence))
        else:
            joined.append(span)
    return joined
