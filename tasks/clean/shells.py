"""Tell pages whose body comes from JavaScript: what was saved is a shell, and its text is not the page's text.

The evidence is what an author leaves for the time before the script has run, in whatever language: a container with
nothing in it, a spinner, a skeleton, "loading…", a notice that JavaScript is needed, web components that stay empty.
Text counts in units: a character, or two for a CJK one. A page with running text is flagged only for skeletons or for
many empty components, and keeps its text: the flag says that some of it is missing.

in    str, str    the page, and the text that was extracted from it
out   str         `hollow`, `notice`, `loading`, `waiting`, `scripts`, `skeleton`, `components`: the evidence; or None
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import lxml.etree
import lxml.html

XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
UNSEEN = frozenset(("script", "style", "noscript", "template", "svg", "iframe", "head"))
CHROME = frozenset(("nav", "header", "footer", "aside", "button", "select", "textarea", "dialog"))
CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
NOSCRIPT = re.compile(r"<noscript[^>]*>(.{0,20000}?)</noscript", re.IGNORECASE | re.DOTALL)
SPACE = re.compile(r"\s+")
SKELETON = re.compile(r"skeleton|shimmer|placeholder-(?:glow|wave)|animate-pulse", re.IGNORECASE)
SKELETON_MARKS = ("keleton", "himmer", "placeholder-glow", "placeholder-wave", "animate-pulse")
SPINNER = re.compile(r"spinner|\bloader\b|\b(?:is)?loading\b|\bspin\b|-spin\b|\bskel\b", re.IGNORECASE)
COMPONENT = re.compile(r"<[a-z][a-z0-9]*-[a-z0-9-]+", re.IGNORECASE)
NEEDS_JAVASCRIPT = re.compile(
    r"java\s?script|джава\s?скрипт|яваскрипт|ジャバスクリプト|자바\s?스크립트|"
    r"جافا\s?سكر[يی]بت|جاوا\s?اسکریپت|जावास्क्रिप्ट|จาวาสคริปต์",
    re.IGNORECASE,
)
LOADING = re.compile(
    r"\bloading\b|please wait|\bchargement\b|\bwird geladen\b|\bladen\b|\bcargando\b|\bcarregando\b|\ba carregar\b|"
    r"\bcaricamento\b|ładowanie|\bnačítání\b|\bnačítava|\byükleniyor\b|\bladdar\b|\bindlæser\b|\blaster\b|\bladataan\b|"
    r"\bbetöltés|\bse încarcă\b|\bmemuat\b|đang tải|загрузка|завантаження|зареждане|φόρτωση|טוען|جار[يٍ]? التحميل|"
    r"در حال بارگذاری|लोड हो रहा|กำลังโหลด|加载中|正在加载|载入中|请稍候|載入中|正在載入|請稍候|加載中|"
    r"読み込み中|読込中|ロード中|로딩\s?중|불러오는\s?중|로드\s?중",
    re.IGNORECASE,
)
LITTLE_TEXT = 600  # extracted units: with more, the page has a text whatever its markup promises
HOLLOW_UNITS = 250  # of all text outside navigation: a title, a greeting, a price or two
LINE_UNITS = 60  # a run of text this long is a sentence rather than a label
MAX_LINE_UNITS, MAX_WAITING_UNITS, MIN_MARKS = 300, 2500, 4  # labels around several spinners, hardly a sentence
MIN_SCRIPTS, MAX_SCRIPTED_UNITS = 15, 500
MIN_SKELETONS = 2
MAX_NOTICE_UNITS = 5000  # of markup; a forum that writes its whole thread into <noscript> gives no notice
MIN_COMPONENTS, MAX_COMPONENT_UNITS = 10, 4000


def units(text: str) -> int:
    """Length of `text` without runs of spaces, CJK characters counted twice."""
    text = SPACE.sub(" ", text).strip()
    return len(text) + len(CJK.findall(text))


def javascript_evidence(html: str, text: str) -> str | None:
    """Why the page seems to be filled by JavaScript, or None."""
    little = units(text[: 4 * LITTLE_TEXT]) < LITTLE_TEXT
    noscript = " ".join(NOSCRIPT.findall(html)) if "<noscript" in html else ""
    notice = NEEDS_JAVASCRIPT.search(noscript) is not None and units(noscript) < MAX_NOTICE_UNITS
    marked = any(mark in html for mark in SKELETON_MARKS)  # a hundred times faster than the pattern
    if not little and not notice and not marked and len(COMPONENT.findall(html)) < MIN_COMPONENTS:
        return None  # nothing to find: most pages are not parsed a second time
    try:
        tree = lxml.html.document_fromstring(XML_DECLARATION.sub("", html))
    except (lxml.etree.ParserError, lxml.etree.XMLSyntaxError, ValueError):
        return None
    body = tree.find("body")
    return None if body is None else _evidence(tree, body, little, notice)


def _evidence(tree: lxml.html.HtmlElement, body: lxml.html.HtmlElement, little: bool, notice: bool) -> str | None:
    runs = list(_runs(body, CHROME))
    total = sum(map(units, runs))
    lines = sum(n for n in map(units, runs) if n >= LINE_UNITS)
    skeletons, spinners, components, mounts = _marks(body)
    if notice and total < HOLLOW_UNITS:
        return "notice"  # also where the extracted text is that of the notice
    if little:
        num_scripts = sum(1 for _ in tree.iter("script")) + sum(1 for _ in _script_links(tree))
        shown = " ".join(runs)
        if total < HOLLOW_UNITS:
            if NEEDS_JAVASCRIPT.search(shown):
                return "notice"
            if LOADING.search(shown):
                return "loading"
            if not lines and (num_scripts or mounts or skeletons or spinners or components):
                return "hollow"
        if lines < MAX_LINE_UNITS and total < MAX_WAITING_UNITS and skeletons + spinners >= MIN_MARKS:
            return "waiting"
        if lines < MAX_SCRIPTED_UNITS and total < MAX_WAITING_UNITS and num_scripts >= MIN_SCRIPTS:
            return "scripts"
    if skeletons >= MIN_SKELETONS:
        return "skeleton"
    return "components" if components >= MIN_COMPONENTS and lines < MAX_COMPONENT_UNITS else None


def _runs(element: lxml.html.HtmlElement, skip: frozenset[str]) -> Iterator[str]:
    """The pieces of text below `element`, without what no reader sees or what stands around the content."""
    stack: list[tuple[lxml.html.HtmlElement, bool]] = [(element, False)]
    while stack:
        node, is_tail = stack.pop()
        if is_tail:
            if node.tail:
                yield node.tail
            continue
        if not isinstance(node.tag, str) or node.tag in UNSEEN or (node.tag in skip and node is not element):
            continue
        if node.text:
            yield node.text
        for child in reversed(node):
            stack += [(child, True), (child, False)]


def _marks(body: lxml.html.HtmlElement) -> tuple[int, int, int, int]:
    """Numbers of skeletons, spinners, empty web components (0 where most have content), empty containers."""
    skeletons = spinners = components = filled = mounts = 0
    for element in body.iter(lxml.etree.Element):
        if element.tag in UNSEEN:
            continue
        name = f"{element.get('class') or ''} {element.get('id') or ''}"
        is_skeleton = SKELETON.search(name) is not None
        is_spinner = element.get("aria-busy") == "true" or SPINNER.search(name) is not None
        is_component = "-" in element.tag
        is_mount = element.tag == "main" or (element.tag in ("div", "section") and element.get("id") is not None)
        if (is_skeleton or is_spinner or is_component or is_mount) and _is_empty(element, 30 if is_spinner else 20):
            skeletons += is_skeleton
            spinners += is_spinner
            components += is_component
            mounts += is_mount
        else:
            filled += is_component
    return skeletons, spinners, components if components > filled else 0, mounts


def _is_empty(element: lxml.html.HtmlElement, max_units: int) -> bool:
    length = 0
    for run in _runs(element, frozenset()):
        length += units(run)
        if length >= max_units:
            return False
    return True


def _script_links(tree: lxml.html.HtmlElement) -> Iterator[lxml.html.HtmlElement]:
    for link in tree.iter("link"):
        if link.get("rel") == "modulepreload" or (link.get("rel") == "preload" and link.get("as") == "script"):
            yield link
