"""Tell pages whose body comes from JavaScript: what was saved is a shell, and its text is not the page's text.

The evidence is what an author leaves for the time before the script has run, in whatever language: a container with
nothing in it, a spinner, a skeleton, "loading…", a notice that JavaScript is needed, islands that stay empty, the
bundle of a client-side framework around hardly a sentence. Text counts in units: a character, or two for a CJK one. A
page with text is flagged only for skeletons among labels or for many empty islands, and keeps its text: the flag says
that some of it is missing.

`Loading` and `notice` know the languages in their patterns; the other kinds of evidence know none. A page that needs
JavaScript and leaves no such trace is missed.

in    str, str    the page, and the text that was extracted from it
out   str         `hollow`, `notice`, `loading`, `waiting`, `framework`, `skeleton`, `islands`: the evidence; or None
ref   Miller 2020, Islands Architecture, https://jasonformat.com/islands-architecture
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import lxml.etree
import lxml.html

XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
UNSEEN = frozenset(("script", "style", "noscript", "template", "svg", "iframe", "head"))
CHROME = frozenset(("nav", "header", "footer", "aside", "button", "select", "textarea", "dialog"))
CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
NOSCRIPT_TAG = re.compile(r"<(/?)noscript[^<>]*>", re.IGNORECASE)
WORD = re.compile(r"\w")
MEDIA = ("img", "picture", "video", "audio", "iframe", "object", "embed", "input")
SPACE = re.compile(r"\s+")
SKELETON = re.compile(r"skeleton|shimmer|placeholder-(?:glow|wave)|animate-pulse", re.IGNORECASE)
SKELETON_MARKS = ("keleton", "himmer", "placeholder-glow", "placeholder-wave", "animate-pulse")
SPINNER = re.compile(r"spinner|\bloader\b|\b(?:is)?loading\b|\bspin\b|-spin\b|\bskel\b", re.IGNORECASE)
ISLAND_MARKS = ("-island", "<turbo-frame", "<include-fragment")
FRAMEWORK_MARKS = (  # what a client-side framework leaves in the page for its script to take over
    "/_next/static/",
    "__NEXT_DATA__",
    "/_nuxt/",
    "__NUXT__",
    "ng-version=",
    "data-reactroot",
    "data-server-rendered=",
    'id="___gatsby"',
    "__remixContext",
    "data-sveltekit",
    "__APOLLO_STATE__",
    "__INITIAL_STATE__",
    "__PRELOADED_STATE__",
)
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
EMPTY = frozenset(("hollow", "notice", "loading"))  # kinds of evidence that hold only where there is next to no text
LITTLE_TEXT = 600  # extracted units in sentences: with more, the page has a text whatever its markup promises
HOLLOW_UNITS = 250  # of all text outside navigation: a title, a greeting, a price or two
LINE_UNITS = 60  # a run of text this long is a sentence rather than a label
MAX_LINE_UNITS, MAX_WAITING_UNITS, MIN_MARKS = 300, 2500, 4  # labels around several spinners, hardly a sentence
MAX_FRAMEWORK_UNITS = 500  # of sentences in a page that a framework fills
MIN_SKELETONS, MAX_PROSE = 2, 2 / 3  # of a page mostly in sentences, skeletons stand for what surrounds the text
MAX_NOTICE_UNITS = 5000  # of markup; a forum that writes its whole thread into <noscript> gives no notice
MIN_ISLANDS, MAX_ISLAND_UNITS = 10, 4000


def units(text: str) -> int:
    """Length of `text` without runs of spaces, CJK characters counted twice."""
    text = SPACE.sub(" ", text).strip()
    return len(text) + len(CJK.findall(text))


@dataclass(slots=True)
class _Marks:
    """Numbers of elements that hold nothing yet."""

    skeletons: int = 0
    spinners: int = 0
    islands: int = 0
    components: int = 0  # custom elements
    mounts: int = 0  # containers for a script to fill


def javascript_evidence(html: str, text: str) -> str | None:
    """Why the page seems to be filled by JavaScript, or None."""
    little = sum(n for n in map(units, text[: 8 * LITTLE_TEXT].split("\n")) if n >= LINE_UNITS) < LITTLE_TEXT
    noscript = noscript_text(html)
    notice = NEEDS_JAVASCRIPT.search(noscript) is not None and units(noscript) < MAX_NOTICE_UNITS
    framework = units(text[: 4 * MAX_WAITING_UNITS]) < MAX_WAITING_UNITS and any(
        mark in html for mark in FRAMEWORK_MARKS
    )
    marked = any(mark in html for mark in (*SKELETON_MARKS, *ISLAND_MARKS))  # much faster than the patterns
    if not little and not notice and not framework and not marked:
        return None  # nothing to find: most pages are not parsed a second time
    try:
        tree = lxml.html.document_fromstring(XML_DECLARATION.sub("", html))
    except (lxml.etree.ParserError, lxml.etree.XMLSyntaxError, ValueError):
        return None
    body = tree.find("body")
    if body is None:
        return None
    runs = list(_runs(body, CHROME))
    total = sum(map(units, runs))
    lines = sum(n for n in map(units, runs) if n >= LINE_UNITS)
    if total >= MAX_WAITING_UNITS and not marked:
        return None
    marks = _marks(body)
    if total < HOLLOW_UNITS and (found := _hollow(tree, runs, total, lines, little, notice, marks)):
        return found
    return _partial(total, lines, little, framework, marks)


def noscript_text(html: str) -> str:
    """What stands in <noscript> elements, as markup."""
    if "noscript" not in html:
        return ""
    pieces, start = [], -1
    for tag in NOSCRIPT_TAG.finditer(html):
        if tag.group(1) and start >= 0:
            pieces.append(html[start : tag.start()])
            start = -1
        elif not tag.group(1) and start < 0:
            start = tag.end()
    return " ".join(pieces)


def _hollow(
    tree: lxml.html.HtmlElement,
    runs: list[str],
    total: int,
    lines: int,
    little: bool,
    notice: bool,
    marks: _Marks,
) -> str | None:
    """The evidence in a page with next to no text."""
    shown = " ".join(runs)
    if notice or (little and NEEDS_JAVASCRIPT.search(shown)):
        return "notice"  # also where the extracted text is that of the notice
    if not little:
        return None
    if LOADING.search(shown):
        return "loading"
    scripted = next(tree.iter("script"), None) is not None or next(_script_links(tree), None) is not None
    waits = marks.skeletons or marks.spinners or marks.components
    mounted = marks.mounts and (scripted or total < LINE_UNITS)  # scripts may have been taken off the saved page
    return "hollow" if not lines and (waits or mounted or (scripted and not total)) else None


def _partial(total: int, lines: int, little: bool, framework: bool, marks: _Marks) -> str | None:
    """The evidence in a page with some text of its own."""
    sparse = total < MAX_WAITING_UNITS
    if little and sparse and lines < MAX_LINE_UNITS and marks.skeletons + marks.spinners >= MIN_MARKS:
        return "waiting"
    if framework and sparse and lines < MAX_FRAMEWORK_UNITS:
        return "framework"
    if marks.skeletons >= MIN_SKELETONS and lines < MAX_PROSE * total:
        return "skeleton"
    return "islands" if marks.islands >= MIN_ISLANDS and lines < MAX_ISLAND_UNITS else None


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


def _marks(body: lxml.html.HtmlElement) -> _Marks:
    marks = _Marks()
    for element in body.iter(lxml.etree.Element):
        if element.tag in UNSEEN:
            continue
        name = f"{element.get('class') or ''} {element.get('id') or ''}"
        is_skeleton = SKELETON.search(name) is not None
        is_spinner = element.get("aria-busy") == "true" or SPINNER.search(name) is not None
        is_component = "-" in element.tag
        is_mount = element.tag == "main" or (element.tag in ("div", "section") and element.get("id") is not None)
        if (is_skeleton or is_spinner or is_component) and _is_empty(element, 30 if is_spinner else 20):
            marks.skeletons += is_skeleton
            marks.spinners += is_spinner
            marks.components += is_component
            marks.islands += element.tag.endswith("-island") or element.tag in ("turbo-frame", "include-fragment")
        if is_mount and not any(map(WORD.search, _runs(element, frozenset()))):
            marks.mounts += next(element.iter(*MEDIA), None) is None
    return marks


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
