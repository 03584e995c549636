"""Fenced code in Markdown: where it stands, and a text without it.

in    text
out   (start, end) of the blocks, from the line that opens to the line that closes
ref   CommonMark 0.31, section 4.5
"""

from __future__ import annotations

import re

MARK = re.compile("```+|~~~+")


def fences(text: str, *, to_end: bool = False) -> list[tuple[int, int]]:
    """Blocks in order; one that never closes is none, or lasts to the end of a text that is cut (`to_end`)."""
    if "```" not in text and "~~~" not in text:
        return []
    blocks: list[tuple[int, int]] = []
    start, opening = -1, ""
    for match in MARK.finditer(text):
        line = text.rfind("\n", 0, match.start()) + 1
        if text[line : match.start()].strip(" \t>"):
            continue  # within a line: code in prose
        mark, end = match[0], text.find("\n", match.end())
        end = len(text) if end < 0 else end + 1
        if start < 0:
            start, opening = line, mark
        elif mark.startswith(opening) and not text[match.end() : end].strip():
            blocks.append((start, end))
            start = -1
    return [*blocks, (start, len(text))] if to_end and start >= 0 else blocks


def without_fences(text: str, *, to_end: bool = False) -> str:
    """`text` without fenced blocks."""
    blocks = fences(text, to_end=to_end)
    if not blocks:
        return text
    edges = [0, *(edge for block in blocks for edge in block), len(text)]
    return "".join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
