"""How many pages that JavaScript fills are recognised, and how many ordinary ones are taken for such.

    python benchmarks/javascript_pages.py

Data: html/ and corpus/ of the folder that DANLU_DATA names, or of ../shared/data. The rules of `shells.py` were made
with all pages of html/ in view, so its figures say how well the rules fit, not how well they generalise; the manuals
and books of corpus/ were looked at only for false alarms. Prints each miss and each false alarm.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import zstandard

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tasks.clean.extract.page import read_page  # noqa: E402

ORDINARY = ("handbook_html", "debian_reference", "python_doc_html", "en_books_xhtml")
SETTINGS = {"include_comments": True, "include_tables": True, "fallback": True}


def load(folder: Path) -> tuple[list[dict], dict[str, bytes]]:
    """Gold records, and page bytes by file name."""
    with gzip.open(folder / "gold.jsonl.gz", "rt", encoding="utf-8") as file:
        gold = [json.loads(line) for line in file]
    pages = {}
    with open(folder / "pages.tar.zst", "rb") as packed:
        unpacked = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed)
        with tarfile.open(fileobj=unpacked, mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member)
                if content is not None:
                    pages[member.name] = content.read()
    return gold, pages


def archive(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each HTML file in a .tar.zst archive."""
    with open(path, "rb") as packed:
        unpacked = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed)
        with tarfile.open(fileobj=unpacked, mode="r|") as members:
            for member in members:
                content = members.extractfile(member)
                if content is not None and member.name.endswith("html"):
                    yield member.name, content.read()


def pages_of(data: Path) -> Iterator[tuple[str, str, bool, bytes]]:
    """Set, file name, whether JavaScript fills it, bytes."""
    gold, pages = load(data / "html")
    for record in gold:
        yield "html", record["file"], bool(record.get("spa")), pages[record["file"]]
    for path in (data / "corpus" / f"{name}.tar.zst" for name in ORDINARY):
        if path.is_file():
            yield from ((path.name.partition(".")[0], name, False, page) for name, page in archive(path))


def main() -> None:
    data = Path(os.environ.get("DANLU_DATA", ROOT.parent / "shared" / "data"))
    if not (data / "html").is_dir():
        sys.exit(f"no folder {data / 'html'}: set DANLU_DATA to the folder of the test data")
    counts: dict[tuple[str, bool], list[int]] = {}
    for group, name, filled, content in pages_of(data):
        page = read_page(content.decode("utf-8", "replace"), SETTINGS)
        flagged = page.javascript is not None
        cell = counts.setdefault((group, filled), [0, 0])
        cell[0] += flagged
        cell[1] += 1
        if filled != flagged:
            kind = "missed" if filled else "false alarm"
            print(f"{kind:12}{group}/{name}  {page.javascript}  text {len(page.text):,} characters")
    print(f"\n{'':36}{'flagged':>10}{'of':>8}")
    for (group, filled), (flagged_pages, total) in counts.items():
        kind = "filled by JavaScript" if filled else "ordinary"
        print(f"{f'{group}, {kind}':36}{flagged_pages:>10,}{total:>8,}{flagged_pages / total:>8.1%}")


if __name__ == "__main__":
    main()
