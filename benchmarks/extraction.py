"""Main text of web pages: danlu against trafilatura alone, on real pages with a known text.

    python benchmarks/extraction.py

Word F1 is that of the bags of words of text and gold (each CJK character a word). "all" are the pages with a full
gold text of any set; gold that is another tool's output is reported by its set and not counted there. `with` and
`without`: the share of snippets that are in the text, and that are not. Times are of this process alone, the two tools
one after the other on each page, from decoded text; trafilatura has its defaults.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import sys
import tarfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import trafilatura
import zstandard

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tasks.clean.decode.cascade import DecodeConfig, UndecodableError, decode_bytes
from tasks.clean.extract.main_text import main_text

ROOT = Path(__file__).resolve().parent.parent
TYPES = ("article", "documentation", "forum", "product", "service", "collection", "listing")
TOOLS: dict[str, Callable[[str], str]] = {
    "danlu": lambda html: main_text(html).text,
    "trafilatura": lambda html: trafilatura.extract(html) or "",
}
WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+"
)


@dataclass(slots=True)
class Result:
    groups: dict[str, dict[str, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    snippets: dict[str, dict[str, list[bool]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    seconds: Counter[str] = field(default_factory=Counter)
    pages: int = 0


def word_f1(text: str, gold: str) -> float:
    found, truth = Counter(WORD.findall(text.lower())), Counter(WORD.findall(gold.lower()))
    return 2 * (found & truth).total() / max(1, found.total() + truth.total())


def pages(folder: Path) -> dict[str, bytes]:
    with open(folder / "pages.tar.zst", "rb") as file:
        packed = zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(file).read()
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}  # type: ignore[union-attr]


def groups_of(row: dict) -> Iterable[str]:
    yield "set " + row["set"]
    if (row.get("lang") or "").startswith("zh"):
        yield "Chinese"
    if row["gold_kind"].startswith("full_text") and not row.get("spa"):
        half = sha256(row["file"].encode()).digest()[0] % 2
        yield from ("all", f"half {half}")
        if row.get("page_type"):
            yield row["page_type"]


def measure(data: Path) -> Result:
    """Every page with gold or snippets through both tools."""
    with gzip.open(data / "html" / "gold.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    content, result = pages(data / "html"), Result()
    for tool in TOOLS.values():  # their own first-use tables are not a page's time
        tool(content[rows[0]["file"]].decode("utf-8", "replace"))
    for row in rows:
        if not (row.get("text") or row.get("with") or row.get("without")):
            continue
        try:
            html = decode_bytes(content[row["file"]], None, True, DecodeConfig()).text
        except UndecodableError:
            html = content[row["file"]].decode("utf-8", "replace")
        result.pages += 1
        for name, tool in TOOLS.items():
            started = time.process_time()
            text = tool(html)
            result.seconds[name] += time.process_time() - started
            _score(result, name, row, text)
    return result


def _score(result: Result, tool: str, row: dict, text: str) -> None:
    if row.get("text"):
        for group in groups_of(row):
            result.groups[group][tool].append(word_f1(text, row["text"]))
    flat = " ".join(text.split())
    for kind in ("with", "without"):
        for snippet in row.get(kind) or []:
            found = " ".join(snippet.split()) in flat
            result.snippets[kind][tool].append(found == (kind == "with"))


def scores(result: Result, tool: str) -> dict[str, float]:
    """Mean word F1 by group."""
    return {group: sum(found[tool]) / len(found[tool]) for group, found in result.groups.items()}


def main() -> None:
    data = Path(os.environ.get("DANLU_DATA", ROOT.parent / "shared" / "data"))
    if not (data / "html").is_dir():
        sys.exit(f"no folder {data / 'html'}: set DANLU_DATA to where the shared test data is")
    result = measure(data)
    ours, theirs = scores(result, "danlu"), scores(result, "trafilatura")
    print(f"{'word F1':20}{'pages':>7}{'danlu':>9}{'trafilatura':>13}{'difference':>12}")
    order = ["all", "half 0", "half 1", *TYPES, "Chinese", *sorted(g for g in ours if g.startswith("set "))]
    for group in order:
        count = len(result.groups[group]["danlu"])
        print(f"{group:20}{count:7}{ours[group]:9.3f}{theirs[group]:13.3f}{ours[group] - theirs[group]:+12.3f}")
    for kind, by_tool in result.snippets.items():
        rates = {tool: sum(hits) / len(hits) for tool, hits in by_tool.items()}
        print(
            f"{kind + ' snippets right':20}{len(by_tool['danlu']):7}{rates['danlu']:9.3f}{rates['trafilatura']:13.3f}"
        )
    speed = {tool: result.pages / seconds for tool, seconds in result.seconds.items()}
    print(f"pages/s: danlu {speed['danlu']:.1f}, trafilatura {speed['trafilatura']:.1f}", end="; ")
    print(f"time danlu / trafilatura: {result.seconds['danlu'] / result.seconds['trafilatura']:.2f}")


if __name__ == "__main__":
    main()
