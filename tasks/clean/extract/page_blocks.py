"""Read a page once into blocks of text and the boxes that hold them.

A block is a run of text between two block-level tags; a box is a block-level element and the range of blocks inside it.
Formulas become their TeX text before that, so that every later reader of the tree sees them. One walk over the tree,
with an explicit stack: nesting costs no recursion.

in    str     a decoded page
out   Page    its tree, blocks in reading order, and boxes in document order
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import lxml.etree
import lxml.html

from tasks.clean.extract.page_marks import is_unseen, marks_of

XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")  # lxml refuses a str that declares an encoding
# Comments go while reading: a walk by tags does not see the text behind one, and frameworks put them within sentences.
# huge_tree: deeper than 255 levels.
PARSER = lxml.html.HTMLParser(remove_comments=True, remove_pis=True, huge_tree=True)
SPACES = re.compile(r"[\s\u00a0\u3000]+")
_SKIPPED = (
    "script style noscript template svg iframe head object embed canvas audio video select textarea datalist button"
    " input link meta title"
)
_BLOCK_TAGS = (
    "address article aside blockquote body br caption center dd details dialog div dl dt fieldset figcaption figure"
    " footer form h1 h2 h3 h4 h5 h6 header hr html legend li main menu nav ol p pre section summary table tbody td"
    " tfoot th thead tr ul"
)
SKIPPED = frozenset(_SKIPPED.split())
BLOCK_TAGS = frozenset(_BLOCK_TAGS.split())
MIN_PROSE_CHARS = 30  # shorter blocks are labels as often as sentences
MAX_PROSE_LINKED = 0.3
RENDERED_FORMULA = re.compile(
    r"\b(?:katex-html|MathJax(?:_Preview|_Display|_SVG|_CHTML)?|mwe-math-fallback-image\S*)\b"
)


@dataclass(slots=True)
class Block:
    text: str
    chars: int
    linked: int  # characters inside links
    box: int  # index of the innermost box

    @property
    def prose(self) -> int:
        """Unlinked characters, where the block reads like a sentence; else 0."""
        long, few_links = self.chars >= MIN_PROSE_CHARS, self.linked < MAX_PROSE_LINKED * self.chars
        return self.chars - self.linked if long and few_links else 0


@dataclass(slots=True)
class Box:
    tag: str
    parent: int  # index of the box around it, -1 for the body
    first: int  # blocks [first, end) lie inside
    marks: frozenset[str] = frozenset()
    end: int = 0
    names: str = ""  # its class attribute
    article: bool = False  # schema.org says that it holds the text of an article
    main: bool = False  # <main>, or the role of it


@dataclass(slots=True)
class Page:
    tree: lxml.html.HtmlElement
    blocks: list[Block] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)


def read_page(html: str) -> Page | None:
    """The page in blocks; None where lxml finds no document in it."""
    try:
        tree = lxml.html.document_fromstring(XML_DECLARATION.sub("", html), parser=PARSER)
    except (lxml.etree.ParserError, lxml.etree.XMLSyntaxError, ValueError):
        return None
    formulas_to_text(tree)
    body = tree.find("body")
    return _Reader(tree, body if body is not None else tree).read()


def formulas_to_text(tree: lxml.html.HtmlElement) -> None:
    """Replace MathML, KaTeX and MathJax by "$TeX$" in place, once each (they come with their rendering beside them)."""
    for math in list(tree.iter("math")):
        tex = _tex(math)
        parent = math.getparent()
        if parent is not None and parent.tag == "span":
            parent.attrib.pop("style", None)  # Wikipedia hides the MathML behind an image
        _become_text(math, tex)
    for element in list(tree.iter("script")):
        if (element.get("type") or "").startswith("math/tex"):
            _become_text(element, (element.text or "").strip())
    for element in list(tree.iter("span", "div", "mjx-container", "img")):
        if not RENDERED_FORMULA.search(element.get("class") or ""):
            continue
        if element.getparent() is not None and "$" not in "".join(element.itertext()):
            element.drop_tree()


def _tex(math: lxml.html.HtmlElement) -> str:
    for annotation in math.iter("annotation"):
        if annotation.get("encoding") == "application/x-tex" and annotation.text:
            return str(annotation.text).strip()
    return (math.get("alttext") or SPACES.sub(" ", " ".join(math.itertext()))).strip()


def _become_text(element: lxml.html.HtmlElement, tex: str) -> None:
    element.clear(keep_tail=True)
    element.tag = "span"
    element.text = f"${tex}$" if tex else ""


class _Reader:
    """The state of one walk: open boxes, and the text gathered since the last boundary."""

    def __init__(self, tree: lxml.html.HtmlElement, body: lxml.html.HtmlElement) -> None:
        self.body = body
        self.page = Page(tree, boxes=[Box("body", -1, 0)])
        self.open = [0]
        self.pieces: list[str] = []
        self.linked = self.links = self.pre = 0

    def read(self) -> Page:
        walker = lxml.etree.iterwalk(self.body, events=("start", "end"))
        for event, element in walker:
            tag = element.tag
            if event == "start":
                if tag in SKIPPED or (tag in ("span", "a") and is_unseen(element)):
                    walker.skip_subtree()
                    self.links += tag == "a"
                else:
                    self._start(element, tag)
            else:
                self._end(element, tag)
        self._flush()
        self.page.boxes[0].end = len(self.page.blocks)
        return self.page

    def _start(self, element: lxml.html.HtmlElement, tag: str) -> None:
        if tag in BLOCK_TAGS:
            self._flush(line_break=tag == "br")
            if tag != "br" and element is not self.body:
                self._open(element, tag)
        self.links += tag == "a"
        self.pre += tag == "pre"
        self._add(element.text)

    def _open(self, element: lxml.html.HtmlElement, tag: str) -> None:
        box = Box(tag, self.open[-1], len(self.page.blocks), marks_of(element), main=tag == "main")
        if element.attrib:
            box.names = element.get("class") or ""
            box.article = "articleBody" in (element.get("itemprop") or "")
            box.main = box.main or element.get("role") == "main"
        self.page.boxes.append(box)
        self.open.append(len(self.page.boxes) - 1)

    def _end(self, element: lxml.html.HtmlElement, tag: str) -> None:
        if tag in BLOCK_TAGS and tag != "br":
            self._flush()
            if element is not self.body:
                self.page.boxes[self.open.pop()].end = len(self.page.blocks)
        self.links -= tag == "a"
        self.pre -= tag == "pre"
        if element is not self.body:
            self._add(element.tail)

    def _add(self, text: str | None) -> None:
        if text:
            self.pieces.append(text)
            if self.links:
                self.linked += len(text.strip())

    def _flush(self, line_break: bool = False) -> None:
        if line_break and self.pre:
            self.pieces.append("\n")
            return
        raw = "".join(self.pieces)
        text = raw.strip("\n").rstrip() if self.pre else SPACES.sub(" ", raw).strip()
        if text.strip():
            self.page.blocks.append(Block(text, len(text), self.linked, self.open[-1]))
        self.pieces, self.linked = [], 0
