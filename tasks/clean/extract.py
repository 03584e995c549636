"""Take the main text out of a web page, and light markup off the rest.

Web pages go through trafilatura with its default balance: measured on 218 pages of ../shared/data/html its word F1 is
.885, against .853 with `favor_recall` and .850 with `fast`; comments are kept since forum pages are made of them (.833
with, .804 without). Where it finds nothing, every text block outside navigation is taken instead, and the document's
metric `extract_fallback` says so. Markdown and plain text lose their markup only; program text is not touched.

in    Document    text is what decode read; media_type says what it is
out   Document    text is prose (pages: paragraphs a line, table cells between "|"); or Dropped, Quarantined
ref   Barbaresi 2021 (Trafilatura), ACL demo paper, https://aclanthology.org/2021.acl-demo.15
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass

import lxml.etree
import lxml.html
import trafilatura

from tasks.clean.decode import normalise
from tasks.clean.markup import strip_inline_tags, strip_markdown
from tasks.document import Document, Dropped, Kept, Outcome, Quarantined
from tasks.stage import map_stage

log = logging.getLogger(__name__)

HTML_TYPES = ("text/html", "application/xhtml+xml")
BOILERPLATE = ("script", "style", "noscript", "template", "nav", "header", "footer", "aside", "form", "svg", "iframe")
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
CONTAINERS = ("p", "div", "section", "article", "blockquote", "pre", "figcaption", "table", "tr", "td", "th")
BLOCKS = frozenset((*HEADINGS, *CONTAINERS, "li", "dt", "dd", "br"))  # a line begins and ends with each
XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")  # lxml refuses a str that declares an encoding
SPACES = re.compile(r"[ \t\u3000]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractConfig:
    include_comments: bool = True  # of readers, below an article; forums need it
    include_tables: bool = True
    max_page_chars: int = 5_000_000  # a larger page is dropped unread: lxml holds about ten times its size in memory
    fallback: bool = True  # take all text blocks of a page in which trafilatura finds no main text

    def __post_init__(self) -> None:
        if self.max_page_chars < 1:
            raise ValueError(
                f"max_page_chars must be positive, found {self.max_page_chars}: every page would be dropped"
            )


def main_text(html: str, config: ExtractConfig) -> tuple[str, bool]:
    """The main text of a page, and whether the fallback found it; "" when there is none."""
    found = trafilatura.extract(
        html,
        output_format="txt",
        include_comments=config.include_comments,
        include_tables=config.include_tables,
        include_formatting=False,
        include_links=False,
        include_images=False,
        deduplicate=False,  # its memory of earlier pages would make the output depend on their order
        with_metadata=False,
    )
    if found and found.strip():
        return found, False
    return (text_blocks(html), True) if config.fallback else ("", False)


def text_blocks(html: str) -> str:
    """All text of a page outside scripts, navigation, headers, footers and forms, a block a line."""
    try:
        tree = lxml.html.document_fromstring(XML_DECLARATION.sub("", html))
    except (lxml.etree.ParserError, lxml.etree.XMLSyntaxError, ValueError):
        return ""
    body = tree.find("body")
    if body is None:
        return ""
    for element in list(body.iter(*BOILERPLATE, lxml.etree.Comment, lxml.etree.ProcessingInstruction)):
        if element is not body and element.getparent() is not None:
            element.drop_tree()
    pieces: list[str] = []
    for event, element in lxml.etree.iterwalk(body, events=("start", "end")):
        edge = "\n" if element.tag in BLOCKS else ""
        pieces += [edge, element.text or ""] if event == "start" else [edge, element.tail or ""]
    lines = (SPACES.sub(" ", line).strip() for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)


def extract(document: Document, config: ExtractConfig) -> Outcome:
    """The one outcome of `document`."""
    if document.media_type not in HTML_TYPES:
        return Kept(document=dataclasses.replace(document, text=_plain(document)))
    if len(document.text) > config.max_page_chars:
        evidence: dict[str, str | float | int] = {"chars": len(document.text), "max_page_chars": config.max_page_chars}
        return Dropped(document=document, reason="page_too_large", evidence=evidence)
    try:
        text, fallback = main_text(document.text, config)
    except Exception as error:  # a third-party parser on hostile input: whatever it raises costs this page only
        log.warning("%s: extraction failed: %r", document.origin.file, error)
        return _quarantined(document, error)
    text, removed = normalise(text)  # character references bring in what decode had removed
    text = re.sub("[\ud800-\udfff]", "", text).strip()
    if not text:
        return Dropped(document=document, reason="no_text", evidence={"page_chars": len(document.text)})
    metrics = dict(document.metrics)
    metrics["page_chars"] = float(len(document.text))
    metrics["removed_controls"] = metrics.get("removed_controls", 0.0) + removed
    if fallback:
        metrics["extract_fallback"] = 1.0
        log.info("%s: no main text found, took all text blocks", document.url or document.origin.file)
    return Kept(document=dataclasses.replace(document, text=text, metrics=metrics))


def _plain(document: Document) -> str:
    if document.media_type == "text/markdown":
        return strip_markdown(document.text)
    return strip_inline_tags(document.text) if document.media_type == "text/plain" else document.text


def _quarantined(document: Document, error: Exception) -> Quarantined:
    return Quarantined(
        id=document.id,
        content=document.text.encode("utf-8", "surrogatepass"),
        reason="extract_failed",
        detail=f"{document.origin.file} record {document.origin.record}: expected a page, found {error!r}",
        source=document.source,
        origin=document.origin,
        url=document.url,
        licence=document.licence,
        language=document.language,
    )


def process(documents: Iterator[Document], config: ExtractConfig) -> Iterator[Outcome]:
    for document in documents:
        yield extract(document, config)


STAGE = map_stage(
    name="extract",
    module=__name__,
    config=ExtractConfig,
    input="decode",
    process=process,
    summary="main text of web pages (trafilatura); front matter, comments and inline tags off other text",
)
