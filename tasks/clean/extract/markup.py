"""Take light markup off text that is not a web page: front matter, comments, paired inline tags.

Code keeps its own angle brackets: what stands in a fenced or inline code span is never touched, and in plain text only
a tag that is closed again on the same line goes ("use the <b> tag" stays as it is).

in    str    Markdown, or plain text
out   str    the same text without the markup
"""

from __future__ import annotations

import re

FRONT_MATTER = re.compile(r"\A\ufeff?(---|\+\+\+)[ \t]*\n.{0,20000}?\n\1[ \t]*(?:\n|\Z)", re.DOTALL)
FRONT_MATTER_KEY = re.compile(r"^[\w\"'.-]+[ \t]*[:=]", re.MULTILINE)
COMMENT = re.compile(r"^[ \t]*<!--.*?-->[ \t]*\n|<!--.*?-->", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)[`~]*[ \t]*$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
INLINE = "strong|em|b|i|u|s|small|big|sup|sub|span|font|mark|center|a|p|div|h[1-6]"
PAIR = re.compile(rf"<({INLINE})(?:\s[^<>\n]{{0,300}})?>([^\n]*?)</\1\s*>", re.IGNORECASE)
BREAK = re.compile(r"<br\s*/?>\n?", re.IGNORECASE)
BLANK_LINES = re.compile(r"\n{4,}")
MAX_NESTING = 5


def strip_inline_tags(text: str) -> str:
    """`text` without paired inline tags; their content stays."""
    if "<" not in text:
        return text
    text = BREAK.sub("\n", text)
    for _ in range(MAX_NESTING):
        text, count = PAIR.subn(r"\2", text)
        if not count:
            break
    return text


def strip_markdown(text: str) -> str:
    """Markdown without front matter, HTML comments and inline tags; prose, tables, formulas and code stay."""
    front = FRONT_MATTER.match(text)
    if front and FRONT_MATTER_KEY.search(front.group()):
        text = text[front.end() :]
    if "<" in text:
        pieces, end = [], 0
        for code in CODE.finditer(text):
            pieces += [_prose(text[end : code.start()]), code.group()]
            end = code.end()
        text = "".join([*pieces, _prose(text[end:])])
    return BLANK_LINES.sub("\n\n\n", text)


def _prose(text: str) -> str:
    return strip_inline_tags(COMMENT.sub("", text)) if "<" in text else text
