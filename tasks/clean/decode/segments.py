"""Content that changes its charset from line to line, or inside a line.

Files get this way when they are concatenated or when a program writes UTF-8 into a page whose template is older. A line
is UTF-8 where it decodes as such: chance makes short lines of other charsets valid, so the UTF-8 lines together must be
plausible. The other lines share one CJK charset, or, where none reads them, are Windows-1252 in an alphabetic text.

in    bytes that no single charset was declared for and that are not UTF-8 throughout
out   Decoded with encoding "utf-8+..." and the unreadable sequences counted; None where it is no such content
"""

from __future__ import annotations

from tasks.clean.decode.decoded import CJK_CANDIDATES, DecodeConfig, Decoded, strictly
from tasks.clean.decode.plausibility import disorder, plausibility

MIN_UTF8_CHARS = (
    4  # non-ASCII ones in alphabetic UTF-8 lines: two neighbouring high bytes hardly ever occur in Windows-1252
)
MAX_DISORDER = 0.1


def by_segments(content: bytes, config: DecodeConfig) -> Decoded | None:
    """`content` read line by line, if its lines are in UTF-8 and one other charset."""
    lines = content.split(b"\n")
    utf8: list[bytes] = []
    legacy: list[bytes] = []
    for line in lines:
        if not line.isascii():
            (legacy if strictly(line, "utf-8") is None else utf8).append(line)
    if len(utf8) < 2 or sum(map(len, utf8)) * 20 < len(content):
        return None
    if _readable(utf8, "utf-8") < config.min_plausibility:
        return _alphabetic(lines, utf8, legacy)
    codec = max(CJK_CANDIDATES, key=lambda candidate: _readable(legacy, candidate))
    text = "\n".join(_line(line, codec) for line in lines)
    bad, score = text.count("\ufffd"), plausibility(text)
    if bad > len(text) * config.max_replacement_ratio or score < config.min_plausibility:
        return None
    return Decoded(
        text=text, encoding=f"utf-8+{codec}", method="segments", confidence=min(1.0, score), replacements=bad
    )


def _alphabetic(lines: list[bytes], utf8: list[bytes], legacy: list[bytes]) -> Decoded | None:
    """UTF-8 and Windows-1252 lines of a text in an alphabet."""
    good = b"\n".join(utf8).decode("utf-8")
    other = strictly(b"\n".join(legacy), "cp1252")
    num_chars = len(good) - sum(char < "\x80" for char in good)
    if other is None or num_chars < MIN_UTF8_CHARS or max(disorder(good), disorder(other)) > MAX_DISORDER:
        return None
    text = "\n".join(line.decode("utf-8" if strictly(line, "utf-8") is not None else "cp1252") for line in lines)
    return Decoded(text=text, encoding="utf-8+cp1252", method="segments", confidence=1.0 - disorder(text))


def _readable(lines: list[bytes], codec: str) -> float:
    return plausibility("".join(line.decode(codec, "replace") for line in lines))


def _line(line: bytes, codec: str) -> str:
    """One line, in UTF-8, in `codec`, or changing from the one to the other inside."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        whole = line.decode(codec, "replace")
        split = line[: error.start].decode("utf-8") + line[error.start :].decode(codec, "replace")
        return split if plausibility(split) > plausibility(whole) else whole
