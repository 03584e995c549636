"""Take the main text out of a web page, and light markup off the rest.

Each page is read in a child process with limits (`sandbox.py`); one that breaks them is quarantined with
its bytes. A page that a script was to fill (`shells.py`) is marked with the metric `javascript_page`, and
with `render` filled by Chromium first (`render.py`; its result depends on the outside world). Markdown and
plain text lose their markup only; program text is not touched.

in    Document    text is what decode read; media_type says what it is
out   Document    text is prose (pages: paragraphs a line, table cells between "|"); or Dropped, Quarantined
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from tasks.clean.decode.stage import normalise
from tasks.clean.extract.markup import strip_inline_tags, strip_markdown
from tasks.clean.extract.page import PageText, read_page
from tasks.clean.extract.render import find_browser
from tasks.clean.extract.sandbox import Limits, SandboxFailure, shared_sandbox
from tasks.clean.extract.shells import EMPTY
from tasks.document import Document, Dropped, Kept, Outcome, Quarantined
from tasks.stage import map_stage

log = logging.getLogger(__name__)

HTML_TYPES = ("text/html", "application/xhtml+xml")
REASONS = {  # of a page whose reading failed
    "timeout": "extract_timeout",
    "memory": "extract_memory",
    "crashed": "extract_crashed",
    "failed": "extract_failed",
}
WALL_FACTOR = 5  # wall clock over processor time: a child that takes longer is stuck
HINT = "its text comes from JavaScript: pip install 'danlu[render]' and set extract.render=true to have it filled"

Read = Callable[[str], PageText]
Render = Callable[[Document], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractConfig:
    include_comments: bool = False  # of readers, below an article; the posts of a forum stay either way
    include_tables: bool = True
    fallback: bool = True  # take all text blocks of a page in which trafilatura finds no main text
    max_page_chars: int = 20_000_000  # a larger page is dropped unread; dense markup meets the two limits below sooner
    isolate: bool = True  # read pages in a child process, with the two limits below
    page_timeout_seconds: float = 30.0  # of processor time
    page_memory_mb: int = 1024
    javascript_pages: Literal["keep", "drop_empty", "drop", "quarantine"] = "drop_empty"
    javascript_min_chars: int = 200  # drop_empty: a page that JavaScript fills is kept from this much text on
    render: bool = False  # have Chromium fill such pages (needs the extra `render`)
    render_source: Literal["url", "bytes"] = "url"  # fetch again where the page has an address, or run what was saved
    render_browser: str | None = None  # path or name; None: the first of chromium, chromium-browser, google-chrome
    render_timeout_seconds: float = 30.0
    render_memory_mb: int = 4096  # of browser and driver together
    render_private_addresses: bool = False  # of this machine and network: only where the pages are your own

    def __post_init__(self) -> None:
        for name in (
            "max_page_chars",
            "page_timeout_seconds",
            "page_memory_mb",
            "render_timeout_seconds",
            "render_memory_mb",
        ):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, found {getattr(self, name)}: no page could be read")
        if self.javascript_min_chars < 0:
            raise ValueError(f"javascript_min_chars must be 0 or more, found {self.javascript_min_chars}")


def page_settings(config: ExtractConfig) -> dict[str, Any]:
    """What the text of a page depends on."""
    return {
        "include_comments": config.include_comments,
        "include_tables": config.include_tables,
        "fallback": config.fallback,
    }


def reader(config: ExtractConfig) -> Read:
    """Reads a page here, or with `isolate` in this thread's child process. Raises SandboxFailure."""
    settings = page_settings(config)
    if config.isolate:
        seconds = config.page_timeout_seconds
        limits = Limits(cpu_seconds=seconds, wall_seconds=WALL_FACTOR * seconds, memory_mb=config.page_memory_mb)

        def read_isolated(html: str) -> PageText:
            return PageText(**shared_sandbox("tasks.clean.extract.page:handler", settings, limits).call({"html": html}))

        return read_isolated

    def read_here(html: str) -> PageText:
        try:
            return read_page(html, settings)
        except Exception as error:  # a third-party parser on hostile input: whatever it raises costs this page only
            raise SandboxFailure("failed", repr(error)) from error

    return read_here


def renderer(config: ExtractConfig) -> Render | None:
    """Has Chromium fill a page, in a child process. Raises RenderUnavailable at once, SandboxFailure a page."""
    if not config.render:
        return None
    settings = {
        "browser": find_browser(config.render_browser),
        "source": config.render_source,
        "timeout_seconds": config.render_timeout_seconds,
        "allow_private": config.render_private_addresses,
    }
    seconds = 4 * config.render_timeout_seconds  # the renderer keeps the limit itself; this is for one that hangs
    limits = Limits(cpu_seconds=seconds, wall_seconds=seconds, memory_mb=config.render_memory_mb, tree=True)

    def render(document: Document) -> str:
        sandbox = shared_sandbox("tasks.clean.extract.render:handler", settings, limits)
        return sandbox.call({"html": document.text, "url": document.url})["html"]

    return render


