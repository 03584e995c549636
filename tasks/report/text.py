"""Make hostile text and bytes fit to look at.

HTML escaping (the template's) stops markup; this stops what escaping lets through: control characters, lone
surrogates (which no UTF-8 file can hold), and the bidirectional overrides that make text read other than it is.
They are shown as their escapes, so that a reviewer sees what is there.
"""

from __future__ import annotations

import re

# C0 and C1 controls but tab and line feed; zero-width and direction marks; line separators; surrogates; byte order
# mark; noncharacters
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\uffff]"
)


def visible(text: str, max_chars: int) -> str:
    """The first `max_chars` characters of `text`, hidden characters as `\\u202e`, the rest counted."""
    shown = HIDDEN.sub(lambda match: escape(match.group()), text[:max_chars])
    more = len(text) - max_chars
    return f"{shown} … ({more:,} more characters)" if more > 0 else shown


def visible_bytes(content: bytes, max_bytes: int) -> str:
    """The first `max_bytes` bytes: UTF-8 where it is, `\\xNN` where it is not."""
    shown = visible(content[:max_bytes].decode("utf-8", "backslashreplace"), 4 * max_bytes)
    more = len(content) - max_bytes
    return f"{shown} … ({more:,} more bytes)" if more > 0 else shown


def escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
