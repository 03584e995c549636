"""Real texts for the round-trip matrix of `charsets.py`: the languages that fit each charset, cut by a seed.

Each charset is sampled from its own languages in turn. Characters that it cannot hold are left out before cutting, and
a sample without any non-ASCII character is drawn again, since every charset would read it. Windows-1258 writes
Vietnamese tones as combining marks; its samples are encoded that way and compared as NFC.

in    data folder with langid/ and corpus/
out   (bytes, text) pairs
"""

from __future__ import annotations

import gzip
import json
import random
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

LENGTHS = (40, 200, 2_000)
WEST = ("fra", "deu", "spa", "ita", "por-BR", "nld", "swe", "dan", "nob", "fin", "isl")
WIDE = ("zh-Hans", "jpn", "kor", "zh-Hant", "rus", "arb", "eng-US", "fra", "hin", "tha")
LANGUAGES = {  # charset -> labels of langid/ntrex_docs.jsonl.gz, and the two law sets of corpus/
    "gb18030": ("zh-Hans", "laws-hans", "zh-Hant"),
    "gbk": ("zh-Hans", "laws-hans", "zh-Hant"),
    "big5": ("zh-Hant", "laws-hant"),
    "big5hkscs": ("zh-Hant", "laws-hant", "yue"),
    "euc-jp": ("jpn",),
    "shift_jis": ("jpn",),
    "euc-kr": ("kor",),
    "hz": ("zh-Hans", "laws-hans"),
    "utf-16": WIDE,  # with a byte-order mark
    "utf-16-le": WIDE,
    "utf-16-be": WIDE,
    "windows-1250": ("pol", "ces", "hun", "slk", "slv", "hrv", "ron"),
    "windows-1251": ("rus", "bul", "ukr", "srp-Cyrl", "mkd", "bel"),
    "windows-1252": WEST,
    "windows-1253": ("ell",),
    "windows-1254": ("tur",),
    "windows-1255": ("heb",),
    "windows-1256": ("arb", "fas"),
    "windows-1257": ("lit", "lav", "est"),
    "windows-1258": ("vie",),
}
VIETNAMESE_TONES = frozenset("\u0300\u0301\u0303\u0309\u0323")


def encode(text: str, charset: str) -> bytes:
    """`text` in `charset`; UnicodeEncodeError where it does not fit."""
    if charset != "windows-1258":
        return text.encode(charset)
    return "".join(map(_with_tone_apart, text)).encode(charset)


def _with_tone_apart(char: str) -> str:
    parts = unicodedata.normalize("NFD", char)
    tones = "".join(part for part in parts if part in VIETNAMESE_TONES)
    base = unicodedata.normalize("NFC", "".join(part for part in parts if part not in VIETNAMESE_TONES))
    return base + tones if tones else char


def fitting(text: str, charset: str) -> str:
    """`text` without the characters that `charset` cannot hold."""
    kept = set()
    for char in set(text):
        try:
            encode(char, charset)
        except UnicodeEncodeError:
            continue
        kept.add(char)
    return "".join(char for char in text if char in kept)


class Texts:
    """Texts by label, each label's documents joined."""

    def __init__(self, data: Path):
        pieces: dict[str, list[str]] = defaultdict(list)
        with gzip.open(data / "langid" / "ntrex_docs.jsonl.gz", "rt", encoding="utf-8", newline="\n") as file:
            for line in file:
                record = json.loads(line)
                pieces[record["label"]].append(record["text"])
        for script in ("hans", "hant"):
            column = pq.read_table(data / "corpus" / f"zh_{script}_laws.parquet", columns=["text"])["text"]
            pieces[f"laws-{script}"] = column.slice(0, 60).to_pylist()
        self._texts = {
            label: unicodedata.normalize("NFC", "\n".join(texts)).replace("\r\n", "\n")
            for label, texts in pieces.items()
        }

    def samples(self, charset: str, length: int, num: int, seed: int) -> Iterator[tuple[bytes, str]]:
        """`num` pieces of `length` characters that fit `charset`, as bytes and text."""
        rng = random.Random(f"{seed} {charset} {length}")
        labels = LANGUAGES.get(charset, WIDE)
        texts = {label: fitting(self._texts[label], charset) for label in labels}
        for number in range(num):
            text = texts[labels[number % len(labels)]]
            while True:
                start = rng.randrange(max(1, len(text) - length))
                piece = text[start : start + length]
                if not piece.isascii() or charset.startswith("utf-16"):
                    break
            yield encode(piece, charset), piece
