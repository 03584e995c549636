"""The main text of one web page.

in    str         a decoded page
out   MainText    paragraphs a line, table cells between "|"; "" where there is none
ref   Barbaresi 2021 (Trafilatura), ACL demo paper, https://aclanthology.org/2021.acl-demo.15
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import lxml.etree
import lxml.html
import trafilatura

BOILERPLATE = ("script", "style", "noscript", "template", "nav", "header", "footer", "aside", "form", "svg", "iframe")
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
CONTAINERS = ("p", "div", "section", "article", "blockquote", "pre", "figcaption", "table", "tr", "td", "th")
BLOCKS = frozenset((*HEADINGS, *CONTAINERS, "li", "dt", "dd", "br"))  # a line begins and ends with each
XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")  # lxml refuses a str that declares an encoding
SPACES = re.compile(r"[ \t\u3000]+")


@dataclass(frozen=True, slots=True)
class MainText:
    text: str  # "" where nothing was found
    method: str  # what found it: "trafilatura", or "fallback" (every block outside navigation), or "none"


def main_text(
    html: str, *, include_comments: bool = True, include_tables: bool = True, fallback: bool = True
) -> MainText:
    """The main text of a page and the method that found it."""
    found = trafilatura.extract(
        html,
        output_format="txt",
        include_comments=include_comments,
        include_tables=include_tables,
        include_formatting=False,
        include_links=False,
        include_images=False,
        deduplicate=False,  # its memory of earlier pages would make the output depend on their order
        with_metadata=False,
    )
    if found and found.strip():
        return MainText(found, "trafilatura")
    text = text_blocks(html) if fallback else ""
    return MainText(text, "fallback" if text else "none")


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
