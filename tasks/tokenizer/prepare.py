"""What the trainer sees of a text, and which characters the vocabulary must hold.

Chinese characters are separable: no piece joins a Han character to anything else (kana, letters, a space), and none
holds more than `max_han_chars` of them. The reports put a space between all characters instead; that cannot be undone
when a text is decoded. A rule about pieces has the same effect, since a text can only be cut into pieces there are.
The trainer sees each run of Han characters as a line of its own (equal ones are counted once: a third of the time).

in    texts of the sample; characters counted per language group, over the whole corpus
out   lines; the characters of each group, most frequent first, up to its coverage
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from tasks.tokenizer.characters import CharCounts
from tasks.tokenizer.config import TokenizerConfig
from tasks.tokenizer.model import CHUNKS

HAN = "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
HAN_RUN = re.compile(f"[{HAN}]+")
AROUND_HAN = re.compile(f"([{HAN}]+)")


def lines_of(texts: Iterable[str]) -> Iterator[str]:
    """What the trainer sees: lines, the long ones cut. U+2581 would read as a space there, so it ends a line."""
    for text in texts:
        for line in text.replace("\u2581", "\n").split("\n"):
            for chunk in CHUNKS.findall(line):
                yield from filter(None, AROUND_HAN.split(chunk))


def is_allowed(piece: str, config: TokenizerConfig) -> bool:
    """Whether a piece may be in the vocabulary: Han apart from all else and short, single symbols alone."""
    if len(piece) == 1:
        return True
    if HAN_RUN.search(piece):
        return HAN_RUN.fullmatch(piece) is not None and len(piece) <= config.max_han_chars
    return not any(symbol in piece for symbol in config.single_symbols)


def covering(counts: Mapping[str, int], coverage: float) -> list[str]:
    """The fewest characters that make up `coverage` of all, most frequent first; equal ones by code point."""
    wanted, covered, chosen = coverage * sum(counts.values()), 0, []
    for char, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if covered >= wanted:
            break
        chosen.append(char)
        covered += count
    return chosen


def required_characters(
    characters: Mapping[str, CharCounts], quotas: Mapping[str, int], config: TokenizerConfig
) -> dict[str, list[str]]:
    """Group → the characters it must have as pieces; no group uses up its quota of pieces on them."""
    reserved = {"\n", "\t", "\0", "\u2581", "\u2585", *config.symbols}
    required = {}
    for group, counts in sorted(characters.items()):
        usable = {char: n for char, n in counts.items() if char not in reserved and not "\ud800" <= char <= "\udfff"}
        chars = covering(usable, config.coverage(group))
        required[group] = chars[: int(config.max_char_share * quotas.get(group, 0))]
    return required
