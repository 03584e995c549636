"""The main text of one web page: trafilatura and our own reading of its blocks, weighed against each other.

A box that the page itself calls its articleBody is the text, and so is the <main> of a manual (trafilatura puts its
code on one line, and costs three times as much as all the rest). Else trafilatura in its fast mode reads the same tree
as `boilerplate`. Where both agree, its lines are taken without those that the blocks reject, and what it left out
between them is filled in from the blocks. Where it holds only a part of what the blocks do (shops, services, lists,
questions with answers) the blocks win; an article that goes on after trafilatura's end in boxes of other names goes on
with comments or other articles, so there it wins. Where neither holds the other, the whole of trafilatura with its own
fallbacks decides, at three times the cost, unless it took labels only. Pages in Chinese, Japanese or Korean take the
blocks: trafilatura's lengths are meant for alphabets.

in    str         a decoded page
out   MainText    paragraphs a line, table cells between "|"; "" where there is none
ref   Barbaresi 2021 (Trafilatura), ACL demo paper, https://aclanthology.org/2021.acl-demo.15
      Kohlschütter et al. 2010, Boilerplate Detection using Shallow Text Features, WSDM (link density of blocks)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import lxml.etree
import lxml.html
import trafilatura

from tasks.clean.extract.boilerplate import article_box, clean_lines, main_blocks, manual_blocks, render
from tasks.clean.extract.page_blocks import BLOCK_TAGS, PARSER, SPACES, XML_DECLARATION, Page, read_page

BOILERPLATE = ("script", "style", "noscript", "template", "nav", "header", "footer", "aside", "form", "svg", "iframe")
NO_WORD = re.compile(r"[\W_]+")
CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
MIN_CJK_SHARE = 0.3
ARTICLE = (  # two patterns, each with a literal beginning: one with both took a third of the time of a page
    re.compile(r'"@type"\s*:\s*\[?\s*"\w{0,40}(?:Article|BlogPosting)"'),
    re.compile(r'og:type["\'][^>]{0,40}["\']article["\']'),
)
FORUM = ("DiscussionForumPosting", "phpBB", "vBulletin", "vbulletin", "XenForo", "xenforo")
MIN_BLOCK_CHARS = 200  # of the blocks' text, to be believed against trafilatura
AGREE_ARTICLE, AGREE_OTHER = 0.6, 0.8  # share of the blocks' text that trafilatura holds too
MIN_GAP = 0.03  # of the blocks' text, left out by trafilatura between its first line and its last, to be filled in
MIN_NAMING_CHARS = 60  # a block this long says by its box where the text of a page stands
MIN_SAME_BOXES = 0.5  # of the text behind trafilatura's end, in such boxes: the article goes on
MAX_UNLIKE, MIN_OWN_SIZE = 0.1, 0.85  # trafilatura has the same text in lines that cannot be compared (one long one)
MIN_PROSE_SHARE = 0.2  # of trafilatura's text, or it took labels and left the sentences
MIN_COVERED = 0.75  # share of trafilatura's lines that the blocks hold, to be called a part of them
MIN_COVERED_TO_CUT = 0.85
MIN_OVERLAP = 0.2  # below it trafilatura took something else, on articles as well
MIN_AFTER = 0.9
MAX_SCAN = 2_000_000_000  # characters compared; a larger page compares whole lines only


@dataclass(frozen=True, slots=True)
class MainText:
    text: str  # "" where nothing was found
    method: str  # "both", "blocks", "trafilatura", "fallback" (every block outside navigation), or "none"


def main_text(
    html: str, *, include_comments: bool = False, include_tables: bool = True, fallback: bool = True
) -> MainText:
    """The main text of a page and the method that found it.

    `include_comments`: readers' comments below an article; the posts of a forum are main text whatever it says.
    """
    page = read_page(html)
    if page is None or not (page.blocks or any(t.strip() for t in page.tree.itertext())):
        return MainText("", "none")
    text, method = _weigh(page, html, include_comments, include_tables)
    forum = any(word in html for word in FORUM)
    text = clean_lines(text, include_comments=include_comments, forum=forum)
    if text.strip():
        return MainText(text, method)
    text = text_blocks(html) if fallback else ""
    return MainText(text, "fallback" if text else "none")


def _weigh(page: Page, html: str, include_comments: bool, include_tables: bool) -> tuple[str, str]:
    if any(word in html for word in FORUM):
        return _trafilatura(page, False, True, include_tables), "trafilatura"
    article = any(pattern.search(html) for pattern in ARTICLE)
    if not article and (keep := manual_blocks(page, include_comments=include_comments)) is not None:
        return render(page, keep, include_tables=include_tables), "blocks"
    keep = main_blocks(page, include_comments=include_comments)
    own = render(page, keep, include_tables=include_tables)
    enough = len(own) >= MIN_BLOCK_CHARS
    if article_box(page) is not None or (enough and len(CJK.findall(own)) > MIN_CJK_SHARE * len(own)):
        return own, "blocks"
    quick = _trafilatura(page, True, include_comments, include_tables)
    found = _Comparison(page, keep, quick)
    if found.held >= (AGREE_ARTICLE if article else AGREE_OTHER):
        return _agreed(found, own, quick, include_tables)
    if enough and found.covered >= MIN_COVERED:
        ended = article and found.held >= MIN_OVERLAP and found.after() >= MIN_AFTER
        goes_on = not ended or found.alike() >= MIN_SAME_BOXES
        return (own, "blocks") if goes_on else (found.cut(), "both")
    full = _trafilatura(page, False, True, include_tables)
    labels = found.prose_of(full) < MIN_PROSE_SHARE * len(full)
    return (own, "blocks") if labels and found.prose_of(own) >= MIN_BLOCK_CHARS else (full, "trafilatura")


def _agreed(found: _Comparison, own: str, quick: str, include_tables: bool) -> tuple[str, str]:
    """The text where trafilatura holds most of what the blocks do."""
    if found.covered >= MIN_COVERED_TO_CUT:
        return (found.filled(include_tables) if found.gap() >= MIN_GAP else found.cut()), "both"
    unlike = found.covered < MAX_UNLIKE and len(own) >= MIN_OWN_SIZE * len(quick)
    return (own, "blocks") if unlike else (quick, "trafilatura")


def _trafilatura(page: Page, fast: bool, include_comments: bool, include_tables: bool) -> str:
    found = trafilatura.extract(
        page.tree,
        fast=fast,
        output_format="txt",
        include_comments=include_comments,
        include_tables=include_tables,
        include_formatting=False,
        include_links=False,
        include_images=False,
        deduplicate=False,  # its memory of earlier pages would make the output depend on their order
        with_metadata=False,
    )
    return found or ""


def _key(text: str) -> str:
    return NO_WORD.sub("", text.lower())


class _Comparison:
    """The blocks of a page beside trafilatura's lines, compared by their letters and digits alone."""

    def __init__(self, page: Page, keep: Sequence[bool], text: str) -> None:
        self.page = page
        self.keep = keep
        self.lines = text.split("\n")
        self.keys = [_key(block.text) for block in page.blocks]
        self.sizes = [block.chars for block in page.blocks]
        self.line_keys = [_key(line) for line in self.lines]
        self.kept_text = "".join(key for key, kept in zip(self.keys, keep, strict=True) if kept)
        whole = "".join(self.line_keys)
        scan = len(self.keys) * len(whole) <= MAX_SCAN
        known = set(self.line_keys)
        self.shared = [
            kept and (key in known or (scan and key in whole)) for key, kept in zip(self.keys, keep, strict=True)
        ]
        kept_keys = {key for key, kept in zip(self.keys, keep, strict=True) if kept}
        scan = len(self.line_keys) * len(self.kept_text) <= MAX_SCAN
        self.line_kept = [key in kept_keys or (scan and key in self.kept_text) for key in self.line_keys]
        self.held = self._size(self.shared) / max(1, self._size(keep))
        total = sum(len(line) for line in self.lines)
        self.covered = sum(len(line) for line, kept in zip(self.lines, self.line_kept, strict=True) if kept) / max(
            1, total
        )

    def _size(self, chosen: Sequence[bool]) -> int:
        return sum(size for size, taken in zip(self.sizes, chosen, strict=True) if taken)

    def cut(self) -> str:
        """trafilatura's lines without those that the blocks reject."""
        rejected = {key for key, kept in zip(self.keys, self.keep, strict=True) if key and not kept}
        pairs = zip(self.lines, self.line_keys, self.line_kept, strict=True)
        return "\n".join(line for line, key, kept in pairs if kept or key not in rejected)

    def after(self) -> float:
        """Of the blocks' text that trafilatura lacks, the share behind the last that it holds."""
        last = max((i for i, hit in enumerate(self.shared) if hit and len(self.keys[i]) > 20), default=-1)
        missing = [(i, self.sizes[i]) for i, kept in enumerate(self.keep) if kept and not self.shared[i]]
        return sum(size for i, size in missing if i > last) / max(1, sum(size for _, size in missing))

    def _name(self, index: int) -> tuple[str, ...]:
        box = self.page.boxes[self.page.blocks[index].box]
        return (box.tag, box.names, self.page.boxes[box.parent].names if box.parent >= 0 else "")

    def _alike(self) -> list[int]:
        """Kept blocks that trafilatura lacks, in boxes named like those of what it holds."""
        names = {self._name(i) for i, hit in enumerate(self.shared) if hit and self.sizes[i] > MIN_NAMING_CHARS}
        return [i for i, k in enumerate(self.keep) if k and not self.shared[i] and self._name(i) in names]

    def _left_out(self) -> list[int]:
        """What trafilatura lacks between its first line and its last, unlinked or in a box like those of its text."""
        hits = [i for i, hit in enumerate(self.shared) if hit and len(self.keys[i]) > 20]
        alike, blocks = set(self._alike()), self.page.blocks
        between = range(hits[0], hits[-1]) if hits else range(0)
        return [i for i in between if self.keep[i] and not self.shared[i] and (i in alike or not blocks[i].linked)]

    def gap(self) -> float:
        return sum(self.sizes[i] for i in self._left_out()) / max(1, self._size(self.keep))

    def filled(self, include_tables: bool) -> str:
        """The blocks that trafilatura holds, and what it left out between them."""
        more = set(self._left_out())
        return render(self.page, [hit or i in more for i, hit in enumerate(self.shared)], include_tables=include_tables)

    def alike(self) -> float:
        """Of the blocks' text that trafilatura lacks, the share in boxes named like those of what it holds."""
        missing = sum(size for size, k, hit in zip(self.sizes, self.keep, self.shared, strict=True) if k and not hit)
        return sum(self.sizes[i] for i in self._alike()) / max(1, missing)

    def prose_of(self, text: str) -> int:
        """Unlinked characters of a text in blocks that read like sentences."""
        whole = _key(text)
        return sum(b.prose for b, key in zip(self.page.blocks, self.keys, strict=True) if b.prose and key in whole)


def text_blocks(html: str) -> str:
    """All text of a page outside scripts, navigation, headers, footers and forms, a block a line."""
    try:
        tree = lxml.html.document_fromstring(XML_DECLARATION.sub("", html), parser=PARSER)
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
        edge = "\n" if element.tag in BLOCK_TAGS else ""
        pieces += [edge, element.text or ""] if event == "start" else [edge, element.tail or ""]
    lines = (SPACES.sub(" ", line).strip() for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)