def extract(
    document: Document, config: ExtractConfig, read: Read | None = None, render: Render | None = None
) -> Outcome:
    """The one outcome of `document`."""
    if document.media_type not in HTML_TYPES:
        return Kept(document=dataclasses.replace(document, text=_plain(document)))
    if len(document.text) > config.max_page_chars:
        evidence: dict[str, str | float | int] = {"chars": len(document.text), "max_page_chars": config.max_page_chars}
        return Dropped(document=document, reason="page_too_large", evidence=evidence)
    read = read or reader(config)
    try:
        page = read(document.text)
    except SandboxFailure as failure:
        log.warning("%s: extraction failed: %s", document.origin.file, failure)
        return _quarantined(document, REASONS[failure.kind], failure.detail)
    if page.javascript and render:
        return _rendered(document, page, config, read, render)
    return _outcome(document, page, config)


def _rendered(document: Document, page: PageText, config: ExtractConfig, read: Read, render: Render) -> Outcome:
    """The outcome with what Chromium shows, if that is more; a failure leaves the page as it was."""
    try:
        filled = read(render(document))
    except SandboxFailure as failure:
        log.warning("%s: rendering failed: %s", document.url or document.origin.file, failure)
        outcome = _outcome(document, page, config, {"render_failed": 1.0})
        if isinstance(outcome, Dropped):
            outcome.evidence["render_failed"] = failure.detail[:500]
        return outcome
    if len(filled.text) <= len(page.text):
        return _outcome(document, page, config, {"rendered": 0.0})
    still = filled.javascript if filled.javascript in EMPTY else None  # the browser, too, was shown a shell
    return _outcome(document, dataclasses.replace(filled, javascript=still), config, {"rendered": 1.0})


def _outcome(
    document: Document, page: PageText, config: ExtractConfig, more_metrics: dict[str, float] | None = None
) -> Outcome:
    text, removed = normalise(page.text)  # character references bring in what decode had removed
    text = re.sub("[\ud800-\udfff]", "", text).strip()
    metrics = {**document.metrics, **(more_metrics or {})}
    if more_metrics:
        metrics["javascript_page"] = 1.0
    metrics["page_chars"] = float(len(document.text))
    metrics["removed_controls"] = metrics.get("removed_controls", 0.0) + removed
    if page.javascript:
        metrics["javascript_page"] = 1.0
        if refused := _refused(document, text, page.javascript, config):
            return refused
    if not text:
        return Dropped(document=document, reason="no_text", evidence={"page_chars": len(document.text)})
    if page.method == "fallback":
        metrics["extract_fallback"] = 1.0
        log.info("%s: no main text found, took all text blocks", document.url or document.origin.file)
    return Kept(document=dataclasses.replace(document, text=text, metrics=metrics))


def _refused(document: Document, text: str, found: str, config: ExtractConfig) -> Outcome | None:
    """What the policy says of a page that JavaScript fills and that holds `text`; None to keep it."""
    policy = config.javascript_pages
    if policy == "quarantine":
        return _quarantined(document, "javascript_page", f"{HINT} (evidence: {found})")
    too_little = not text or (policy == "drop_empty" and len(text) < config.javascript_min_chars)
    if policy != "drop" and not too_little:
        return None
    evidence: dict[str, str | float | int] = {"found": found, "text_chars": len(text), "text": text[:200], "hint": HINT}
    return Dropped(document=document, reason="javascript_page", evidence=evidence)


def _plain(document: Document) -> str:
    if document.media_type == "text/markdown":
        return strip_markdown(document.text)
    return strip_inline_tags(document.text) if document.media_type == "text/plain" else document.text


def _quarantined(document: Document, reason: str, detail: str) -> Quarantined:
    return Quarantined(
        id=document.id,
        content=document.text.encode("utf-8", "surrogatepass"),
        reason=reason,
        detail=f"{document.origin.file} record {document.origin.record}: {detail}",
        source=document.source,
        origin=document.origin,
        url=document.url,
        licence=document.licence,
        language=document.language,
    )


def process(documents: Iterator[Document], config: ExtractConfig) -> Iterator[Outcome]:
    read, render = reader(config), renderer(config)
    for document in documents:
        yield extract(document, config, read, render)


STAGE = map_stage(
    name="extract",
    module=__name__,
    config=ExtractConfig,
    input="decode",
    process=process,
    summary="main text of web pages, read in a child process with limits; pages that JavaScript fills dropped, kept or "
    "rendered; front matter, comments and inline tags off other text",
)
