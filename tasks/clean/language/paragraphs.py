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

from tasks.clean.language.code_shape import CODE, MIN_SYMBOLS, SYMBOLS, code_share
from tasks.clean.language.fences import fences
from tasks.clean.language.identify import ALLOWED, SURE, Identified, IdentifyConfig, identify
from tasks.clean.language.scripts import code_points, han_counts, own_scripts, script_counts
from tasks.document import UNKNOWN_LANGUAGE

MIN_LETTERS = 40  # of an alphabet; a shorter paragraph follows the one before
MIN_LETTERS_OF_KIN = 120  # to be another language than the main one in the same script
MIN_LETTERS_OF_OWN_SCRIPT = 6  # two CJK characters: a script that tells the language, more or less
MIN_CONFIDENCE = 0.6  # of a paragraph in another script than the main one; in the same script: SURE
MIN_OTHER_SCRIPT = 0.03  # share of the letters of a text; less of a second script is names and terms
MIN_EVIDENCE = 5  # characters of one Chinese script alone, for a paragraph to be in the other one
MAX_PARAGRAPHS = 40  # of a text that are looked at for its shares
PARAGRAPH_CHARS = 600  # that are looked at
TELLING = {"Hani", "Kana", "Hang", *(script for script, languages in ALLOWED.items() if len(languages) == 1)}
KINDRED = (  # readers of one read the other, and models of single paragraphs take one for the other
    *({"bs", "hr", "sr", "sh"}, {"nb", "nn", "da"}, {"id", "ms"}, {"rw", "rn"}, {"zu", "xh", "ss", "nr"}),
    *({"cs", "sk"}, {"gl", "pt"}, {"hi", "ne", "mr"}, {"st", "tn", "nso"}, {"fa", "ps", "ur"}, {"ru", "uk", "be"}),
)
EMPTY_LINE = re.compile(r"\n[ \t]*\n\s*")
NEW_LINE = re.compile(r"\n")


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
    return _joined(_spans(text, list(_blocks(text)), main or identify(text, config), config))


def language_shares(text: str, main: Identified, config: IdentifyConfig, min_share: float) -> dict[str, float]:
    """Share of the characters in each language that holds at least `min_share`; empty where only one does.

    Of a text with more than MAX_PARAGRAPHS, every second (third, …) paragraph stands for those that are passed over.
    """
    if not min_share or not _may_be_mixed(text, main):
        return {}
    blocks = list(_blocks(text))
    paragraphs = [block for block in blocks if not block[2]]
    step = -(-len(paragraphs) // MAX_PARAGRAPHS) or 1
    sizes: Counter[str] = Counter()
    for span in _spans(text, paragraphs[::step], main, config):
        sizes[span.language] += step * len(text[span.start : span.end].strip())
    sizes[CODE] += sum(end - start for start, end, fenced in blocks if fenced)
    total = max(1, sizes.total())
    shares = {name: round(size / total, 4) for name, size in sizes.most_common() if size >= min_share * total}
    return shares if len(shares) > 1 else {}


def _spans(text: str, blocks: list[tuple[int, int, bool]], main: Identified, config: IdentifyConfig) -> list[Span]:
    spans: list[Span] = []
    before: Span | None = None  # the last one in words
    for start, end, fenced in blocks:
        found = (CODE, 1.0) if fenced else _language_of(text[start:end].strip(), main, before, config)
        spans.append(Span(start, end, *found))
        before = spans[-1] if spans[-1].language != CODE else before
    return spans


def _may_be_mixed(text: str, main: Identified) -> bool:
    """Cheap signs of a second language: doubt, a fence, the signs of code, letters of another script."""
    if "\n" not in text.strip():
        return False
    if "```" in text or "~~~" in text or main.confidence < SURE:
        return True
    head = text[:PARAGRAPH_CHARS]
    return main.others > MIN_OTHER_SCRIPT or sum(map(head.count, SYMBOLS)) >= MIN_SYMBOLS * len(head)


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """(start, end, fenced) of fences, and of the paragraphs between them; of lines, where no line is empty."""
    gap = EMPTY_LINE if EMPTY_LINE.search(text) else NEW_LINE
    at = 0
    for start, end in (*fences(text), (len(text), len(text))):
        for match in gap.finditer(text, at, start):
            yield at, match.end(), False
            at = match.end()
        if at < start:
            yield at, start, False
        if start < end:
            yield start, end, True
        at = end


def _language_of(paragraph: str, main: Identified, before: Span | None, config: IdentifyConfig) -> tuple[str, float]:
    """Language and confidence of one paragraph outside fences."""
    if code_share(paragraph) >= config.min_code_lines > 0:
        return CODE, 1.0
    codes = code_points(paragraph[:PARAGRAPH_CHARS])
    counts = script_counts(codes)
    size, script = sum(counts.values()), next(iter(counts), None)
    own = script in own_scripts(main.script)
    if size < (MIN_LETTERS_OF_KIN if own else MIN_LETTERS_OF_OWN_SCRIPT if script in TELLING else MIN_LETTERS):
        return (main.language, main.confidence) if own or before is None else (before.language, before.confidence)
    if own and main.language.startswith("zh-") and "Kana" not in counts:
        evidence = han_counts(codes)
        if evidence.simplified + evidence.traditional < MIN_EVIDENCE:
            return main.language, main.confidence
    found = identify(paragraph[:PARAGRAPH_CHARS], config)
    doubtful = own and (main.language == UNKNOWN_LANGUAGE or _kindred(found, main))
    if doubtful or found.confidence < (SURE if own else MIN_CONFIDENCE):
        return main.language, main.confidence
    return found.language, found.confidence


def _kindred(found: Identified, main: Identified) -> bool:
    return any(found.language in group and main.language in group for group in KINDRED)


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
